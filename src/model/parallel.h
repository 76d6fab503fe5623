/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PARALLEL_H
#define ORR_MODEL_PARALLEL_H

#include <orrery/ensemble.h>
#include <orrery/machine.h>
#include <orrery/plan.h>

/* Where ranks stand in a plan, and who shares what with whom. Rank = mixed number of the four base
 * axes, innermost first in the plan's order. */
typedef struct orr_coordinates {
    uint32_t at[ORR_BASE_AXES]; /* by axis: slice, context slice, replica, stage */
} orr_coordinates;
orr_coordinates orr_plan_coordinates(const orr_plan *plan, uint32_t rank);
uint32_t        orr_plan_rank_at(const orr_plan *plan, const orr_coordinates *at);

/* Ranks of the group of `rank` along an axis, in order. `ret`: shape (orr_plan_group_size()). */
void orr_plan_members_of(const orr_plan *plan, orr_axis axis, uint32_t rank, uint32_t *ret);
/* Which member of its group along the axis a rank is. */
uint32_t orr_plan_member(const orr_plan *plan, orr_axis axis, uint32_t rank);
/* All groups of an axis, as a grouping over orr_plan_ranks(). PP groups hold the stages of a
 * pipeline in order. */
orr_status orr_plan_grouping(const orr_plan *plan, orr_axis axis, orr_arena *arena,
                             orr_grouping *ret, orr_error *err) ORR_MUST_CHECK;
/* How the first group of the axis lies on the cluster (all lie alike where degrees divide levels);
 * without listing ranks where it can be told from strides: estimates ask this often. */
orr_status orr_plan_span(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                         orr_span *ret, orr_error *err) ORR_MUST_CHECK;
/* Of a send between stage s and the next. */
orr_status orr_plan_stage_span(const orr_plan *plan, uint32_t stage, const orr_cluster *cluster,
                               orr_span *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_PARALLEL_H */
