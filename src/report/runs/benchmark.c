/* SPDX-License-Identifier: Apache-2.0 */
/* A recording that was run as a benchmark, beside itself. */
#include "report/analyses/registry.h"

#include <math.h>

typedef struct figure_row {
    const char *figure, *unit;
    double recorded, replayed, ratio;
} figure_row;

#define C(field, type)        ORR_COL_(figure_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(figure_row, field, type, name)
static const orr_column figure_columns[] = {C(figure, TEXT), C(recorded, NUMBER),
                                            C(replayed, NUMBER), C(unit, TEXT), C(ratio, NUMBER)};
#undef C
#undef AS

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

enum { FIGURES_MAX = 12 };
static uint32_t list_figures(const orr_replay_result *r, figure_row *rows)
{
    const double ms = 1e6, all = (double)r->operators;
    const double bytes_per_s = ratio(r->bytes * 1e9, (double)r->replayed_ns);
    const figure_row figures[FIGURES_MAX] = {
        {"span", "ms", (double)r->recorded_ns / ms, (double)r->replayed_ns / ms, NAN},
        {"fastest run", "ms", NAN, (double)r->fastest_ns / ms, NAN},
        {"slowest run", "ms", NAN, (double)r->slowest_ns / ms, NAN},
        {"operators", "", all, (double)r->covered, NAN},
        {"time of operators covered", "ms", (double)r->operator_ns / ms, (double)r->covered_ns / ms,
         NAN},
        {"FLOPs", "FLOP", NAN, r->flops, NAN},
        {"bytes", "bytes", NAN, r->bytes, NAN},
        {"bandwidth", "GB/s", NAN, bytes_per_s / 1e9, NAN},
        {"memory", "MiB", NAN, (double)r->memory_bytes / (1 << 20), NAN},
        {"cache misses", "", NAN, r->cache_misses >= 0 ? (double)r->cache_misses : NAN, NAN},
        {"instructions", "", NAN, r->instructions >= 0 ? (double)r->instructions : NAN, NAN},
        {"cycles", "", NAN, r->cycles >= 0 ? (double)r->cycles : NAN, NAN},
    };
    uint32_t n = 0;
    for (uint32_t i = 0; i < FIGURES_MAX; i++) {
        if (isnan(figures[i].replayed))
            continue;
        rows[n] = figures[i];
        rows[n].ratio = isnan(rows[n].recorded) ? NAN : ratio(rows[n].replayed, rows[n].recorded);
        n++;
    }
    return n;
}

typedef struct class_row {
    const char *operator_name, *how, *why;
    uint64_t count;
    int64_t recorded_ns, replayed_ns;
    double ratio, share_frac;
} class_row;

#define C(field, type)        ORR_COL_(class_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(class_row, field, type, name)
static const orr_column class_columns[] = {
    AS(operator_name, TEXT, "operator"),
    AS(how, TEXT, "mode"),
    C(count, U64),
    C(recorded_ns, NS),
    C(share_frac, FRAC),
    C(replayed_ns, NS),
    C(ratio, NUMBER),
    AS(why, TEXT, "reason"),
};
#undef C
#undef AS

orr_status orr_benchmark_tables(const orr_replay_result *r, orr_arena *arena,
                                orr_named_table ret[ORR_BENCHMARK_TABLES], orr_error *err)
{
    figure_row *figures = orr_arena_array(arena, figure_row, FIGURES_MAX);
    class_row *classes = orr_arena_array(arena, class_row, r->n_ops);
    if (figures == NULL || classes == NULL)
        return orr_fail_memory(err);
    const uint32_t n = list_figures(r, figures);
    for (uint32_t i = 0; i < r->n_ops; i++) {
        const orr_replay_op *op = &r->ops[i];
        classes[i] =
            (class_row){.operator_name = op->name,
                        .how = op->how,
                        .why = op->why,
                        .count = op->count,
                        .recorded_ns = op->recorded_ns,
                        .replayed_ns = op->replayed_ns,
                        .ratio = ratio((double)op->replayed_ns, (double)op->recorded_ns),
                        .share_frac = ratio((double)op->recorded_ns, (double)r->operator_ns)};
    }
    ret[0] =
        (orr_named_table){"figures", ORR_TABLE_("orrery.benchmark/1", "recorded, and replayed here",
                                                figure_columns, figures, n)};
    ret[1] = (orr_named_table){"operators", ORR_TABLE_("orrery.benchmark_operators/1", "operators",
                                                       class_columns, classes, r->n_ops)};
    return ORR_OK;
}
