/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/heterogeneous.h"

#include "model/memory/memory.h"
#include "model/plan/plan.h"

/* Steps of variants: kernels of another device, transfers over slow links, other numbers of
 * micro-batches. */

static void slow_down(orr_network *network, uint32_t from_level, double frac)
{
    for (uint32_t l = from_level; l < network->n_levels; l++)
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            network->levels[l].bytes_per_s[p] *= frac;
            network->reduction[l].bytes_per_s[p] *= frac;
        }
}

orr_status orr_outcome_device_rates(const orr_outcome_job *job, const orr_device *device,
                                    orr_arena *arena, const orr_job_rates **ret, orr_error *err)
{
    orr_cluster *cluster = orr_arena_one(arena, orr_cluster);
    orr_job_rates *rates = orr_arena_one(arena, orr_job_rates);
    const orr_calibration *calibration;
    if (cluster == NULL || rates == NULL)
        return orr_fail_memory(err);
    *cluster = *job->cluster;
    cluster->device = device;
    ORR_TRY(orr_outcome_calibration(orr_outcome_kind(job->model, job->workload.task), NULL, device,
                                    job->calibration->software_year, arena, &calibration, err));
    orr_job_rates_init(cluster, calibration, job->rates.algorithm, rates);
    *ret = rates;
    return ORR_OK;
}

/* NULL: out of memory. */
static const orr_job_rates *slowed(const orr_job_rates *rates, uint32_t from_level, double frac,
                                   orr_arena *arena)
{
    orr_job_rates *slow = orr_arena_one(arena, orr_job_rates);
    if (slow == NULL)
        return NULL;
    *slow = *rates;
    slow_down(&slow->network, from_level, frac);
    return slow;
}

static orr_status variant_prices(const orr_outcome_job *job, const orr_rank_variant *as,
                                 orr_arena *arena, orr_step_prices *ret, orr_error *err)
{
    orr_step_prices prices = job->prices;
    if (as->device != NULL)
        ORR_TRY(orr_outcome_device_rates(job, as->device, arena, &prices.kernels, err));
    for (int axis = 0; axis < ORR_AXES; axis++) {
        const double frac = (double)as->bandwidth_frac[axis];
        const uint32_t from = as->from_level[axis];
        if (!(frac < 1))
            continue;
        prices.transfers[axis] = slowed(prices.transfers[axis], from, frac, arena);
        if (prices.sums[axis] != NULL)
            prices.sums[axis] = slowed(prices.sums[axis], from, frac, arena);
        if (prices.transfers[axis] == NULL || (job->prices.sums[axis] && !prices.sums[axis]))
            return orr_fail_memory(err);
    }
    *ret = prices;
    return ORR_OK;
}

static orr_status reschedule(const orr_outcome_job *job, uint32_t micro_batches, orr_arena *arena,
                             orr_step_job *step, orr_error *err)
{
    orr_plan *plan = orr_arena_one(arena, orr_plan);
    orr_schedule_plan *schedule = orr_arena_one(arena, orr_schedule_plan);
    if (plan == NULL || schedule == NULL)
        return orr_fail_memory(err);
    *plan = orr_plan_with_micro_batches(&job->plan, micro_batches);
    const orr_schedule_spec spec = orr_plan_schedule(plan);
    ORR_TRY(orr_schedule_make(&spec, arena, schedule, err));
    step->plan = plan;
    step->schedule = schedule;
    return orr_step_stage_transfers(schedule, orr_task_trains(job->workload.task), arena,
                                    &step->passes, err);
}

orr_status orr_rank_variant_step(const orr_outcome_job *job, const orr_rank_variant *as,
                                 orr_arena *arena, orr_step_job *ret, orr_error *err)
{
    orr_step_prices *prices = orr_arena_one(arena, orr_step_prices);
    if (prices == NULL)
        return orr_fail_memory(err);
    ORR_TRY(variant_prices(job, as, arena, prices, err));
    ORR_TRY(orr_outcome_price(job, prices, arena, ret, err));
    return as->micro_batches > 0 ? reschedule(job, as->micro_batches, arena, ret, err) : ORR_OK;
}
