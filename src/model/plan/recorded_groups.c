/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan/plan.h"

/* Process groups and schedules of recorded jobs: three axes in the fixed order tp-dp-pp, without
 * context, expert or outer parallelism. Rescaling a recording (rescale/) changes only these
 * three degrees, so it uses this closed form instead of groups.h, which handles every axis in
 * every order. */

void orr_schedule_stage_slots(orr_schedule schedule, uint32_t stage, uint32_t stages,
                              uint32_t micro_batches, orr_schedule_slot *ret)
{
    uint32_t ahead = stages - 1 - stage; /* forwards of the warm-up phase: how far the stage runs
                                          * ahead of its backwards */
    if (schedule == ORR_SCHEDULE_GPIPE || ahead > micro_batches)
        ahead = micro_batches;
    uint32_t forward = 0, backward = 0, n = 0;
    while (forward < ahead)
        ret[n++] = (orr_schedule_slot){.phase = ORR_SLOT_FORWARD, .micro_batch = forward++};
    while (backward < micro_batches) {
        if (forward < micro_batches)
            ret[n++] = (orr_schedule_slot){.phase = ORR_SLOT_FORWARD, .micro_batch = forward++};
        ret[n++] = (orr_schedule_slot){.phase = ORR_SLOT_BACKWARD, .micro_batch = backward++};
    }
}

orr_strided_group orr_plan_group(const orr_plan *plan, uint32_t grouping, uint32_t rank)
{
    const uint32_t t = orr_plan_degree(plan->tp), d = orr_plan_degree(plan->dp),
                   p = orr_plan_degree(plan->pp);
    orr_recorded_position at = orr_recorded_position_of(plan, rank);
    switch (grouping) {
    case ORR_GROUPING_TP:
        at.slice = 0;
        return (orr_strided_group){orr_recorded_rank_at(plan, at), t, 1};
    case ORR_GROUPING_DP:
        at.replica = 0;
        return (orr_strided_group){orr_recorded_rank_at(plan, at), d, t};
    default:
        at.stage = 0;
        return (orr_strided_group){orr_recorded_rank_at(plan, at), p, t * d};
    }
}

/* Number of the rank's group; groups are numbered by their first ranks. */
static uint32_t group_number(const orr_plan *plan, uint32_t grouping, uint32_t rank)
{
    const uint32_t t = orr_plan_degree(plan->tp), d = orr_plan_degree(plan->dp);
    const orr_recorded_position at = orr_recorded_position_of(plan, rank);
    switch (grouping) {
    case ORR_GROUPING_TP:
        return at.stage * d + at.replica;
    case ORR_GROUPING_DP:
        return at.stage * t + at.slice;
    default:
        return at.replica * t + at.slice;
    }
}

orr_status orr_plan_groupings(const orr_plan *plan, orr_arena *arena, const orr_grouping **ret,
                              orr_error *err)
{
    static const char *const names[] = {"tp", "dp", "pp"};
    const uint32_t n_ranks = (uint32_t)orr_plan_ranks(plan);
    orr_grouping *groupings = orr_arena_array(arena, orr_grouping, ORR_PLAN_GROUPINGS);
    if (groupings == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < ORR_PLAN_GROUPINGS; i++) {
        uint32_t *group_of = orr_arena_array(arena, uint32_t, n_ranks);
        if (group_of == NULL)
            return orr_fail_memory(err);
        for (uint32_t r = 0; r < n_ranks; r++)
            group_of[r] = group_number(plan, i, r);
        const uint32_t size = orr_plan_group(plan, i, 0).size;
        ORR_TRY(orr_grouping_of(names[i], group_of, n_ranks, n_ranks / size, arena, &groupings[i],
                                err));
    }
    *ret = groupings;
    return ORR_OK;
}
