/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbouring experts on a rank, as frameworks place them that know no loads. Spare slots repeat
 * the first experts of the next rank that has any. */
#include "experts/policy/policy.h"

/* Fills the slots of one layer: `order` has its kept experts, ascending; a rank has as many of them
 * as were dealt to it, then goes on with those of the ranks after it. */
static void fill_layer(const orr_policy_problem *p, const uint16_t *order, const uint32_t *count,
                       uint16_t *expert)
{
    for (uint32_t r = 0, first = 0; r < p->ranks; first += count[r++])
        for (uint32_t i = 0; i < p->rank_slots[r]; i++)
            *expert++ = order[(first + i) % p->kept];
}

orr_status orr_place_linear(const orr_policy_problem *p, orr_arena *arena, orr_expert_result *ret,
                            orr_error *err)
{
    orr_placement_draft draft;
    ORR_TRY(orr_policy_draft(p, NULL, arena, &draft, err));
    uint32_t *count = orr_arena_array(arena, uint32_t, p->ranks);
    uint16_t *order = orr_arena_array(arena, uint16_t, p->experts);
    if (count == NULL || order == NULL)
        return orr_fail_memory(err);
    orr_policy_deal(p, count);
    for (uint32_t l = 0; l < p->layers; l++) {
        uint32_t n = 0;
        for (uint32_t e = 0; e < p->experts; e++)
            if (p->missing == NULL || !p->missing[(size_t)l * p->experts + e])
                order[n++] = (uint16_t)e;
        fill_layer(p, order, count, draft.expert + (size_t)l * p->slots);
    }
    orr_placement_even_shares(&draft);
    ret->placement = draft.placement;
    return ORR_OK;
}
