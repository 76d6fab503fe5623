/* SPDX-License-Identifier: Apache-2.0 */
/* Training that was run here: its steps, its operators, and what was expected of both. */
#include "report/analyses/registry.h"

#include <math.h>

static const orr_column step_columns[] = {
    ORR_COL_(orr_train_step, step, I64),
    ORR_COL_(orr_train_step, loss, NUMBER),
    ORR_COL_(orr_train_step, gradient_norm, NUMBER),
    ORR_COL_AS_(orr_train_step, rate, NUMBER, "learning_rate"),
    ORR_COL_(orr_train_step, tokens, I64),
    ORR_COL_(orr_train_step, step_ns, NS),
    ORR_COL_(orr_train_step, reward, NUMBER),
    ORR_COL_(orr_train_step, kl, NUMBER),
    ORR_COL_(orr_train_step, auc, NUMBER),
    ORR_COL_(orr_train_step, contributors, I64),
    ORR_COL_(orr_train_step, retries, I64),
};

static double error_of(double expected, double seen)
{
    return seen > 0 && expected >= 0 ? expected / seen - 1 : NAN;
}

typedef struct operator_row {
    const char *operator_name, *pass;
    double calls, flops_per_s, bytes_per_s;
    int64_t ns, expected_ns; /* -1: not said */
    double share_frac, error_frac;
} operator_row;

#define C(field, type)        ORR_COL_(operator_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(operator_row, field, type, name)
static const orr_column operator_columns[] = {
    AS(operator_name, TEXT, "operator"),
    C(pass, TEXT),
    C(calls, NUMBER),
    C(ns, NS),
    C(share_frac, FRAC),
    C(flops_per_s, NUMBER),
    C(bytes_per_s, BYTES_PER_S),
};
static const orr_column expected_columns[] = {
    AS(operator_name, TEXT, "operator"),
    C(pass, TEXT),
    C(calls, NUMBER),
    C(ns, NS),
    C(share_frac, FRAC),
    C(expected_ns, NS),
    C(error_frac, FRAC),
};
#undef C
#undef AS

static const orr_predicted_op *expected_of(const orr_predicted_step *expected,
                                           const orr_train_op *op)
{
    for (uint32_t i = 0; expected != NULL && i < expected->n_ops; i++)
        if (expected->ops[i].op == op->op && expected->ops[i].pass == op->pass)
            return &expected->ops[i];
    return NULL;
}

static orr_status operator_table(const orr_train_result *r, const orr_predicted_step *expected,
                                 orr_arena *arena, orr_table *ret, orr_error *err)
{
    operator_row *rows = orr_arena_array(arena, operator_row, r->n_ops);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < r->n_ops; i++) {
        const orr_train_op *op = &r->ops[i];
        const orr_predicted_op *e = expected_of(expected, op);
        const double s = (double)op->ns / 1e9;
        rows[i] =
            (operator_row){.operator_name = op->name,
                           .pass = orr_pass_name((orr_pass)op->pass),
                           .calls = op->calls,
                           .ns = op->ns,
                           .flops_per_s = s > 0 ? op->flops / s : 0,
                           .bytes_per_s = s > 0 ? op->bytes / s : 0,
                           .share_frac = r->step_ns > 0 ? (double)op->ns / (double)r->step_ns : 0,
                           .expected_ns = e != NULL ? e->ns : -1,
                           .error_frac = e != NULL ? error_of((double)e->ns, (double)op->ns) : NAN};
    }
    if (expected != NULL)
        *ret = ORR_TABLE_("orrery.expected_operators/1",
                          "operators of a step of rank 0, beside what was expected",
                          expected_columns, rows, r->n_ops);
    else
        *ret = ORR_TABLE_("orrery.run_operators/1", "operators of a step of rank 0",
                          operator_columns, rows, r->n_ops);
    return ORR_OK;
}

typedef struct figure_row {
    const char *figure, *unit;
    double expected, seen, error_frac;
} figure_row;

#define C(field, type)        ORR_COL_(figure_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(figure_row, field, type, name)
static const orr_column figure_columns[] = {C(figure, TEXT), C(expected, NUMBER),
                                            AS(seen, NUMBER, "measured"), C(unit, TEXT),
                                            C(error_frac, FRAC)};
#undef C
#undef AS

static orr_status figure_table(const orr_train_result *r, const orr_predicted_step *e,
                               orr_arena *arena, orr_table *ret, orr_error *err)
{
    figure_row *rows = orr_arena_array(arena, figure_row, 2);
    if (rows == NULL)
        return orr_fail_memory(err);
    const double ms = 1e6, mib = 1 << 20;
    if (e != NULL) {
        rows[0] =
            (figure_row){"step time", "ms", (double)e->step_ns / ms, (double)r->step_ns / ms, 0};
        rows[1] = (figure_row){"peak memory of a rank", "MiB", (double)e->peak_bytes / mib,
                               (double)r->peak_bytes / mib, 0};
        for (int i = 0; i < 2; i++)
            rows[i].error_frac = error_of(rows[i].expected, rows[i].seen);
    }
    *ret = ORR_TABLE_("orrery.expected/1", "expected, and measured", figure_columns, rows,
                      e != NULL ? 2 : 0);
    return ORR_OK;
}

orr_status orr_training_tables(const orr_train_result *result, const orr_predicted_step *expected,
                               orr_arena *arena, orr_named_table ret[ORR_TRAINING_TABLES],
                               orr_error *err)
{
    ret[0] = (orr_named_table){"steps", ORR_TABLE_("orrery.training/1", "steps", step_columns,
                                                   result->history, (size_t)result->steps)};
    ret[1].name = "operators";
    ORR_TRY(operator_table(result, expected, arena, &ret[1].table, err));
    ret[2].name = "expected";
    return figure_table(result, expected, arena, &ret[2].table, err);
}
