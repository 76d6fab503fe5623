/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "report/analyses/registry.h"
#include "report/experts/parts.h"

/* --- kinds of requests ------------------------------------------------------------------------ */

typedef struct kind_row {
    const char *kind;
    uint32_t requests;
    uint64_t tokens;
} kind_row;

static const orr_column kind_columns[] = {
    ORR_COL_(kind_row, kind, TEXT),
    ORR_COL_(kind_row, requests, U32),
    ORR_COL_(kind_row, tokens, U64),
};

orr_status orr_experts_kind_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                                  orr_error *err)
{
    const orr_expert_statistics *s = r->statistics;
    const uint32_t n = s->kinds > 1 ? s->kinds : 0;
    kind_row *rows = orr_arena_array(arena, kind_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < n; k++)
        rows[k] = (kind_row){r->routes->kind_name[k], 0, s->kind_tokens[k]};
    for (uint32_t i = 0; n > 0 && i < r->routes->requests; i++)
        if (r->routes->kind[i] < n)
            rows[r->routes->kind[i]].requests++;
    *ret = ORR_TABLE_("orrery.experts_kinds/1", "kinds of requests", kind_columns, rows, n);
    return ORR_OK;
}

typedef struct shift_row {
    const char *kind, *other;
    double mean, worst, mean_without, worst_without;
    uint32_t worst_layer, worst_layer_without;
} shift_row;

static const orr_column shift_columns[] = {
    ORR_COL_(shift_row, kind, TEXT),
    ORR_COL_(shift_row, other, TEXT),
    ORR_COL_(shift_row, mean, NUMBER),
    ORR_COL_(shift_row, worst, NUMBER),
    ORR_COL_(shift_row, worst_layer, U32),
    ORR_COL_(shift_row, mean_without, NUMBER),
    ORR_COL_(shift_row, worst_without, NUMBER),
    ORR_COL_(shift_row, worst_layer_without, U32),
};

orr_status orr_experts_shift_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                                   orr_error *err)
{
    const orr_expert_statistics *s = r->statistics;
    const bool twice = s->concentrated > 0;
    shift_row *rows = orr_arena_array(arena, shift_row, s->n_shift);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < s->n_shift; i++) {
        const orr_expert_kind_shift *shift = &s->shift[i];
        rows[i] = (shift_row){.kind = r->routes->kind_name[shift->a],
                              .other = shift->a == shift->b ? "its other half"
                                                            : r->routes->kind_name[shift->b],
                              .mean = shift->all.mean,
                              .worst = shift->all.worst,
                              .worst_layer = shift->all.worst_layer,
                              .mean_without = twice ? shift->without.mean : NAN,
                              .worst_without = twice ? shift->without.worst : NAN,
                              .worst_layer_without = twice ? shift->without.worst_layer : ORR_NONE};
    }
    *ret = ORR_TABLE_("orrery.experts_shift/1",
                      "distance of the loads of two kinds, over layers; halves: of its requests",
                      shift_columns, rows, s->n_shift);
    return ORR_OK;
}

/* --- windows ---------------------------------------------------------------------------------- */

typedef struct window_row {
    uint32_t window, worst_layer;
    double load, imbalance, distance, worst_distance, statistic, threshold, imbalance_placed;
    const char *drifted;
} window_row;

static const orr_column window_columns[] = {
    ORR_COL_(window_row, window, U32),
    ORR_COL_(window_row, load, NUMBER),
    ORR_COL_(window_row, imbalance, NUMBER),
    ORR_COL_(window_row, distance, NUMBER),
    ORR_COL_(window_row, worst_distance, NUMBER),
    ORR_COL_(window_row, worst_layer, U32),
    ORR_COL_(window_row, drifted, TEXT),
    ORR_COL_(window_row, statistic, NUMBER),
    ORR_COL_(window_row, threshold, NUMBER),
    ORR_COL_(window_row, imbalance_placed, NUMBER),
};

static double sum_of(const double *load, uint32_t n)
{
    double sum = 0;
    for (uint32_t e = 0; e < n; e++)
        sum += load[e];
    return sum;
}

/* Loads of a window beside those of the window before it. */
static window_row window_row_of(const orr_experts_report *r, uint32_t window)
{
    const orr_expert_windows *w = r->windows;
    const size_t size = (size_t)w->layers * w->experts;
    window_row row = {.window = window,
                      .worst_layer = ORR_NONE,
                      .distance = window > 0 ? 0 : NAN,
                      .worst_distance = window > 0 ? -1 : NAN,
                      .imbalance = NAN,
                      .statistic = NAN,
                      .threshold = NAN,
                      .imbalance_placed = NAN};
    double imbalance = 0;
    for (uint32_t l = 0; l < w->layers; l++) {
        const double *now = w->load + window * size + (size_t)l * w->experts, *last = now - size;
        const double all = sum_of(now, w->experts);
        row.load += all;
        if (r->ranks > 1 && r->ranks <= w->experts)
            imbalance += orr_expert_linear_imbalance_of(now, w->experts, r->ranks) / w->layers;
        if (window == 0)
            continue;
        const double before = sum_of(last, w->experts);
        double distance = 0;
        for (uint32_t e = 0; e < w->experts; e++)
            distance += fabs(now[e] / all - last[e] / before) / 2;
        row.distance += distance / w->layers;
        if (distance > row.worst_distance) {
            row.worst_distance = distance;
            row.worst_layer = w->number[l];
        }
    }
    row.imbalance = imbalance > 0 ? imbalance : NAN;
    return row;
}

orr_status orr_experts_window_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                                    orr_error *err)
{
    const uint32_t n = r->windows != NULL && r->windows->windows > 1 ? r->windows->windows : 0;
    window_row *rows = orr_arena_array(arena, window_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t w = 0; w < n; w++) {
        rows[w] = window_row_of(r, w);
        if (r->drift == NULL || w == 0)
            continue;
        const orr_expert_drift *drift = &r->drift[w - 1];
        rows[w].drifted = drift->drifted ? "yes" : "no";
        rows[w].statistic = drift->statistic;
        rows[w].threshold = drift->threshold;
        rows[w].imbalance_placed = drift->imbalance_now;
    }
    *ret = ORR_TABLE_("orrery.experts_windows/1",
                      "windows; distance: of loads from those of the window before", window_columns,
                      rows, n);
    return ORR_OK;
}
