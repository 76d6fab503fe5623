/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan/check.h"
#include "model/plan/plan.h"
#include "model/schedule/schedule.h"

/* Micro-batches that differ by site: replicas on faster devices compute more of a step's. */

uint32_t orr_plan_micro_batches_of(const orr_plan *plan, uint32_t replica)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS && orr_plan_has_site_micro_batches(plan); i++) {
        end += plan->sites[i];
        if (replica < end)
            return plan->site_micro_batches[i];
    }
    return plan->micro_batches;
}

uint32_t orr_plan_most_micro_batches(const orr_plan *plan)
{
    uint32_t most = orr_plan_has_site_micro_batches(plan) ? 0 : plan->micro_batches;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        if (plan->site_micro_batches[i] > most)
            most = plan->site_micro_batches[i];
    return most;
}

uint64_t orr_plan_step_micro_batches(const orr_plan *plan)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        sum += (uint64_t)plan->sites[i] * plan->site_micro_batches[i];
    return orr_plan_has_site_micro_batches(plan) ? sum : (uint64_t)plan->dp * plan->micro_batches;
}

/* A group that was not asked for is the smallest that fills the pipeline. */
orr_plan orr_plan_with_micro_batches(const orr_plan *plan, uint32_t micro_batches)
{
    orr_plan p = *plan;
    p.micro_batches = micro_batches;
    if (p.schedule == ORR_SCHEDULE_INTERLEAVED && micro_batches != plan->micro_batches &&
        p.group == orr_schedule_smallest_group(p.pp, plan->micro_batches))
        p.group = orr_schedule_smallest_group(p.pp, micro_batches);
    return p;
}

/* What replicas do together in a micro-batch has to be done by all of them as often. */
static orr_status check_meetings(const orr_plan *p, orr_error *err)
{
    const uint64_t of_replica = (uint64_t)orr_plan_degree(p->tp) * orr_plan_degree(p->cp);
    const uint64_t experts = (uint64_t)p->ep * (p->ep > 1 ? p->etp : 1);
    uint64_t replicas = 0;
    if (p->zero == 2 || (p->zero == 3 && !orr_plan_keeps_gathered(p)))
        return orr_fail(err, ORR_INVALID,
                        "site_micro_batches with zero=%u: shards are gathered or reduced in each "
                        "micro-batch, by all replicas",
                        p->zero);
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++) {
        if (p->sites[i] > 0 && replicas * of_replica % experts != 0)
            return orr_fail(err, ORR_INVALID,
                            "site_micro_batches: %llu ranks share experts, over the boundary of "
                            "site %u, and send them tokens in each micro-batch",
                            (unsigned long long)experts, i + 1);
        replicas += p->sites[i];
    }
    return ORR_OK;
}

static orr_status check_schedules(const orr_plan *p, orr_error *err)
{
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++) {
        const orr_plan of_site = orr_plan_with_micro_batches(p, p->site_micro_batches[i]);
        const orr_schedule_spec spec = orr_plan_schedule(&of_site);
        if (p->sites[i] > 0)
            ORR_TRY(orr_schedule_spec_check(&spec, err));
    }
    return ORR_OK;
}

orr_status orr_plan_check_site_micro_batches(const orr_plan *given, orr_error *err)
{
    const uint32_t most = orr_plan_most_micro_batches(given);
    if (!orr_plan_has_site_micro_batches(given))
        return ORR_OK;
    const orr_plan p = orr_plan_with_defaults(given);
    if (!orr_plan_has_sites(given) || p.cross != ORR_CROSS_DP)
        return orr_fail(err, ORR_INVALID,
                        "site_micro_batches are those of each site's replicas: of which sites "
                        "(sites=5-3, cross=dp)?");
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        if ((given->sites[i] > 0) != (given->site_micro_batches[i] > 0))
            return orr_fail(err, ORR_INVALID,
                            "site_micro_batches: site %u has %u replicas and %u micro-batches",
                            i + 1, given->sites[i], given->site_micro_batches[i]);
    if (given->micro_batches > 0 && given->micro_batches != most)
        return orr_fail(err, ORR_INVALID,
                        "micro_batches=%u: site_micro_batches says %u at most; leave one of them",
                        given->micro_batches, most);
    ORR_TRY(check_meetings(&p, err));
    return check_schedules(&p, err);
}
