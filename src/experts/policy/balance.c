/* SPDX-License-Identifier: Apache-2.0 */
/* Placements by loads alone: every layer balanced, its copies of unequal shares. Where layers may
 * have different numbers of slots, copies go to those that they help most. */
#include "experts/policy/balance.h"

#include <math.h>
#include <string.h>

/* Writes a balanced layer into a placement. */
static void write_layer(orr_load_balancer *b, uint32_t layer, orr_placement_draft *draft)
{
    const orr_policy_problem *p = b->problem;
    const double *load = p->load + (size_t)layer * p->experts;
    const uint32_t first = orr_placement_first(&draft->placement, layer, 0);
    for (uint32_t s = 0; s < b->now.first[p->ranks]; s++) {
        const uint16_t e = b->now.expert[s];
        draft->expert[first + s] = e;
        draft->share[first + s] =
            (float)(load[e] > 0 ? b->now.part[s] / load[e] : 1.0 / b->copies[e]);
    }
}

orr_status orr_place_balance(const orr_policy_problem *p, orr_arena *arena, orr_expert_result *ret,
                             orr_error *err)
{
    orr_load_balancer b;
    orr_placement_draft draft;
    ORR_TRY(orr_policy_draft(p, NULL, arena, &draft, err));
    ORR_TRY(orr_load_balancer_init(&b, p, p->slots, arena, err));
    double bound = 1;
    for (uint32_t l = 0; l < p->layers; l++) {
        const orr_layer_balance got = orr_load_balance_layer(&b, l, draft.placement.first_slot);
        bound = got.mean > 0 ? fmax(bound, got.bound / got.mean) : bound;
        write_layer(&b, l, &draft);
    }
    ret->placement = draft.placement;
    ret->bound_imbalance = bound;
    return ORR_OK;
}
