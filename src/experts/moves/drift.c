/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "experts/placement/loads.h"

/* Drift of loads: Pearson's test that two samples are of one distribution, a layer at a time.
 *
 * Choices of a request resemble each other, so that counts vary more than those of a multinomial
 * distribution. Where either load has several windows, the variance between them over the
 * multinomial one is estimated (the overdispersion of quasi-likelihood: McCullagh and Nelder,
 * "Generalized Linear Models", 1989, 4.5) and divides the statistic. */

/* Odds that loads which have not drifted are said to have, over all layers together. */
static const double FALSE_ALARM = 1e-6;
/* Experts with fewer choices in both samples together are counted as one. */
static const double FEWEST_CHOICES = 10;

/* The value that a normal variable is above with odds `p` < 1/2. */
static double normal_quantile(double p)
{
    double low = 0, high = 40;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        if (erfc(middle / sqrt(2)) / 2 > p)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* The same for chi-square with `degrees` of freedom: Wilson and Hilferty, PNAS 17 (1931) 684. */
static double chi_square_quantile(double degrees, double p)
{
    const double part = 2 / (9 * degrees);
    return degrees * pow(1 - part + normal_quantile(p) * sqrt(part), 3);
}

typedef struct statistic {
    double chi_square, degrees;
} statistic;

/* Whether samples a and b, shape (E), are of one distribution. */
static statistic compare(const double *a, const double *b, uint32_t experts)
{
    double n_a = 0, n_b = 0, few_a = 0, few_b = 0;
    statistic ret = {.degrees = -1};
    for (uint32_t e = 0; e < experts; e++) {
        n_a += a[e];
        n_b += b[e];
    }
    if (n_a <= 0 || n_b <= 0)
        return (statistic){.chi_square = 0};
    for (uint32_t e = 0; e <= experts; e++) {
        const bool few = e < experts && a[e] + b[e] < FEWEST_CHOICES;
        const double x = e < experts ? a[e] : few_a, y = e < experts ? b[e] : few_b;
        if (few) {
            few_a += x;
            few_b += y;
        } else if (x + y > 0) {
            const double difference = x * sqrt(n_b / n_a) - y * sqrt(n_a / n_b);
            ret.chi_square += difference * difference / (x + y);
            ret.degrees++;
        }
    }
    return ret;
}

/* How the windows of a load differ from their sum, added to `ret`. */
static void compare_windows(const orr_expert_windows *w, uint32_t layer, double *rest,
                            statistic *ret)
{
    for (uint32_t i = 0; i < w->windows && w->windows > 1; i++) {
        const double *window = w->load + ((size_t)i * w->layers + layer) * w->experts;
        orr_layer_load(w, NULL, layer, w->experts, rest);
        for (uint32_t e = 0; e < w->experts; e++)
            rest[e] -= window[e];
        const statistic s = compare(window, rest, w->experts);
        ret->chi_square += s.chi_square;
        ret->degrees += s.degrees;
    }
}

/* Worst imbalance of a placement over layers, under loads. */
static double worst_imbalance(const orr_expert_placement *p, const orr_expert_windows *w,
                              double *load, double *rank_load)
{
    const uint32_t live = orr_placement_live_ranks(p);
    double ret = 1;
    for (uint32_t l = 0; l < p->layers; l++) {
        orr_layer_load(w, NULL, l, p->experts, load);
        orr_layer_rank_loads(p, l, load, rank_load);
        ret = fmax(ret, orr_loads_imbalance(rank_load, p->ranks, live));
    }
    return ret;
}

/* load: shape (2, E). */
static orr_expert_drift test_layers(const orr_expert_placement *p, const orr_expert_windows *fitted,
                                    const orr_expert_windows *now, double *load)
{
    orr_expert_drift ret = {.overdispersion = 1};
    statistic within = {.chi_square = 0};
    double most = -1;
    for (uint32_t l = 0; l < p->layers; l++) {
        compare_windows(fitted, l, load, &within);
        compare_windows(now, l, load, &within);
    }
    if (within.degrees > 0)
        ret.overdispersion = fmax(1, within.chi_square / within.degrees);
    for (uint32_t l = 0; l < p->layers; l++) {
        orr_layer_load(fitted, NULL, l, p->experts, load);
        orr_layer_load(now, NULL, l, p->experts, load + p->experts);
        const statistic s = compare(load, load + p->experts, p->experts);
        if (s.degrees <= 0)
            continue;
        const double found = s.chi_square / ret.overdispersion,
                     threshold = chi_square_quantile(s.degrees, FALSE_ALARM / p->layers);
        if (found / threshold > most) {
            most = found / threshold;
            ret.statistic = found;
            ret.threshold = threshold;
            ret.layer = l;
        }
    }
    ret.drifted = most > 1;
    return ret;
}

orr_status orr_experts_drift(const orr_expert_placement *placement,
                             const orr_expert_windows *fitted, const orr_expert_windows *now,
                             orr_arena *arena, orr_expert_drift *ret, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    ORR_TRY(orr_loads_check(fitted, placement, err));
    ORR_TRY(orr_loads_check(now, placement, err));
    double *load = orr_arena_array(arena, double, 2 * (size_t)placement->experts);
    double *rank_load = orr_arena_array(arena, double, placement->ranks);
    if (load == NULL || rank_load == NULL) {
        orr_arena_rewind(arena, mark);
        return orr_fail_memory(err);
    }
    orr_expert_drift drift = test_layers(placement, fitted, now, load);
    drift.imbalance_before = worst_imbalance(placement, fitted, load, rank_load);
    drift.imbalance_now = worst_imbalance(placement, now, load, rank_load);
    orr_arena_rewind(arena, mark);
    *ret = drift;
    return ORR_OK;
}
