/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_EVALUATE_INFEASIBILITY_H
#define ORR_EXPLORE_EVALUATE_INFEASIBILITY_H

#include <orrery/explore.h>

/* When no plan is feasible: why, and what would have to be otherwise. */
typedef struct orr_binding_constraint {
    double pruned[ORR_PRUNES];
    bool has_least;
    orr_explored least; /* of the plans that do not fit, the one whose peak is least beyond what its
                           devices hold */
} orr_binding_constraint;
/* Fills in `infeasible` and `relaxations`, by searching again with one thing at a time let go: a
 * bound, what was left out, what was fixed; another batch; more devices; more memory. In the arena.
 * Errors: NO_MEMORY, IO. */
orr_status orr_explore_infeasibility(const orr_model *model, const orr_cluster *cluster,
                                     const orr_explore_options *options,
                                     const orr_binding_constraint *binding, orr_arena *arena,
                                     orr_exploration *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_EVALUATE_INFEASIBILITY_H */
