/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PLAN_H
#define ORR_MODEL_PLAN_H

#include <orrery/ensemble.h>
#include <orrery/plan.h>

/* The numbers of a plan by index, for who goes through all of them; NULL: there is no such one. */
uint32_t   *orr_plan_field(orr_plan *plan, uint32_t i);
const char *orr_plan_field_name(uint32_t i);
const char *orr_plan_field_about(uint32_t i);

/* Where a rank stands in a plan. */
typedef struct orr_place {
    uint32_t stage, replica, slice;
} orr_place;

static inline uint32_t orr_plan_degree(uint32_t degree)
{
    return degree > 0 ? degree : 1;
}
static inline orr_place orr_place_of(const orr_plan *plan, uint32_t rank)
{
    const uint32_t t = orr_plan_degree(plan->tp), d = orr_plan_degree(plan->dp);
    return (orr_place){.stage = rank / t / d, .replica = rank / t % d, .slice = rank % t};
}
static inline uint32_t orr_rank_at(const orr_plan *plan, orr_place at)
{
    const uint32_t t = orr_plan_degree(plan->tp), d = orr_plan_degree(plan->dp);
    return (at.stage * d + at.replica) * t + at.slice;
}

/* What a stage does, in order: forward or backward of a micro-batch. Shape (2 x micro-batches).
 * 1F1B: Narayanan et al., "Efficient large-scale language model training on GPU clusters using
 * Megatron-LM", SC 2021, figure 4; GPipe: Huang et al., NeurIPS 2019, figure 2. */
typedef struct orr_turn {
    bool     backward;
    uint32_t micro_batch;
} orr_turn;
void orr_schedule_turns(orr_schedule schedule, uint32_t stage, uint32_t stages,
                        uint32_t micro_batches, orr_turn *ret);

/* Groupings tp, dp and pp (in this order) of a plan's ranks, and their numbers. */
enum { ORR_GROUPING_TP, ORR_GROUPING_DP, ORR_GROUPING_PP, ORR_PLAN_GROUPINGS };
orr_status orr_plan_groupings(const orr_plan *plan, orr_arena *arena, const orr_grouping **ret,
                              orr_error *err) ORR_MUST_CHECK;
/* Ranks of a group of such a grouping: rank `first`, `size` of them, every `stride`. */
typedef struct orr_stride {
    uint32_t first, size, stride;
} orr_stride;
orr_stride orr_plan_group(const orr_plan *plan, uint32_t grouping, uint32_t rank);

#endif /* ORR_MODEL_PLAN_H */
