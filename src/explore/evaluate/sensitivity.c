/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "explore/evaluate/evaluator.h"

/* Sensitivity of an exploration to the machine: which plan wins when a bandwidth, latency or rate
 * is scaled, where the winner changes, and what an alternative would need to win. */

static const char *const FACTORS[] = {
#define NAME_(name, text) text,
    ORR_FACTOR_MAP(NAME_)
#undef NAME_
};

const char *orr_factor_name(orr_factor factor)
{
    return factor < ORR_FACTORS ? FACTORS[factor] : "?";
}

typedef struct question {
    const orr_model *model;
    const orr_cluster *cluster;
    const orr_explore_options *options;
    const orr_explored *plans; /* shape (n) */
    uint32_t n;
    orr_arena *scratch; /* memory of one changed machine */
    orr_error *err;
} question;

static orr_cluster_factors factors_of(orr_factor factor, double by)
{
    orr_cluster_factors f = {.latency = 1, .bandwidth = 1, .oversubscription = 1, .compute = 1};
    double *const at[] = {[ORR_FACTOR_LATENCY] = &f.latency,
                          [ORR_FACTOR_BANDWIDTH] = &f.bandwidth,
                          [ORR_FACTOR_OVERSUBSCRIPTION] = &f.oversubscription,
                          [ORR_FACTOR_COMPUTE] = &f.compute};
    *at[factor] = by;
    return f;
}

/* An evaluator of the changed machine, which lives in the scratch arena until the next one. */
static orr_status open_evaluator(const question *q, orr_factor factor, double by,
                                 orr_evaluator **ret)
{
    const orr_cluster_factors factors = factors_of(factor, by);
    const orr_cluster *cluster;
    orr_arena_reset(q->scratch);
    ORR_TRY(orr_cluster_scaled(q->cluster, &factors, q->scratch, &cluster, q->err));
    return orr_evaluator_new(q->model, cluster, q->options, ret, q->err);
}

/* NAN: the plan is invalid there. NO_MEMORY is the only error. */
static orr_status value_of(const question *q, orr_evaluator *evaluator, uint32_t plan,
                           bool simulated, double *ret)
{
    orr_explored evaluated;
    const orr_status status =
        simulated ? orr_evaluator_simulate(evaluator, &q->plans[plan].plan, &evaluated, NULL)
                  : orr_evaluator_estimate(evaluator, &q->plans[plan].plan, &evaluated, NULL);
    *ret = NAN;
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(q->err);
    if (status != ORR_OK)
        return ORR_OK;
    *ret = evaluated.value[q->options->objective];
    if (!simulated) /* the estimate in place of the bound */
        *ret *= (double)evaluated.estimate_ns / (double)evaluated.bound_ns;
    return ORR_OK;
}

static orr_status values_at(const question *q, orr_factor factor, double by, bool simulated,
                            double *ret)
{
    orr_evaluator *evaluator;
    orr_status status = open_evaluator(q, factor, by, &evaluator);
    if (status != ORR_OK)
        return status;
    for (uint32_t i = 0; i < q->n && status == ORR_OK; i++)
        status = value_of(q, evaluator, i, simulated, &ret[i]);
    orr_evaluator_free(evaluator);
    return status;
}

static uint32_t winner_of(const double *value, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (value[i] < value[best] || (isnan(value[best]) && !isnan(value[i])))
            best = i;
    return best;
}

/* --- factors of 0.5 and 1.5 ------------------------------------------------------------------ */

enum { BISECTIONS = 6 };

/* Bisection for the factor nearest to 1 at which the first plan no longer wins, given that it does
 * not at `by`. */
static orr_status find_flip(const question *q, orr_factor factor, double by, double *scratch,
                            double *ret)
{
    double near = 1, far = by;
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = sqrt(near * far);
        ORR_TRY(values_at(q, factor, middle, true, scratch));
        if (winner_of(scratch, q->n) == 0)
            near = middle;
        else
            far = middle;
    }
    *ret = far;
    return ORR_OK;
}

static orr_status find_changes(const question *q, orr_arena *arena, orr_sensitivity *ret)
{
    static const double BY[2] = {0.5, 1.5};
    orr_explore_change *changes = orr_arena_array(arena, orr_explore_change, 2 * ORR_FACTORS);
    double *scratch = orr_arena_array(arena, double, q->n);
    if (changes == NULL || scratch == NULL)
        return orr_fail_memory(q->err);
    for (uint32_t c = 0; c < 2 * ORR_FACTORS; c++) {
        double *value = orr_arena_array(arena, double, q->n);
        if (value == NULL)
            return orr_fail_memory(q->err);
        orr_explore_change *change = &changes[c];
        *change = (orr_explore_change){
            .factor = (uint8_t)(c / 2), .by = BY[c % 2], .value = value, .flips_at = NAN};
        ORR_TRY(values_at(q, change->factor, change->by, true, value));
        change->winner = winner_of(value, q->n);
        if (change->winner != 0)
            ORR_TRY(find_flip(q, change->factor, change->by, scratch, &change->flips_at));
    }
    ret->changes = changes;
    ret->n_changes = 2 * ORR_FACTORS;
    return ORR_OK;
}

/* --- what an alternative needs --------------------------------------------------------------- */

/* The estimator finds where two plans cross. Each estimate is scaled by the ratio of the plan's
 * simulation to its estimate on the given machine, so that the order starts as simulated. */
enum { GRID = 17, GRID_HALF = GRID / 2 }; /* 1/16 to 16 in factors of sqrt(2) */

static double grid_at(int i)
{
    return exp2((i - GRID_HALF) / 2.0);
}

static void correct(const question *q, const double *at_one, double *values)
{
    for (uint32_t i = 0; i < q->n; i++)
        values[i] *= q->plans[i].value[q->options->objective] / at_one[i];
}

/* The grid point nearest to 1, on either side, at which the plan beats the first; NAN: none. */
static double nearest_win(const double *values, uint32_t n, uint32_t plan)
{
    for (int d = 1; d <= GRID_HALF; d++)
        for (int side = -1; side <= 1; side += 2) {
            const double *at = values + (size_t)(GRID_HALF + side * d) * n;
            if (at[plan] < at[0])
                return grid_at(GRID_HALF + side * d);
        }
    return NAN;
}

static orr_status refine(const question *q, orr_factor factor, uint32_t plan, const double *at_one,
                         double *scratch, double *at)
{
    double far = *at, near = far > 1 ? far / M_SQRT2 : far * M_SQRT2;
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = sqrt(near * far);
        ORR_TRY(values_at(q, factor, middle, false, scratch));
        correct(q, at_one, scratch);
        if (scratch[plan] < scratch[0])
            far = middle;
        else
            near = middle;
    }
    *at = far;
    return ORR_OK;
}

static orr_status find_needs_of(const question *q, orr_factor factor, double *grid, double *scratch,
                                orr_explore_need *ret)
{
    double *at_one = grid + (size_t)GRID * q->n;
    ORR_TRY(values_at(q, factor, 1, false, at_one));
    for (int g = 0; g < GRID; g++) {
        ORR_TRY(values_at(q, factor, grid_at(g), false, grid + (size_t)g * q->n));
        correct(q, at_one, grid + (size_t)g * q->n);
    }
    for (uint32_t i = 1; i < q->n; i++) {
        orr_explore_need *need = &ret[(i - 1) * ORR_FACTORS + factor];
        *need = (orr_explore_need){i, (uint8_t)factor, nearest_win(grid, q->n, i)};
        if (!isnan(need->at))
            ORR_TRY(refine(q, factor, i, at_one, scratch, &need->at));
    }
    return ORR_OK;
}

static orr_status find_needs(const question *q, orr_arena *arena, orr_sensitivity *ret)
{
    const uint32_t n = q->n > 0 ? (q->n - 1) * ORR_FACTORS : 0;
    orr_explore_need *needs = orr_arena_array(arena, orr_explore_need, n);
    double *grid = orr_arena_array(arena, double, (size_t)(GRID + 1) * q->n);
    double *scratch = orr_arena_array(arena, double, q->n);
    if (needs == NULL || grid == NULL || scratch == NULL)
        return orr_fail_memory(q->err);
    for (int factor = 0; factor < ORR_FACTORS && n > 0; factor++)
        ORR_TRY(find_needs_of(q, (orr_factor)factor, grid, scratch, needs));
    ret->needs = needs;
    ret->n_needs = n;
    return ORR_OK;
}

orr_status orr_explore_sensitivity(const orr_model *model, const orr_cluster *cluster,
                                   const orr_explore_options *options,
                                   const orr_exploration *exploration, bool changes,
                                   orr_arena *arena, orr_sensitivity *ret, orr_error *err)
{
    question q = {.model = model,
                  .cluster = cluster,
                  .options = options,
                  .plans = exploration->best,
                  .n = exploration->n,
                  .err = err};
    orr_sensitivity made = {0};
    orr_status status = ORR_OK;
    q.scratch = orr_arena_new(0, 0);
    if (q.scratch == NULL)
        return orr_fail_memory(err);
    if (changes)
        ORR_TRY_OUT(status, find_changes(&q, arena, &made));
    ORR_TRY_OUT(status, find_needs(&q, arena, &made));
    *ret = made;
out:
    orr_arena_free(q.scratch);
    return status;
}
