/* SPDX-License-Identifier: Apache-2.0 */
/* The table of policies. */
#include <math.h>

#include "experts/policy/policy.h"

/* By orr_expert_policy. */
static orr_policy_place *const policies[ORR_EXPERT_POLICIES] = {
    [ORR_EXPERT_POLICY_BEST] = orr_place_best,
    [ORR_EXPERT_POLICY_LINEAR] = orr_place_linear,
    [ORR_EXPERT_POLICY_EPLB] = orr_place_eplb,
    [ORR_EXPERT_POLICY_AFFINITY] = orr_place_affinity,
    [ORR_EXPERT_POLICY_COACTIVATION] = orr_place_coactivation,
    [ORR_EXPERT_POLICY_ILP] = orr_place_ilp,
};

/* Names the experts without a slot. */
static orr_status list_missing(const orr_policy_problem *p, orr_arena *arena,
                               orr_expert_result *ret, orr_error *err)
{
    const uint32_t n = p->layers * (p->experts - p->kept);
    if (n == 0)
        return ORR_OK;
    uint32_t(*missing)[2] = orr_arena_alloc(arena, n, sizeof *missing, _Alignof(uint32_t));
    if (missing == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < p->layers; l++)
        for (uint32_t e = 0; e < p->experts; e++)
            if (p->missing[(size_t)l * p->experts + e]) {
                missing[ret->n_missing][0] = l;
                missing[ret->n_missing++][1] = e;
            }
    ret->missing = missing;
    return ORR_OK;
}

orr_status orr_experts_place(const orr_expert_options *options, orr_arena *arena,
                             orr_expert_result *ret, orr_error *err)
{
    orr_policy_problem problem;
    orr_expert_result result = {.bound_ns = NAN, .gap_frac = NAN, .bound_imbalance = NAN};

    if (options->policy >= ORR_EXPERT_POLICIES)
        return orr_fail(err, ORR_INVALID, "policy %d is not known", options->policy);
    ORR_TRY(orr_policy_problem_make(options, arena, &problem, err));
    /* Routes are not counted again for every evaluation. */
    const orr_expert_windows loads = {.windows = 1,
                                      .layers = problem.layers,
                                      .experts = problem.experts,
                                      .number = problem.number,
                                      .load = problem.load,
                                      .source = options->windows != NULL ? options->windows->source
                                                                         : options->routes->source};
    orr_expert_options with_loads = *problem.options;
    with_loads.windows = &loads;
    problem.options = &with_loads;
    ORR_TRY(policies[options->policy](&problem, arena, &result, err));
    ORR_TRY(list_missing(&problem, arena, &result, err));
    ORR_TRY(orr_experts_evaluate(&result.placement, &with_loads, arena, &result.quality, err));
    *ret = result;
    return ORR_OK;
}
