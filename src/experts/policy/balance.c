/* SPDX-License-Identifier: Apache-2.0 */
/* Placements by loads alone: every layer balanced, its copies of unequal shares. Where layers may
 * have different numbers of slots, copies go to those that they help most. */
#include "experts/policy/balance.h"

#include <math.h>
#include <string.h>

/* A copy in each free slot, with no part of the load until loads change: the expert whose copies
 * are most loaded of those that the rank lacks. */
static void fill_free_slots(orr_load_balancer *b, const double *load, const bool *missing)
{
    orr_packing *k = &b->now;
    const uint32_t experts = b->problem->experts;
    memset(b->copies, 0, experts * sizeof *b->copies);
    for (uint32_t r = 0; r < k->ranks; r++)
        for (uint32_t s = k->first[r]; s < k->first[r] + k->used[r]; s++)
            b->copies[k->expert[s]]++;
    for (uint32_t r = 0; r < k->ranks; r++)
        while (k->used[r] < k->first[r + 1] - k->first[r]) {
            uint32_t best = UINT32_MAX;
            for (uint32_t e = 0; e < experts; e++) {
                bool lacks = missing == NULL || !missing[e];
                if (best != UINT32_MAX && load[e] * b->copies[best] <= load[best] * b->copies[e])
                    continue;
                for (uint32_t s = k->first[r]; lacks && s < k->first[r] + k->used[r]; s++)
                    lacks = k->expert[s] != e;
                best = lacks ? e : best;
            }
            const uint32_t slot = k->first[r] + k->used[r]++;
            k->expert[slot] = (uint16_t)best;
            k->part[slot] = 0;
            b->copies[best]++;
        }
}

/* Writes a balanced layer into a placement. */
static void write_layer(orr_load_balancer *b, uint32_t layer, orr_placement_draft *draft)
{
    const orr_policy_problem *p = b->problem;
    const double *load = p->load + (size_t)layer * p->experts;
    const uint32_t first = orr_placement_first(&draft->placement, layer, 0);
    fill_free_slots(b, load, p->missing != NULL ? p->missing + (size_t)layer * p->experts : NULL);
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
    ORR_TRY(orr_policy_draft(p, arena, &draft, err));
    ORR_TRY(orr_load_balancer_init(&b, p, p->slots, arena, err));
    void *room = orr_arena_alloc(arena, orr_experts_split_room(&draft.placement), 1, 8);
    if (room == NULL)
        return orr_fail_memory(err);
    double bound = 1;
    for (uint32_t l = 0; l < p->layers; l++) {
        const orr_layer_balance got = orr_load_balance_layer(&b, l, draft.placement.first_slot);
        double sum = 0;
        for (uint32_t e = 0; e < p->experts; e++)
            sum += p->load[(size_t)l * p->experts + e];
        bound = sum > 0 ? fmax(bound, got.bound * b.live / sum) : bound;
        write_layer(&b, l, &draft);
        if (got.most > got.bound * (1 + 1e-6))
            (void)orr_experts_split(&draft.placement, l, p->load + (size_t)l * p->experts, room,
                                    draft.share + orr_placement_first(&draft.placement, l, 0));
    }
    ret->placement = draft.placement;
    ret->bound_imbalance = bound;
    return ORR_OK;
}
