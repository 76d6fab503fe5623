/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_EVALUATE_INFEASIBILITY_H
#define ORR_EXPLORE_EVALUATE_INFEASIBILITY_H

#include <orrery/explore.h>

/* The binding constraint of an infeasible question: how many plans each reason pruned, and the plan
 * that came closest to fitting. */
typedef struct orr_binding_constraint {
    double pruned[ORR_PRUNES];
    bool has_least;
    orr_explored least; /* the plan that exceeds its memory by the smallest factor */
} orr_binding_constraint;
/* The binding constraint in a sentence, in the arena; NULL: out of memory. */
const char *orr_explore_describe_binding(const orr_binding_constraint *binding, uint32_t n_devices,
                                         orr_arena *arena);
/* Infeasibility analysis (feasibility relaxation): finds the smallest changes of the question that
 * have a feasible plan, by searching again with one constraint relaxed at a time: a limit, an
 * exclusion, a fixed field, the batch, the number of devices, the memory. Fills in `infeasible` and
 * `relaxations`, in the arena. Errors: NO_MEMORY, IO. */
orr_status orr_explore_infeasibility(const orr_model *model, const orr_cluster *cluster,
                                     const orr_explore_options *options,
                                     const orr_binding_constraint *binding, orr_arena *arena,
                                     orr_exploration *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_EVALUATE_INFEASIBILITY_H */
