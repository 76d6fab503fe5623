/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/learned.h"

#include <math.h>

#include "base/alloc.h"
#include "cost/fit/boost.h"

/* Fits boosted trees for a family: depth, learning rate and number of rounds are those with the
 * least validation error when fitted to the train set; then the trees are fitted again to both. */
static const struct {
    uint32_t depth;
    double rate;
} GRID[] = {{2, 0.1}, {2, 0.3}, {4, 0.1}, {4, 0.3}, {6, 0.1}, {6, 0.3}};
enum { GRID_N = sizeof GRID / sizeof *GRID, MOST_ROUNDS = 400, PATIENCE = 50 };

/* Rows of a data set: one for each cell, with its median, all of the same weight. Cells without
 * a roofline are left out. */
typedef struct rows {
    float *x, *y, *weight; /* shapes (n, ORR_FEATURES), (n), (n) */
    const orr_fit_cell **cells;
    double *roofline_ns;
    size_t n;
    double base; /* mean of ln(ns / roofline ns); y is the rest */
} rows;

static orr_status gather(const orr_fit_data *data, int family, unsigned sides, orr_arena *arena,
                         rows *ret, orr_error *err)
{
    const size_t most = data->first[family + 1] - data->first[family];
    rows r = {
        .x = orr_arena_alloc(arena, most, ORR_FEATURES * sizeof(float), _Alignof(float)),
        .y = orr_arena_array(arena, float, most),
        .weight = orr_arena_array(arena, float, most),
        .cells = orr_arena_array(arena, const orr_fit_cell *, most),
        .roofline_ns = orr_arena_array(arena, double, most),
    };
    double sum = 0;

    if (!r.x || !r.y || !r.weight || !r.cells || !r.roofline_ns)
        return orr_fail_memory(err);
    for (size_t i = data->first[family]; i < data->first[family + 1]; i++) {
        const orr_fit_cell *cell = &data->cells[i];
        if ((sides >> cell->side & 1) == 0 ||
            !orr_learned_features(cell->sample->device, &cell->sample->work,
                                  r.x + r.n * ORR_FEATURES, &r.roofline_ns[r.n]))
            continue;
        sum += log(cell->point.ns / r.roofline_ns[r.n]);
        r.weight[r.n] = 1;
        r.cells[r.n++] = cell;
    }
    r.base = r.n > 0 ? sum / (double)r.n : 0;
    for (size_t i = 0; i < r.n; i++)
        r.y[i] = (float)(log(r.cells[i]->point.ns / r.roofline_ns[i]) - r.base);
    *ret = r;
    return ORR_OK;
}

/* Compares predictions for the held-out rows with the roofline; `sums`: of the trees, NULL: none
 * yet. */
static orr_fit_comparison_result validate(const rows *held, double base, const float *sums,
                                          orr_fit_comparison *duel)
{
    orr_fit_comparison_reset(duel);
    for (size_t i = 0; i < held->n; i++) {
        const double more = base + (sums != NULL ? (double)sums[i] : 0);
        orr_fit_comparison_add(duel, held->cells[i], held->roofline_ns[i] * exp(more));
    }
    return orr_fit_comparison_end(duel);
}

typedef struct choice {
    orr_fit_comparison_result verdict;
    uint32_t rounds; /* 0: the base alone */
    size_t grid;
} choice;

static orr_boost_options options_of(const rows *fitted, const rows *held, size_t grid)
{
    return (orr_boost_options){
        .x = fitted->x,
        .y = fitted->y,
        .weight = fitted->weight,
        .n = fitted->n,
        .watch_x = held != NULL ? held->x : NULL,
        .n_watch = held != NULL ? held->n : 0,
        .depth = GRID[grid].depth,
        .rate = GRID[grid].rate,
    };
}

/* Boosts with one setting of the grid, until nothing has improved for a while (early stopping). */
static orr_status try_one(const rows *train, const rows *held, size_t grid,
                          orr_fit_comparison *duel, choice *best, orr_fit_progress *progress,
                          orr_error *err)
{
    const orr_boost_options options = options_of(train, held, grid);
    orr_boost *boost = NULL;
    double own_best = INFINITY;
    uint32_t own_round = 0, round = 0;

    orr_status status = orr_boost_new(&options, &boost, err);
    for (; status == ORR_OK && round < MOST_ROUNDS && round < own_round + PATIENCE; round++) {
        const float *sums;
        ORR_TRY_OUT(status, orr_boost_round(boost, round, err));
        ORR_TRY_OUT(status, orr_boost_watch(boost, &sums, err));
        const orr_fit_comparison_result now = validate(held, train->base, sums, duel);
        if (now.distance < own_best) {
            own_best = now.distance;
            own_round = round + 1;
        }
        if (now.distance < best->verdict.distance)
            *best = (choice){now, round + 1, grid};
        ORR_TRY_OUT(status, orr_fit_step(progress, 1, err));
    }
    if (status == ORR_OK)
        status = orr_fit_step(progress, MOST_ROUNDS - round, err);
out:
    orr_boost_free(boost);
    return status;
}

static orr_status fit_trees(const rows *fitted, const choice *chosen, orr_arena *arena,
                            orr_trees *ret, orr_error *err)
{
    const orr_boost_options options = options_of(fitted, NULL, chosen->grid);
    orr_boost *boost = NULL;

    if (chosen->rounds == 0) {
        *ret = (orr_trees){.nodes = orr_arena_array(arena, orr_tree_node, 0),
                           .roots = orr_arena_array(arena, uint32_t, 0)};
        return ret->nodes && ret->roots ? ORR_OK : orr_fail_memory(err);
    }
    orr_status status = orr_boost_new(&options, &boost, err);
    for (uint32_t round = 0; status == ORR_OK && round < chosen->rounds; round++)
        status = orr_boost_round(boost, round, err);
    if (status == ORR_OK)
        status = orr_boost_trees(boost, arena, ret, err);
    orr_boost_free(boost);
    return status;
}

static void bound(const rows *fitted, orr_learned_family *family)
{
    for (int f = 0; f < ORR_FEATURES; f++) {
        family->low[f] = family->high[f] = NAN;
        for (size_t i = 0; i < fitted->n; i++) {
            family->low[f] = fminf(family->low[f], fitted->x[i * ORR_FEATURES + f]);
            family->high[f] = fmaxf(family->high[f], fitted->x[i * ORR_FEATURES + f]);
        }
    }
}

static orr_status fit_both(const orr_fit_data *data, int family, const choice *chosen,
                           orr_arena *arena, orr_learned_family *ret, orr_error *err)
{
    const orr_fit_split *split = &data->splits[family];
    rows fitted;

    ORR_TRY(gather(data, family, 1 << ORR_SUBSET_TRAIN | 1 << ORR_SUBSET_VALIDATION, arena, &fitted,
                   err));
    orr_learned_family result = {
        .present = true,
        .base = fitted.base,
        .error_frac = NAN,
        .groups = split->groups[ORR_SUBSET_TRAIN] + split->groups[ORR_SUBSET_VALIDATION],
    };
    for (size_t i = 0; i < fitted.n; i++)
        result.samples += fitted.cells[i]->point.count;
    bound(&fitted, &result);
    ORR_TRY(fit_trees(&fitted, chosen, arena, &result.trees, err));
    *ret = result;
    return ORR_OK;
}

static bool is_tried(const orr_fit_data *data, int family)
{
    return orr_fit_enough(&data->splits[family], &orr_fit_learned_minimum);
}

static orr_status fit_family(const orr_fit_data *data, int family, orr_arena *arena,
                             orr_fit_progress *progress, orr_learned_family *ret,
                             const char **remark, orr_error *err)
{
    rows train, held;
    orr_fit_comparison duel;

    ORR_TRY(gather(data, family, 1 << ORR_SUBSET_TRAIN, arena, &train, err));
    ORR_TRY(gather(data, family, 1 << ORR_SUBSET_VALIDATION, arena, &held, err));
    if (train.n == 0 || held.n == 0) {
        *remark = "no model: the roofline has no answer to start from";
        return orr_fit_step(progress, GRID_N * MOST_ROUNDS, err);
    }
    ORR_TRY(orr_fit_comparison_new(data->groups[family], arena, &duel, err));
    choice best = {.verdict = validate(&held, train.base, NULL, &duel)};
    for (size_t grid = 0; grid < GRID_N; grid++)
        ORR_TRY(try_one(&train, &held, grid, &duel, &best, progress, err));
    if (!best.verdict.ahead) {
        *remark = "no model: not clearly better than roofline on validation";
        return ORR_OK;
    }
    ORR_TRY(fit_both(data, family, &best, arena, ret, err));
    *remark = best.rounds == 0
                  ? "mean roofline efficiency; trees did no better on validation"
                  : orr_arena_printf(arena, "%u trees of depth %u, rate %.1f", best.rounds,
                                     GRID[best.grid].depth, GRID[best.grid].rate);
    return *remark != NULL ? ORR_OK : orr_fail_memory(err);
}

uint64_t orr_fit_learned_steps(const orr_fit_data *data)
{
    uint64_t families = 0;
    for (int family = 0; family < ORR_FAMILIES; family++)
        families += is_tried(data, family);
    return families * GRID_N * MOST_ROUNDS;
}

orr_status orr_fit_learned(const orr_fit_data *data, orr_arena *arena, orr_fit_progress *progress,
                           orr_cost_learned **ret, const char *remarks[ORR_FAMILIES],
                           orr_error *err)
{
    orr_cost_learned *learned = orr_arena_one(arena, orr_cost_learned);
    bool any = false;

    if (learned == NULL)
        return orr_fail_memory(err);
    for (int family = 0; family < ORR_FAMILIES; family++) {
        remarks[family] = NULL;
        if (data->first[family + 1] == data->first[family])
            continue;
        if (is_tried(data, family)) {
            ORR_TRY(fit_family(data, family, arena, progress, &learned->families[family],
                               &remarks[family], err));
        } else {
            const char *few =
                orr_fit_too_few(&data->splits[family], &orr_fit_learned_minimum, arena);
            remarks[family] = few != NULL ? orr_arena_printf(arena, "no model: %s", few) : NULL;
            if (remarks[family] == NULL)
                return orr_fail_memory(err);
        }
        any |= learned->families[family].present;
    }
    *ret = any ? learned : NULL;
    return ORR_OK;
}
