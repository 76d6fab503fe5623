/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/evaluate/evaluator.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "machine/cluster/price.h"
#include "model/plan/groups.h"
#include "model/plan/plan.h"
#include "estimate/estimate.h"
#include "explore/evaluate/effective_time.h"

struct orr_evaluator {
    const orr_model *model;
    const orr_cluster *cluster;
    orr_explore_options options;
    orr_job_options job;
    orr_estimator *estimator;
    orr_effective_time *effective; /* cache of effective times; NULL: failures are not simulated */
    bool borrowed;                 /* the cache belongs to another evaluator */
};

orr_status orr_evaluator_new(const orr_model *model, const orr_cluster *cluster,
                             const orr_explore_options *options, orr_evaluator **ret,
                             orr_error *err)
{
    orr_status status = ORR_OK;
    orr_evaluator *evaluator = orr_calloc(1, sizeof *evaluator);
    if (evaluator == NULL)
        return orr_fail_memory(err);
    evaluator->model = model;
    evaluator->cluster = cluster;
    evaluator->options = *options;
    orr_job_options_init(&evaluator->job);
    evaluator->job.workload = options->workload;
    evaluator->job.software_year = options->software_year;
    evaluator->job.calibration = options->calibration;
    ORR_TRY_OUT(status,
                orr_estimator_new(model, cluster, &evaluator->job, &evaluator->estimator, err));
    if (options->fleet != NULL)
        ORR_TRY_OUT(status, orr_effective_time_new(options->fleet, &evaluator->effective, err));
    *ret = evaluator;
    return ORR_OK;
out:
    orr_evaluator_free(evaluator);
    return status;
}

void orr_evaluator_share_failures(orr_evaluator *evaluator, const orr_evaluator *from)
{
    if (evaluator == from || evaluator->effective == NULL || evaluator->borrowed)
        return;
    orr_effective_time_free(evaluator->effective);
    evaluator->effective = from->effective;
    evaluator->borrowed = true;
}

void orr_evaluator_free(orr_evaluator *evaluator)
{
    if (evaluator == NULL)
        return;
    if (!evaluator->borrowed)
        orr_effective_time_free(evaluator->effective);
    orr_estimator_free(evaluator->estimator);
    orr_free(evaluator);
}

/* --- from step time to objectives ------------------------------------------------------------ */

/* USD of all devices for an hour; NAN: a price is unknown. */
static double price_of_hour(const orr_evaluator *evaluator, const orr_objective_inputs *use)
{
    const orr_cluster *cluster = evaluator->cluster;
    const double said = evaluator->options.price_per_hour;
    double sum = 0;
    if (use->site_devices == NULL || cluster->n_sites == 0)
        return use->n_devices * orr_price_per_hour(cluster, 0, said);
    for (uint32_t s = 0; s < cluster->n_sites; s++)
        if (use->site_devices[s] > 0)
            sum += use->site_devices[s] * orr_price_per_hour(cluster, s, said);
    return sum;
}

static double tokens_of_step(const orr_evaluator *evaluator, const orr_plan *plan)
{
    const uint32_t seq =
        evaluator->options.workload.seq > 0 ? evaluator->options.workload.seq : plan->seq;
    return (double)plan->batch * seq;
}

orr_status orr_evaluator_objectives(orr_evaluator *evaluator, const orr_plan *plan,
                                    const orr_objective_inputs *use, double ret[ORR_OBJECTIVES],
                                    double *ret_effective, orr_error *err)
{
    const bool budget = evaluator->options.tokens > 0;
    const double steps = budget ? evaluator->options.tokens / tokens_of_step(evaluator, plan) : 1;
    double effective = 1;
    if (evaluator->effective != NULL)
        ORR_TRY(orr_effective_time_frac(evaluator->effective, use->n_devices, use->replicas,
                                        &effective, err));
    const double wall_ns = steps * use->step_ns / effective;
    ret[ORR_OBJECTIVE_STEP] = use->step_ns;
    ret[ORR_OBJECTIVE_BUDGET] = budget ? wall_ns : NAN;
    ret[ORR_OBJECTIVE_COST] = price_of_hour(evaluator, use) * wall_ns / 3600e9;
    ret[ORR_OBJECTIVE_ENERGY] = steps / effective * use->energy_j;
    ret[ORR_OBJECTIVE_DEVICES] = use->n_devices;
    *ret_effective = evaluator->effective != NULL ? effective : NAN;
    return ORR_OK;
}

/* Copies of all weights and states: the unit that can go on when another one fails. */
static uint32_t copies(const orr_plan *plan)
{
    return plan->zero > 0 ? orr_plan_group_size(plan, ORR_AXIS_REPLICA)
                          : orr_plan_group_size(plan, ORR_AXIS_DP);
}

typedef struct draw {
    double idle_w, more_w; /* idle power, and what computation adds */
} draw;

/* The lowest draw of the devices that take part; NAN: unknown for one of them. */
static draw least_draw(const orr_evaluator *evaluator, const orr_objective_inputs *use)
{
    draw least = {INFINITY, INFINITY};
    const uint32_t n = evaluator->cluster->n_sites > 0 ? evaluator->cluster->n_sites : 1;
    for (uint32_t s = 0; s < n; s++) {
        const bool sites = evaluator->cluster->n_sites > 0;
        const orr_device *device =
            sites ? evaluator->cluster->sites[s].device : evaluator->cluster->device;
        const double power_w = orr_fact_or(&device->power_w, NAN);
        const double idle_w =
            orr_fact_or(&device->idle_power_w, 0.15 * power_w); /* as in sim/results/energy.h */
        if (sites && use->site_devices[s] == 0)
            continue;
        if (isnan(power_w))
            return (draw){NAN, NAN};
        least.idle_w = fmin(least.idle_w, idle_w);
        least.more_w = fmin(least.more_w, power_w - idle_w);
    }
    return least;
}

/* Lower bound of the energy: full power for the computation that every plan needs, idle power for
 * the rest. */
static orr_status least_energy(orr_evaluator *evaluator, const orr_plan *plan,
                               const orr_objective_inputs *use, double *ret_j, orr_error *err)
{
    const draw each = least_draw(evaluator, use);
    double floor_ns;
    ORR_TRY(orr_estimate_family_bound(evaluator->estimator, plan, use->n_devices, &floor_ns, err));
    *ret_j = use->n_devices * 1e-9 * (each.more_w * floor_ns + each.idle_w * use->step_ns);
    return ORR_OK;
}

static bool changes_numerics(const orr_evaluator *evaluator, const orr_plan *plan)
{
    const orr_plan *usual = evaluator->options.base;
    const uint8_t precision =
        usual != NULL && usual->precision != 0 ? usual->precision : ORR_PRECISION_BF16;
    return plan->precision != precision || plan->compress > ORR_COMPRESS_NONE ||
           plan->local_steps > 1;
}

/* --- closed form ----------------------------------------------------------------------------- */

orr_status orr_evaluator_estimate(orr_evaluator *evaluator, const orr_plan *plan, orr_explored *ret,
                                  orr_error *err)
{
    orr_explored made = {.plan = orr_plan_with_job_defaults(plan, evaluator->model,
                                                            evaluator->job.workload.task,
                                                            evaluator->cluster),
                         .tokens_per_s = NAN,
                         .mfu_frac = NAN};
    orr_estimate estimate;
    uint32_t sites[ORR_SITES_MAX];
    ORR_TRY(orr_estimate_of(evaluator->estimator, plan, &estimate, err));
    made.n_devices = (uint32_t)orr_plan_ranks(&made.plan);
    made.bound_ns = estimate.bound_ns;
    /* A bound that is proven knows better than the estimate. */
    made.estimate_ns =
        estimate.step_ns > estimate.bound_ns ? estimate.step_ns : estimate.bound_ns;
    made.peak_bytes = estimate.peak_bytes;
    made.usable_bytes = estimate.usable_bytes;
    made.other_numerics = changes_numerics(evaluator, &made.plan);
    orr_plan_site_devices(&made.plan, evaluator->cluster, sites);
    orr_objective_inputs use = {.site_devices = sites,
                                .n_devices = made.n_devices,
                                .replicas = copies(&made.plan),
                                .step_ns = (double)estimate.bound_ns,
                                .energy_j = NAN};
    if (evaluator->options.objective == ORR_OBJECTIVE_ENERGY ||
        evaluator->options.second == ORR_OBJECTIVE_ENERGY)
        ORR_TRY(least_energy(evaluator, &made.plan, &use, &use.energy_j, err));
    ORR_TRY(orr_evaluator_objectives(evaluator, &made.plan, &use, made.value, &made.effective_frac,
                                     err));
    *ret = made;
    return ORR_OK;
}

orr_status orr_evaluator_most_effective(orr_evaluator *evaluator, uint32_t n_devices,
                                        uint32_t ranks, double *ret, orr_error *err)
{
    *ret = 1;
    return evaluator->effective != NULL
               ? orr_effective_time_most(evaluator->effective, n_devices, ranks, ret, err)
               : ORR_OK;
}

void orr_evaluator_any_reductions(orr_evaluator *evaluator, bool any)
{
    orr_estimate_any_reductions(evaluator->estimator, any);
}

const double *orr_evaluator_reductions(const orr_evaluator *evaluator, uint32_t *ret_n)
{
    *ret_n = evaluator->estimator->n_reductions;
    return evaluator->estimator->reductions;
}

orr_status orr_evaluator_order_free_bound(orr_evaluator *evaluator, const orr_plan *plan,
                                          bool anywhere, bool quick, double *ret_ns, orr_error *err)
{
    return orr_estimate_order_free_bound(evaluator->estimator, plan, anywhere, quick, ret_ns, err);
}

orr_status orr_evaluator_degrees_bound(orr_evaluator *evaluator, const orr_plan *plan,
                                       const orr_memory_scope *scope, bool anywhere, double *ret_ns,
                                       orr_error *err)
{
    const orr_degrees_scope of_degrees = {.zeros = scope->zeros,
                                          .gradients = scope->gradients,
                                          .offloads_activations = scope->offloads_activations,
                                          .slack = scope->slack};
    return orr_estimate_degrees_bound(evaluator->estimator, plan, &of_degrees, anywhere, ret_ns,
                                      err);
}

orr_status orr_evaluator_family_bound(orr_evaluator *evaluator, const orr_plan *plan,
                                      double *ret_ns, orr_error *err)
{
    const uint32_t most = evaluator->options.max_devices;
    const uint32_t n =
        most > 0 && most < evaluator->cluster->n_devices ? most : evaluator->cluster->n_devices;
    return orr_estimate_family_bound(evaluator->estimator, plan, n, ret_ns, err);
}

/* --- simulation ------------------------------------------------------------------------------ */

/* USD for the traffic that leaves sites in a step: half of what crosses a link goes each way. */
static double price_of_cuts(const orr_outcome *outcome)
{
    double sum = 0;
    for (uint32_t i = 0; i < outcome->n_cuts; i++)
        for (uint32_t c = 0; c < outcome->cluster->n_cuts; c++) {
            const orr_site_link *cut = &outcome->cluster->cuts[c];
            if (cut->a == outcome->cuts[i].a && cut->b == outcome->cuts[i].b)
                sum += outcome->cuts[i].bytes / 1e9 * orr_fact_or(&cut->price_per_gb, 0);
        }
    return sum;
}

static void take_worst_stage(const orr_memory_plan *memory, orr_explored *ret)
{
    ret->peak_bytes = memory->stages[memory->worst].peak_bytes;
    ret->usable_bytes = memory->capacity_bytes;
}

static orr_status judge_outcome(orr_evaluator *evaluator, const orr_outcome *outcome,
                                orr_explored *ret, orr_error *err)
{
    uint32_t sites[ORR_SITES_MAX];
    orr_plan_site_devices(&outcome->plan, evaluator->cluster, sites);
    const orr_objective_inputs use = {.site_devices = sites,
                                      .n_devices = outcome->n_ranks,
                                      .replicas = copies(&outcome->plan),
                                      .step_ns = (double)outcome->step_ns,
                                      .energy_j = outcome->energy_j};
    ret->step_ns = outcome->step_ns;
    ret->tokens_per_s = outcome->tokens_per_s;
    ret->mfu_frac = outcome->mfu_frac;
    take_worst_stage(&outcome->memory, ret);
    ORR_TRY(orr_evaluator_objectives(evaluator, &outcome->plan, &use, ret->value,
                                     &ret->effective_frac, err));
    const double steps = ret->value[ORR_OBJECTIVE_BUDGET] / use.step_ns;
    ret->value[ORR_OBJECTIVE_COST] += price_of_cuts(outcome) * (isnan(steps) ? 1 : steps);
    return ORR_OK;
}

orr_status orr_evaluator_simulate(orr_evaluator *evaluator, const orr_plan *plan, orr_explored *ret,
                                  orr_error *err)
{
    orr_explored made;
    orr_outcome outcome = {0};
    ORR_TRY(orr_evaluator_estimate(evaluator, plan, &made, err));
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    orr_status status = orr_outcome_of(evaluator->model, plan, evaluator->cluster, &evaluator->job,
                                       arena, &outcome, err);
    if (status == ORR_OK)
        status = judge_outcome(evaluator, &outcome, &made, err);
    orr_outcome_free(&outcome);
    orr_arena_free(arena);
    if (status == ORR_OK)
        *ret = made;
    return status;
}
