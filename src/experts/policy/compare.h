/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_COMPARE_H
#define ORR_EXPERTS_POLICY_COMPARE_H

#include <orrery/experts.h>

/* The fastest of n placements, of equal ones the first, without experts twice on a rank but for the
 * first: by the mean step over parts of the requests, with tokens going to copies as serving sends
 * them. A step has the requests that happen to come together, and so have requests that nobody
 * recorded: a placement that is level for all of the history alone is not level for either. Long
 * routes are compared by some of their layers and tokens. options: with routes and costs.
 * ret_ratio: its step for all requests over that of the first. */
orr_status orr_placement_fastest(const orr_expert_options *options,
                                 const orr_expert_placement *placement, uint32_t n,
                                 orr_arena *arena, uint32_t *ret, double *ret_ratio,
                                 orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_POLICY_COMPARE_H */
