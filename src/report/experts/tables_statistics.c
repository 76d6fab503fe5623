/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "report/analyses/registry.h"
#include "report/experts/parts.h"

/* --- figures ---------------------------------------------------------------------------------- */

typedef struct figure_row {
    const char *figure, *unit;
    double value;
} figure_row;

static const orr_column figure_columns[] = {
    ORR_COL_(figure_row, figure, TEXT),
    ORR_COL_(figure_row, value, NUMBER),
    ORR_COL_(figure_row, unit, TEXT),
};

static orr_status figure_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    const orr_expert_statistics *s = r->statistics;
    const orr_routes *routes = r->routes;
    const figure_row all[] = {
        {"layers", "", s->layers},
        {"experts", "of a layer", s->experts},
        {"experts_per_token", "", routes != NULL ? (double)s->top_k : NAN},
        {"concentrated_layers", "", s->concentrated},
        {"tokens", "", routes != NULL ? (double)s->tokens : NAN},
        {"prefill_tokens", "", routes != NULL ? (double)s->prefill_tokens : NAN},
        {"warm_up_tokens", "left out", routes != NULL ? (double)routes->warm_up : NAN},
        {"requests", "", routes != NULL ? (double)routes->requests : NAN},
        {"requests_without_prefill", "", routes != NULL ? (double)s->request.without_prefill : NAN},
        {"requests_without_decode", "", routes != NULL ? (double)s->request.without_decode : NAN},
        {"kinds", "of requests", routes != NULL ? (double)routes->kinds : NAN},
        {"windows", "", r->windows != NULL ? (double)r->windows->windows : NAN},
        {"prefill_to_own_decode", "correlation", s->request.own},
        {"prefill_to_own_decode_low", "correlation, 5th percentile", s->request.own_low},
        {"prefill_to_other_decode", "correlation", s->request.other},
    };
    enum { N = sizeof all / sizeof *all };
    figure_row *rows = orr_arena_array(arena, figure_row, N);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < N; i++)
        if (isfinite(all[i].value))
            rows[n++] = all[i];
    *ret = ORR_TABLE_("orrery.experts_figures/1", "the routes", figure_columns, rows, n);
    return ORR_OK;
}

/* --- figures over layers ---------------------------------------------------------------------- */

typedef struct spread_row {
    const char *figure;
    double mean, tail, worst, mean_without, tail_without, worst_without;
    uint32_t worst_layer, worst_layer_without;
} spread_row;

static const orr_column spread_columns[] = {
    ORR_COL_(spread_row, figure, TEXT),
    ORR_COL_(spread_row, mean, NUMBER),
    ORR_COL_(spread_row, tail, NUMBER),
    ORR_COL_(spread_row, worst, NUMBER),
    ORR_COL_(spread_row, worst_layer, U32),
    ORR_COL_(spread_row, mean_without, NUMBER),
    ORR_COL_(spread_row, tail_without, NUMBER),
    ORR_COL_(spread_row, worst_without, NUMBER),
    ORR_COL_(spread_row, worst_layer_without, U32),
};

#define FIGURE(field)                                                                              \
    static double get_##field(const orr_expert_layer_statistics *layer)                            \
    {                                                                                              \
        return layer->field;                                                                       \
    }
FIGURE(top_frac)
FIGURE(effective_experts)
FIGURE(phase_correlation)
FIGURE(kind_distance)
FIGURE(pair_distance)
FIGURE(next_accuracy_frac)
FIGURE(next_baseline_frac)
FIGURE(mutual_bits)
#undef FIGURE

static const orr_experts_figure figures[] = {
    {"top_expert_frac", get_top_frac, false, false},
    {"effective_experts", get_effective_experts, true, false},
    {"prefill_to_decode_correlation", get_phase_correlation, true, false},
    {"distance_of_kinds", get_kind_distance, false, false},
    {"distance_of_pairs_from_independence", get_pair_distance, true, false},
    {"next_layer_accuracy_frac", get_next_accuracy_frac, true, true},
    {"next_layer_baseline_frac", get_next_baseline_frac, true, true},
    {"next_layer_information_bits", get_mutual_bits, true, true},
};
enum { FIGURES = sizeof figures / sizeof *figures };

const orr_experts_figure *orr_experts_figure_find(const char *name)
{
    const orr_experts_figure *figure = figures;
    while (strcmp(figure->name, name) != 0)
        figure++;
    return figure;
}

orr_status orr_experts_spread_of(const orr_expert_statistics *s, const orr_experts_figure *figure,
                                 orr_arena *arena, orr_expert_spread *ret_all,
                                 orr_expert_spread *ret_without, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    double *value = orr_arena_array(arena, double, s->layers),
           *room = orr_arena_array(arena, double, s->layers);
    if (value == NULL || room == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < s->layers; l++)
        value[l] = figure->get(&s->of_layer[l]);
    *ret_all = orr_expert_spread_of(s, value, figure->low_is_bad, true, room);
    for (uint32_t l = 0; l + 1 < s->layers && figure->of_next; l++)
        value[l] = s->of_layer[l + 1].concentrated ? NAN : value[l];
    *ret_without = orr_expert_spread_of(s, value, figure->low_is_bad, false, room);
    orr_arena_rewind(arena, mark);
    return ORR_OK;
}

/* Columns of what is without concentrated layers stay empty where there are none. */
static spread_row spread_row_of(const orr_expert_statistics *s, const char *figure,
                                const orr_expert_spread *all, const orr_expert_spread *without)
{
    const orr_expert_spread none = {NAN, NAN, NAN, ORR_NONE};
    const orr_expert_spread *w = s->concentrated > 0 ? without : &none;
    return (spread_row){.figure = figure,
                        .mean = all->mean,
                        .tail = all->tail,
                        .worst = all->worst,
                        .worst_layer = all->worst_layer,
                        .mean_without = w->mean,
                        .tail_without = w->tail,
                        .worst_without = w->worst,
                        .worst_layer_without = w->worst_layer};
}

static orr_status spread_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    const orr_expert_statistics *s = r->statistics;
    spread_row *rows = orr_arena_array(arena, spread_row, FIGURES + s->n_imbalance);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < s->n_imbalance; i++) {
        const orr_expert_linear_imbalance *row = &s->imbalance[i];
        const char *name = orr_arena_printf(arena, "imbalance_of_%u_ranks", row->ranks);
        if (name == NULL)
            return orr_fail_memory(err);
        rows[n++] = spread_row_of(s, name, &row->all, &row->without);
    }
    for (uint32_t i = 0; i < FIGURES; i++) {
        orr_expert_spread all, without;
        ORR_TRY(orr_experts_spread_of(s, &figures[i], arena, &all, &without, err));
        if (all.worst_layer != ORR_NONE)
            rows[n++] = spread_row_of(s, figures[i].name, &all, &without);
    }
    *ret = ORR_TABLE_("orrery.experts_spread/1",
                      s->concentrated > 0
                          ? "over layers; tail: the worst 5 %; without the concentrated layers"
                          : "over layers; tail: the worst 5 %",
                      spread_columns, rows, n);
    return ORR_OK;
}

/* --- layers ----------------------------------------------------------------------------------- */

typedef struct layer_row {
    uint32_t layer, top_expert, unused;
    bool concentrated;
    const char *pair;
    double top_frac, effective_experts, imbalance, phase_correlation, kind_distance, pair_frac,
        pair_lift, pair_distance, pair_noise, next_accuracy_frac, next_baseline_frac, mutual_bits,
        next_bits;
} layer_row;

static const orr_column layer_columns[] = {
    ORR_COL_(layer_row, layer, U32),
    ORR_COL_(layer_row, top_expert, U32),
    ORR_COL_(layer_row, top_frac, FRAC),
    ORR_COL_(layer_row, concentrated, BOOL),
    ORR_COL_(layer_row, unused, U32),
    ORR_COL_(layer_row, effective_experts, NUMBER),
    ORR_COL_(layer_row, imbalance, NUMBER),
    ORR_COL_(layer_row, phase_correlation, NUMBER),
    ORR_COL_(layer_row, kind_distance, NUMBER),
    ORR_COL_(layer_row, pair, TEXT),
    ORR_COL_(layer_row, pair_frac, FRAC),
    ORR_COL_(layer_row, pair_lift, NUMBER),
    ORR_COL_(layer_row, pair_distance, NUMBER),
    ORR_COL_(layer_row, pair_noise, NUMBER),
    ORR_COL_(layer_row, next_accuracy_frac, FRAC),
    ORR_COL_(layer_row, next_baseline_frac, FRAC),
    ORR_COL_(layer_row, mutual_bits, NUMBER),
    ORR_COL_(layer_row, next_bits, NUMBER),
};

double orr_experts_linear_imbalance(const orr_experts_report *report, uint32_t layer)
{
    const orr_expert_statistics *s = report->statistics;
    return report->ranks > 1 && report->ranks <= s->experts
               ? orr_expert_linear_imbalance_of(s->load + (size_t)layer * s->experts, s->experts,
                                                report->ranks)
               : NAN;
}

const orr_expert_linear_imbalance *orr_experts_imbalance_row(const orr_experts_report *report)
{
    const orr_expert_statistics *s = report->statistics;
    for (uint32_t i = 0; i < s->n_imbalance; i++)
        if (s->imbalance[i].ranks == report->ranks)
            return &s->imbalance[i];
    return NULL;
}

static orr_status layer_table(const orr_experts_report *r, orr_arena *arena, orr_table *ret,
                              orr_error *err)
{
    const orr_expert_statistics *s = r->statistics;
    layer_row *rows = orr_arena_array(arena, layer_row, s->layers);
    const char *title =
        orr_arena_printf(arena, "layers; imbalance of %u ranks, neighbouring experts", r->ranks);
    if (rows == NULL || title == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < s->layers; l++) {
        const orr_expert_layer_statistics *layer = &s->of_layer[l];
        rows[l] = (layer_row){.layer = layer->layer,
                              .top_expert = layer->top_expert,
                              .unused = layer->unused,
                              .concentrated = layer->concentrated,
                              .top_frac = layer->top_frac,
                              .effective_experts = layer->effective_experts,
                              .imbalance = orr_experts_linear_imbalance(r, l),
                              .phase_correlation = layer->phase_correlation,
                              .kind_distance = layer->kind_distance,
                              .pair_frac = layer->pair_frac,
                              .pair_lift = layer->pair_lift,
                              .pair_distance = layer->pair_distance,
                              .pair_noise = layer->pair_noise,
                              .next_accuracy_frac = layer->next_accuracy_frac,
                              .next_baseline_frac = layer->next_baseline_frac,
                              .mutual_bits = layer->mutual_bits,
                              .next_bits = layer->next_bits};
        if (layer->pair[0] != ORR_NONE &&
            (rows[l].pair = orr_arena_printf(arena, "%u+%u", layer->pair[0], layer->pair[1])) ==
                NULL)
            return orr_fail_memory(err);
    }
    *ret = ORR_TABLE_("orrery.experts_layers/1", title, layer_columns, rows, s->layers);
    return ORR_OK;
}

orr_status orr_experts_statistics_tables(const orr_experts_report *report, orr_arena *arena,
                                         orr_named_table *ret, orr_error *err)
{
    static const struct {
        const char *name;
        orr_status (*make)(const orr_experts_report *, orr_arena *, orr_table *, orr_error *);
    } tables[] = {
        {"figures", figure_table},
        {"spread", spread_table},
        {"layers", layer_table},
        {"kinds", orr_experts_kind_table},
        {"shift", orr_experts_shift_table},
        {"windows", orr_experts_window_table},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        ret[i].name = tables[i].name;
        ORR_TRY(tables[i].make(report, arena, &ret[i].table, err));
    }
    return ORR_OK;
}
