/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEST_MODEL_BUILT_H
#define ORR_TEST_MODEL_BUILT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/module/module.h"

/* Modules of a model of the catalogue, by name and plan. */
typedef struct built {
    orr_arena *arena;
    const orr_model *model;
    orr_plan plan;
    orr_module_sequence row;
    orr_status status;
    orr_error err;
} built;

static inline built build_workload(const char *name, const char *plan, const orr_workload *workload)
{
    built b = {.arena = orr_arena_new(0, 0)};
    const orr_model *model;
    orr_plan asked;
    assert_non_null(b.arena);
    if (orr_model_load(name, b.arena, &model, &b.err) != ORR_OK ||
        orr_plan_parse(plan, &asked, &b.err) != ORR_OK ||
        orr_model_override(model, &asked, b.arena, &b.model, &b.err) != ORR_OK)
        fail_msg("%s, %s: %s", name, plan, b.err.text);
    b.plan = orr_plan_with_defaults(&asked);
    b.status = orr_modules_build(b.model, &b.plan, workload, b.arena, &b.row, &b.err);
    return b;
}

static inline built build(const char *name, const char *plan)
{
    const orr_workload training = {.task = ORR_TASK_PRETRAIN};
    const built b = build_workload(name, plan, &training);
    if (b.status != ORR_OK)
        fail_msg("%s, %s: %s", name, plan, b.err.text);
    return b;
}

static inline void done(built *b)
{
    orr_arena_free(b->arena);
}

/* The first module of the kind. */
static inline const orr_module *module_of(const built *b, orr_module_kind kind)
{
    for (uint32_t i = 0; i < b->row.n_modules; i++)
        if (b->row.modules[i].kind == kind)
            return &b->row.modules[i];
    fail_msg("no such module");
    return NULL;
}

/* Calls of an operator in a pass along an axis (ORR_AXIS_NONE: of any). */
static inline uint32_t calls_of(const orr_module *module, orr_op op, orr_pass pass, orr_axis axis)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        const orr_tape_call *call = &module->tape->calls[c];
        n += call->op == op && call->pass == pass &&
             (axis == ORR_AXIS_NONE || call->args.axis == axis);
    }
    return n;
}

/* From its forward to its backward pass, without parameters. */
static inline int64_t kept_bytes(const orr_module *module)
{
    int64_t bytes = 0;
    for (orr_value v = 0; v < module->tape->n_values; v++)
        if (orr_tape_is_saved(module->tape, v) &&
            module->tape->values[v].role != ORR_VALUE_PARAMETER)
            bytes += orr_type_bytes(&module->tape->values[v].type);
    return bytes;
}

static inline double flops_of(const orr_module *module, orr_pass pass)
{
    double flops = 0;
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        orr_op_work work;
        if (module->tape->calls[c].pass != pass)
            continue;
        orr_tape_work(module->tape, c, &work);
        flops += work.flops;
    }
    return flops;
}

/* Of matrix products, attention's too, alone. */
static inline double product_flops_of(const orr_module *module, orr_pass pass)
{
    double flops = 0;
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        const orr_tape_call *call = &module->tape->calls[c];
        const orr_op_family family = (orr_op_family)orr_op_of((orr_op)call->op)->family;
        orr_op_work work;
        if (call->pass != pass ||
            (family != ORR_OP_FAMILY_MATMUL && family != ORR_OP_FAMILY_ATTENTION))
            continue;
        orr_tape_work(module->tape, c, &work);
        flops += work.flops;
    }
    return flops;
}

#endif /* ORR_TEST_MODEL_BUILT_H */
