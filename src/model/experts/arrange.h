/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_EXPERTS_ARRANGE_H
#define ORR_MODEL_EXPERTS_ARRANGE_H

#include <orrery/model.h>

/* How a plan arranges experts and requests: from the routes or loads of a workload and the plan's
 * ep, expert_slots, expert_policy and request_groups; placements for the hosts and links of the
 * workload's cluster, where the first ranks that share the experts stand. */

/* The workload as the plan arranges it: itself where the plan says nothing. What is made is kept in
 * workload->arrangements where that is not NULL, else in the arena. Errors: INVALID: a policy
 * beside a placement that is given, groups without routes; those of orr_experts_place() and
 * orr_expert_groups_fit(). */
orr_status orr_experts_arrange(const orr_model *model, const orr_plan *plan,
                               const orr_workload *workload, orr_arena *arena, orr_workload *ret,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_EXPERTS_ARRANGE_H */
