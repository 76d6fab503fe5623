/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/explore.h>

#include "base/workers.h"
#include "explore/decision/draws.h"
#include "outcome/outcome.h"

/* Which of the best plans are distinguishable, and which of them to take: the steps of all with
 * draws of the calibration, in closed form, each scaled to its simulation. */

void orr_decision_options_init(orr_decision_options *options)
{
    *options = (orr_decision_options){
        .struct_bytes = sizeof *options, .draws = 200, .seed = 1, .widening = 1};
}

typedef struct thread_memory {
    orr_calibration calibration; /* the drawn one */
    orr_link_rates *links;
    orr_status status; /* of the first draw that ran out of memory */
} thread_memory;

typedef struct decider {
    const orr_model *model;
    const orr_cluster *cluster;
    const orr_explored *plans; /* shape (n) */
    uint32_t n, n_draws;
    uint8_t objective;
    const volatile bool *stop; /* or NULL */
    orr_job_options job;
    orr_calibration_draws draws;
    thread_memory *threads;
    double *usual_ns; /* shape (n): estimates as calibrated; NAN: the estimator refuses the plan */
    double *values;   /* shape (n_draws)(n): the objective in each draw */
    orr_arena *arena;
    orr_error *err;
} decider;

/* Estimates of all plans; NAN where there is none. */
static orr_status estimate_all(const decider *d, const orr_calibration *calibration, double *ret)
{
    orr_job_options job = d->job;
    orr_estimator *estimator;
    orr_status status = ORR_OK;
    job.calibration = calibration;
    for (uint32_t i = 0; i < d->n; i++)
        ret[i] = NAN;
    const orr_status opened = orr_estimator_new(d->model, d->cluster, &job, &estimator, NULL);
    if (opened != ORR_OK)
        return opened == ORR_NO_MEMORY ? opened : ORR_OK;
    for (uint32_t i = 0; i < d->n && status != ORR_NO_MEMORY; i++) {
        orr_estimate estimate;
        status = orr_estimate_of(estimator, &d->plans[i].plan, &estimate, NULL);
        if (status == ORR_OK && estimate.step_ns > 0)
            ret[i] = (double)estimate.step_ns;
    }
    orr_estimator_free(estimator);
    return status == ORR_NO_MEMORY ? status : ORR_OK;
}

static bool is_stopped(const decider *d)
{
    return d->stop != NULL && *d->stop;
}

/* Devices are the same in each draw; all other objectives go with the step. */
static void evaluate_draw(void *ctx, size_t draw, int thread)
{
    const decider *d = ctx;
    thread_memory *t = &d->threads[thread];
    if (is_stopped(d))
        return;
    double *values = d->values + draw * d->n;
    orr_calibration_draw(&d->draws, (uint32_t)draw, t->links, &t->calibration);
    if (estimate_all(d, &t->calibration, values) != ORR_OK)
        t->status = ORR_NO_MEMORY;
    for (uint32_t i = 0; i < d->n; i++) {
        const double ratio = values[i] / d->usual_ns[i];
        values[i] = d->plans[i].value[d->objective];
        if (d->objective != ORR_OBJECTIVE_DEVICES && isfinite(ratio))
            values[i] *= ratio;
    }
}

static orr_status run_draws(decider *d, uint32_t n_threads)
{
    orr_workers *workers;
    orr_status status = ORR_OK;
    ORR_TRY(orr_workers_new((int)n_threads, &workers, d->err));
    const uint32_t n = (uint32_t)orr_workers_count(workers);
    d->threads = orr_arena_array(d->arena, thread_memory, n);
    for (uint32_t i = 0; i < n && d->threads != NULL && status == ORR_OK; i++) {
        d->threads[i] = (thread_memory){0};
        d->threads[i].links =
            orr_arena_array(d->arena, orr_link_rates, d->draws.usual->n_links + 1);
        if (d->threads[i].links == NULL)
            status = ORR_NO_MEMORY;
    }
    if (d->threads == NULL || status != ORR_OK) {
        orr_workers_free(workers);
        return orr_fail_memory(d->err);
    }
    orr_workers_run(workers, d->n_draws, evaluate_draw, d);
    orr_workers_free(workers);
    for (uint32_t i = 0; i < n; i++)
        if (d->threads[i].status != ORR_OK)
            return orr_fail_memory(d->err);
    return ORR_OK;
}

/* --- what the draws say ---------------------------------------------------------------------- */

static double lowest(const double *values, uint32_t n)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        least = fmin(least, values[i]);
    return least;
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_regrets(const decider *d, uint32_t plan, double *scratch, orr_decision_plan *ret)
{
    for (uint32_t k = 0; k < d->n_draws; k++) {
        const double *values = d->values + (size_t)k * d->n, least = lowest(values, d->n);
        uint32_t equal = 0;
        for (uint32_t i = 0; i < d->n; i++)
            equal += values[i] <= least;
        scratch[k] = least > 0 ? values[plan] / least - 1 : 0;
        ret->best_frac += values[plan] <= least ? 1.0 / equal / d->n_draws : 0;
        ret->mean_regret_frac += scratch[k] / d->n_draws;
    }
    qsort(scratch, d->n_draws, sizeof *scratch, by_number);
    ret->p95_regret_frac = scratch[(d->n_draws * 19 + 19) / 20 - 1];
    ret->max_regret_frac = scratch[d->n_draws - 1];
}

/* Root mean square of how the logarithm of the ratio of two plans moves from draw to draw. */
static double spread_of(const decider *d, uint32_t plan, uint32_t best)
{
    const double usual =
        log(d->plans[plan].value[d->objective] / d->plans[best].value[d->objective]);
    double sum = 0;
    for (uint32_t k = 0; k < d->n_draws; k++) {
        const double *values = d->values + (size_t)k * d->n;
        const double moved = log(values[plan] / values[best]) - usual;
        sum += moved * moved / d->n_draws;
    }
    return sqrt(sum);
}

static double odds_of(double gap_log, double spread)
{
    const double error = sqrt(ORR_ORDER_ERROR * ORR_ORDER_ERROR + spread * spread);
    return 0.5 * erfc(gap_log / error * M_SQRT1_2);
}

static void judge_order(const decider *d, uint32_t plan, uint32_t best, orr_decision_plan *ret)
{
    const double gap = log(d->plans[plan].value[d->objective] / d->plans[best].value[d->objective]);
    ret->spread_frac = spread_of(d, plan, best);
    ret->odds_frac = d->objective == ORR_OBJECTIVE_DEVICES ? (gap <= 0 ? 0.5 : 0)
                                                           : odds_of(gap, ret->spread_frac);
    ret->in_set = ret->odds_frac >= ORR_ORDER_ODDS;
}

static orr_status fill(const decider *d, orr_decision *ret)
{
    orr_decision_plan *plans = orr_arena_array(d->arena, orr_decision_plan, d->n);
    double *scratch = orr_arena_array(d->arena, double, d->n_draws);
    if (plans == NULL || scratch == NULL)
        return orr_fail_memory(d->err);
    for (uint32_t i = 1; i < d->n; i++)
        if (d->plans[i].value[d->objective] < d->plans[ret->best].value[d->objective])
            ret->best = i;
    for (uint32_t i = 0; i < d->n; i++) {
        plans[i] = (orr_decision_plan){0};
        sum_regrets(d, i, scratch, &plans[i]);
        judge_order(d, i, ret->best, &plans[i]);
        ret->n_set += plans[i].in_set;
    }
    ret->recommended = ret->best;
    for (uint32_t i = 0; i < d->n; i++)
        if (plans[i].in_set && plans[i].mean_regret_frac < plans[ret->recommended].mean_regret_frac)
            ret->recommended = i;
    ret->plans = plans;
    ret->n = d->n;
    return ORR_OK;
}

/* --- the decision ---------------------------------------------------------------------------- */

static orr_status check(const decider *d, const orr_decision_options *o)
{
    if (o->draws > ORR_DECISION_DRAWS || !(o->widening >= 0 && o->widening <= 10))
        return orr_fail(d->err, ORR_INVALID, "draws: at most %d; widening: 0 to 10",
                        ORR_DECISION_DRAWS);
    if (d->n == 0)
        return orr_fail(d->err, ORR_INVALID, "nothing to decide between");
    for (uint32_t i = 0; i < d->n; i++)
        if (!(d->plans[i].value[d->objective] > 0))
            return orr_fail(d->err, ORR_INVALID, "plan %u was not simulated", i + 1);
    return ORR_OK;
}

orr_status orr_explore_decide(const orr_model *model, const orr_cluster *cluster,
                              const orr_explore_options *options, const orr_explored *plans,
                              uint32_t n, const orr_decision_options *how, orr_arena *arena,
                              orr_decision *ret, orr_error *err)
{
    orr_decision_options o;
    orr_decision made = {0};
    const orr_calibration *usual = options->calibration;
    decider d = {.model = model,
                 .cluster = cluster,
                 .plans = plans,
                 .n = n,
                 .objective = options->objective,
                 .stop = options->stop,
                 .arena = arena,
                 .err = err};
    orr_decision_options_init(&o);
    if (how != NULL)
        memcpy(&o, how, how->struct_bytes < sizeof o ? how->struct_bytes : sizeof o);
    ORR_TRY(check(&d, &o));
    orr_job_options_init(&d.job);
    d.job.workload = options->workload;
    d.job.software_year = options->software_year;
    if (usual == NULL)
        ORR_TRY(orr_calibration_of(cluster->device, options->software_year, arena, &usual, err));
    ORR_TRY(orr_calibration_draws_of(usual, cluster, arena, &d.draws, err));
    d.draws.seed = o.seed;
    d.draws.widening = o.widening;
    made.draws = d.draws.n > 0 ? o.draws : 0;
    made.parameters = d.draws.n;
    d.n_draws = made.draws > 0 ? made.draws : 1;
    if (made.draws == 0)
        d.draws.n = 0; /* one draw, of the calibration as it is */
    d.usual_ns = orr_arena_array(arena, double, n);
    d.values = orr_arena_array(arena, double, (size_t)d.n_draws *n);
    if (d.usual_ns == NULL || d.values == NULL)
        return orr_fail_memory(err);
    if (estimate_all(&d, usual, d.usual_ns) != ORR_OK)
        return orr_fail_memory(err);
    ORR_TRY(run_draws(&d, o.threads));
    if (is_stopped(&d))
        return orr_fail(err, ORR_INVALID, "stopped before it was decided");
    ORR_TRY(fill(&d, &made));
    *ret = made;
    return ORR_OK;
}
