/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_POLICY_H
#define ORR_EXPERTS_POLICY_POLICY_H

#include "experts/placement/build.h"

/* What every policy solves: the options, checked and with their defaults filled in. Letters as in
 * <orrery/experts.h>. Frozen; lives in the arena. */
typedef struct orr_policy_problem {
    const orr_expert_options *options;
    uint32_t layers, experts, ranks;
    uint32_t host_ranks, hosts; /* the last host may have fewer ranks than the others */
    const uint32_t *number;     /* shape (L): the layer's number in the model */
    const double *load;         /* shape (L, E): choices, summed over windows; finite, >= 0 */
    bool counted;               /* the loads are the choices of the routes */
    uint32_t *rank_slots;       /* shape (R): slots of a rank in a layer, at most E; 0: dead */
    uint32_t slots;             /* the sum of rank_slots */
    uint32_t kept;              /* experts of a layer that get a slot: min(E, slots) */
    bool grouped;               /* groups of experts are kept on hosts, equally many on each */
    const bool *missing;        /* shape (L, E): the E - kept least loaded experts of a layer, which
                                 * get none; NULL: kept == E */
} orr_policy_problem;

/* Checks the options and makes the problem. Errors: those of orr_experts_place(). */
orr_status orr_policy_problem_make(const orr_expert_options *options, orr_arena *arena,
                                   orr_policy_problem *ret, orr_error *err) ORR_MUST_CHECK;

/* Deals the kept experts of a layer to ranks as evenly as their slots allow; where that leaves a
 * rest, the first ranks have one more. ret: shape (R). */
void orr_policy_deal(const orr_policy_problem *problem, uint32_t *ret);

/* A draft with the problem's layers and numbers. slots: shape (L, R), of each rank in a layer;
 * NULL: rank_slots in each layer. */
orr_status orr_policy_draft(const orr_policy_problem *problem, const uint32_t *slots,
                            orr_arena *arena, orr_placement_draft *ret,
                            orr_error *err) ORR_MUST_CHECK;

/* A policy: fills in ret->placement but for `policy` and `source`, and the bounds that it knows;
 * these are NAN before. Everything lives in the arena. Outputs are written only on success. */
typedef orr_status orr_policy_place(const orr_policy_problem *problem, orr_arena *arena,
                                    orr_expert_result *ret, orr_error *err);
orr_policy_place orr_place_linear, orr_place_eplb, orr_place_balance, orr_place_ilp, orr_place_best,
    orr_place_affinity, orr_place_coactivation;

#endif /* ORR_EXPERTS_POLICY_POLICY_H */
