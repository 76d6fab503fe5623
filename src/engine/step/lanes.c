/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

/* Communicators and lanes: all communication along a parallelism axis is in one lane, so that all
 * members do it in the same order; each lane has a channel of its own. */

uint8_t orr_step_lane_of(const orr_plan *plan, uint32_t axis)
{
    switch (axis) {
    case ORR_AXIS_CP:
        return plan->cp_kind == ORR_CONTEXT_RING ? ORR_STEP_LANE_CP : ORR_LANE_COMPUTE;
    case ORR_AXIS_EP:
        return plan->overlap_ep == ORR_SWITCH_ON ? ORR_STEP_LANE_EP : ORR_LANE_COMPUTE;
    case ORR_AXIS_GRADIENT:
    case ORR_AXIS_SHARD:
    case ORR_AXIS_REPLICA:
    case ORR_AXIS_EDP:
    case ORR_AXIS_TIED:
        return plan->overlap_dp == ORR_SWITCH_ON ? ORR_LANE_COMM : ORR_LANE_COMPUTE;
    default:
        return ORR_LANE_COMPUTE;
    }
}

static uint32_t channel_of(const orr_plan *plan, uint32_t axis)
{
    if (axis == ORR_AXIS_PP)
        return 4;
    switch (orr_step_lane_of(plan, axis)) {
    case ORR_LANE_COMM:
        return 1;
    case ORR_STEP_LANE_CP:
        return 2;
    case ORR_STEP_LANE_EP:
        return 3;
    default:
        return 0;
    }
}

enum { SCRATCH_BYTES = 1 << 20 };

/* Stages between embedding and head do not communicate along the tied axis. Embedding bags alone
 * communicate along data parallelism directly; gradients have axes of their own. */
static bool communicates(const orr_engine_step *step, uint32_t axis)
{
    if (orr_step_members(step, axis) < 2)
        return false;
    if (axis == ORR_AXIS_DP)
        return step->source.model->kind == ORR_MODEL_DLRM;
    return axis != ORR_AXIS_TIED || step->stage == 0 || step->stage == step->plan.pp - 1;
}

static orr_status join_axis(orr_engine_step *step, uint32_t axis, orr_error *err)
{
    const uint32_t n = orr_step_members(step, axis);
    uint32_t *members = orr_arena_array(step->arena, uint32_t, n);
    if (members == NULL)
        return orr_fail_memory(err);
    orr_plan_members_of(&step->plan, (orr_axis)axis, step->rank, members);
    return orr_communicator_make(step->source.transport, members, n, channel_of(&step->plan, axis),
                                 SCRATCH_BYTES, step->arena, &step->communicators[axis], err);
}

orr_status orr_step_make_communicators(orr_engine_step *step, orr_error *err)
{
    const uint32_t ranks = (uint32_t)orr_plan_ranks(&step->plan);
    if (ranks == 1)
        return ORR_OK;
    for (uint32_t axis = 0; axis < ORR_AXES; axis++)
        if (communicates(step, axis))
            ORR_TRY(join_axis(step, axis, err));
    uint32_t *all = orr_arena_array(step->arena, uint32_t, ranks);
    if (all == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < ranks; r++)
        all[r] = r;
    return orr_communicator_make(step->source.transport, all, ranks, 0, SCRATCH_BYTES, step->arena,
                                 &step->world, err);
}
