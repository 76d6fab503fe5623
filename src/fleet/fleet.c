/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/fleet.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel_for.h"

/* Monte Carlo simulation of policies: repetitions on all threads, means and percentiles,
 * sensitivity to settings. */

#define DAY_NS 86400000000000
enum { PIECES = 20000, SENSITIVITY_REPETITIONS = 5 };

static double share(int64_t part, const orr_fleet_run *r)
{
    return r->wall_ns > 0 ? (double)part / (double)r->replicas / (double)r->wall_ns : 0;
}

static int by_value(const void *a_, const void *b_)
{
    const double a = *(const double *)a_, b = *(const double *)b_;
    return (a > b) - (a < b);
}

/* Linear interpolation between the two nearest values. */
static double percentile(const double *sorted, uint32_t n, double p)
{
    const double at = p * (n - 1);
    const uint32_t i = (uint32_t)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

/* Sorts the values. */
static orr_fleet_band band_of(double *values, uint32_t n)
{
    orr_fleet_band band = {0};
    for (uint32_t i = 0; i < n; i++)
        band.mean += values[i] / n;
    qsort(values, n, sizeof *values, by_value);
    band.low = percentile(values, n, 0.05);
    band.high = percentile(values, n, 0.95);
    return band;
}

/* --- runs ------------------------------------------------------------------------------------- */

/* Progress: how many trials are finished. */
typedef struct meter {
    const orr_fleet_options *options;
    uint64_t lives, of;
    pthread_mutex_t lock;
} meter;

static void count_life(meter *m)
{
    if (m->options->progress == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    m->options->progress(m->options->progress_ctx, ++m->lives, m->of);
    pthread_mutex_unlock(&m->lock);
}

typedef struct work {
    meter *meter;
    const orr_fleet_options *options;
    const orr_fleet_policy *policies;
    uint32_t repetitions;
    orr_fleet_run *runs;           /* shape (policies, repetitions) */
    orr_fleet_timeline *timelines; /* shape (policies), of the first repetition; NULL: none */
} work;

static orr_status run_one(void *ctx, size_t index, orr_error *err)
{
    const work *w = ctx;
    const size_t policy = index / w->repetitions, repetition = index % w->repetitions;
    orr_fleet_timeline *timeline =
        w->timelines != NULL && repetition == 0 ? &w->timelines[policy] : NULL;
    ORR_TRY(orr_fleet_simulate(w->options, &w->policies[policy], (uint32_t)repetition, timeline,
                               &w->runs[index], err));
    count_life(w->meter);
    return ORR_OK;
}

/* --- statistics over repetitions ------------------------------------------------------------- */

typedef double of_run(const orr_fleet_run *run, int which);

static double effective(const orr_fleet_run *run, int which)
{
    (void)which;
    return share(run->productive, run);
}
static double lost(const orr_fleet_run *run, int which)
{
    return share(run->lost[which], run);
}
static double mtbf(const orr_fleet_run *run, int which)
{
    (void)which;
    return (double)run->wall_ns / (double)(run->failures > 0 ? run->failures : 1);
}
static double wall(const orr_fleet_run *run, int which)
{
    (void)which;
    return (double)run->wall_ns;
}

static orr_fleet_band band(const orr_fleet_run *runs, uint32_t n, of_run *value, int which,
                           double *scratch)
{
    for (uint32_t i = 0; i < n; i++)
        scratch[i] = value(&runs[i], which);
    return band_of(scratch, n);
}

static void add_counts(const orr_fleet_run *run, double weight, orr_fleet_outcome *o)
{
    o->failures += weight * (double)run->failures;
    o->lemon_failures += weight * (double)run->lemon_failures;
    o->restarts += weight * (double)run->restarts;
    o->epochs += weight * (double)run->epochs;
    o->halts += weight * (double)run->halts;
    o->spares_short += weight * (double)run->spares_short;
    o->worst_node = run->worst_node > o->worst_node ? run->worst_node : o->worst_node;
    o->budgets_met += run->budget_met;
    for (int i = 0; i < ORR_FLEET_CATEGORIES + 3; i++)
        o->categories[i] += weight * (double)run->categories[i];
    for (uint32_t i = 0; i <= run->replicas; i++)
        o->down[i] += weight * (double)run->down_ns[i] / (double)run->wall_ns;
}

static void sum_up(const orr_fleet_options *options, const orr_fleet_run *runs, double *scratch,
                   orr_fleet_outcome *o)
{
    const uint32_t n = options->repetitions;
    const double nodes = orr_fleet_nodes(options);
    o->effective = band(runs, n, effective, 0, scratch);
    o->effective_of_all = o->effective.mean * nodes / (nodes + o->policy.spares);
    for (int i = 0; i < ORR_FLEET_LOSSES; i++)
        o->lost[i] = band(runs, n, lost, i, scratch);
    o->mtbf_ns = band(runs, n, mtbf, 0, scratch);
    o->wall_ns = band(runs, n, wall, 0, scratch);
    for (uint32_t i = 0; i < n; i++)
        add_counts(&runs[i], 1.0 / n, o);
    o->runs = runs;
}

static orr_status simulate_all(const orr_fleet_options *options, const orr_fleet_policy *policies,
                               uint32_t n, meter *lives, orr_arena *arena, orr_fleet *ret,
                               orr_error *err)
{
    const uint32_t repetitions = options->repetitions;
    orr_fleet_run *runs = orr_arena_array(arena, orr_fleet_run, (size_t)n * repetitions);
    orr_fleet_timeline *days = orr_arena_array(arena, orr_fleet_timeline, n);
    orr_fleet_outcome *outcomes = orr_arena_array(arena, orr_fleet_outcome, n);
    double *scratch = orr_arena_array(arena, double, repetitions);
    if (runs == NULL || days == NULL || outcomes == NULL || scratch == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        days[i].begin_ns = options->horizon_ns / 2;
        days[i].end_ns = days[i].begin_ns + DAY_NS;
        days[i].room = PIECES;
        days[i].pieces = orr_arena_array(arena, orr_fleet_piece, PIECES);
        if (days[i].pieces == NULL)
            return orr_fail_memory(err);
    }
    work w = {lives, options, policies, repetitions, runs, days};
    ORR_TRY(orr_parallel_for((size_t)n * repetitions, options->threads, run_one, &w, err));
    for (uint32_t i = 0; i < n; i++) {
        outcomes[i] = (orr_fleet_outcome){.policy = policies[i], .day = days[i]};
        sum_up(options, &runs[(size_t)i * repetitions], scratch, &outcomes[i]);
    }
    for (size_t i = 0; i < (size_t)n * repetitions; i++)
        ret->simulated_ns += runs[i].wall_ns;
    ret->n = n;
    ret->outcomes = outcomes;
    return ORR_OK;
}

/* --- sensitivity ------------------------------------------------------------------------------ */

static const char *const WORDS[] = {
#define NAME_(name, word, about) word,
    ORR_FLEET_TIME_MAP(NAME_) ORR_FLEET_NUMBER_MAP(NAME_)
#undef NAME_
};
enum { SETTINGS = ORR_FLEET_TIMES + ORR_FLEET_NUMBERS };

static bool is_zero(const orr_fleet_options *o, int setting)
{
    return setting < ORR_FLEET_TIMES
               ? orr_fleet_time_mean_ns(&o->times[setting].time) == 0
               : orr_fleet_number(o, (orr_fleet_numbers)(setting - ORR_FLEET_TIMES)) == 0;
}

static uint32_t count_settings(const orr_fleet_options *o)
{
    uint32_t n = 0;
    for (int s = 0; s < SETTINGS; s++)
        n += !is_zero(o, s);
    return n;
}

/* Shares are limited to 1. */
static void scale(orr_fleet_options *o, int setting, double factor)
{
    if (setting < ORR_FLEET_TIMES) {
        o->times[setting].time = orr_fleet_time_scaled(&o->times[setting].time, factor);
        return;
    }
    const int number = setting - ORR_FLEET_TIMES;
    o->numbers[number].value *= factor;
    if (number == ORR_FLEET_RATE)
        o->interval_ns = llround((double)o->interval_ns / factor);
    if ((number == ORR_FLEET_LEMONS || number == ORR_FLEET_RETRIED) && o->numbers[number].value > 1)
        o->numbers[number].value = 1;
}

static void put_value(const orr_fleet_options *o, int setting, orr_fleet_effect *e)
{
    if (setting < ORR_FLEET_TIMES)
        orr_fleet_time_text(&o->times[setting].time, e->value, sizeof e->value);
    else
        snprintf(e->value, sizeof e->value, "%.6g",
                 orr_fleet_number(o, (orr_fleet_numbers)(setting - ORR_FLEET_TIMES)));
}

/* Simulates all policies with one setting changed; adds their effective times to `sums`, shape (n).
 */
static orr_status with_setting(const orr_fleet_options *options, int setting, double factor,
                               const work *base, uint32_t n, double *sums, orr_error *err)
{
    orr_fleet_options changed = *options;
    work w = *base;
    if (setting >= 0)
        scale(&changed, setting, factor);
    w.options = &changed;
    ORR_TRY(orr_parallel_for((size_t)n * w.repetitions, options->threads, run_one, &w, err));
    for (uint32_t p = 0; p < n; p++) {
        sums[p] = 0;
        for (uint32_t i = 0; i < w.repetitions; i++) {
            const orr_fleet_run *run = &w.runs[(size_t)p * w.repetitions + i];
            sums[p] += share(run->productive, run) / w.repetitions;
        }
    }
    return ORR_OK;
}

static double size_of(const orr_fleet_effect *e)
{
    return fmax(fabs(e->half), fabs(e->twice));
}

static int by_effect(const void *a_, const void *b_)
{
    const orr_fleet_effect *a = a_, *b = b_;
    if (a->policy != b->policy)
        return a->policy < b->policy ? -1 : 1;
    if (size_of(a) != size_of(b))
        return size_of(a) > size_of(b) ? -1 : 1;
    return strcmp(a->word, b->word);
}

static uint32_t few(const orr_fleet_options *options)
{
    return options->repetitions < SENSITIVITY_REPETITIONS ? options->repetitions
                                                          : SENSITIVITY_REPETITIONS;
}

static orr_status change_each(const orr_fleet_options *options, const orr_fleet_policy *policies,
                              uint32_t n, meter *lives, orr_arena *arena, orr_fleet *ret,
                              orr_error *err)
{
    const uint32_t repetitions = few(options);
    orr_fleet_effect *effects = orr_arena_array(arena, orr_fleet_effect, (size_t)n * SETTINGS);
    double *sums = orr_arena_array(arena, double, 3 * (size_t)n);
    const work w = {lives,
                    options,
                    policies,
                    repetitions,
                    orr_arena_array(arena, orr_fleet_run, (size_t)n * repetitions),
                    NULL};
    uint32_t count = 0;
    if (effects == NULL || sums == NULL || w.runs == NULL)
        return orr_fail_memory(err);
    ORR_TRY(with_setting(options, -1, 1, &w, n, sums, err));
    for (int s = 0; s < SETTINGS; s++) {
        if (is_zero(options, s))
            continue;
        ORR_TRY(with_setting(options, s, 0.5, &w, n, sums + n, err));
        ORR_TRY(with_setting(options, s, 2, &w, n, sums + 2 * (size_t)n, err));
        for (uint32_t p = 0; p < n; p++) {
            orr_fleet_effect *e = &effects[count++];
            *e = (orr_fleet_effect){.policy = p,
                                    .word = WORDS[s],
                                    .half = sums[n + p] - sums[p],
                                    .twice = sums[2 * n + p] - sums[p]};
            put_value(options, s, e);
            count -= e->half == 0 && e->twice == 0; /* no effect */
        }
    }
    qsort(effects, count, sizeof *effects, by_effect);
    ret->effects = effects;
    ret->n_effects = count;
    return ORR_OK;
}

orr_status orr_fleet_of(const orr_fleet_options *options, const orr_fleet_policy *policies,
                        uint32_t n, bool sensitivity, orr_arena *arena, orr_fleet *ret,
                        orr_error *err)
{
    orr_fleet made = {.options = *options};
    if (n == 0 || options->repetitions == 0 || options->repetitions > 1 << 16)
        return orr_fail(err, ORR_INVALID, "no policy, or no repetition, or over 65,536 of them");
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(orr_fleet_check(options, &policies[i], err));
    meter lives = {.options = options,
                   .of = (uint64_t)n * options->repetitions,
                   .lock = PTHREAD_MUTEX_INITIALIZER};
    if (sensitivity)
        lives.of += (uint64_t)n * few(options) * (1 + 2 * count_settings(options));
    ORR_TRY(simulate_all(options, policies, n, &lives, arena, &made, err));
    if (sensitivity)
        ORR_TRY(change_each(options, policies, n, &lives, arena, &made, err));
    *ret = made;
    return ORR_OK;
}
