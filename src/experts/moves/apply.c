/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "experts/placement/build.h"

/* A placement on its way to another: slots of the one it began with, without those given up, then
 * copies that were made. */

enum { GONE = UINT16_MAX };

/* The first slot of a rank with an expert, of those not given up; UINT32_MAX: none. */
static uint32_t find_slot(const orr_expert_placement *p, const uint16_t *expert,
                          const orr_expert_move *move)
{
    const uint32_t end = orr_placement_first(p, move->layer, move->to + 1U);
    for (uint32_t s = orr_placement_first(p, move->layer, move->to); s < end; s++)
        if (expert[s] == move->expert)
            return s;
    return UINT32_MAX;
}

/* Marks what is given up in `expert`, a copy of the placement's, and counts slots, shape (L, R). */
static orr_status count_slots(const orr_expert_placement *p, const orr_expert_moves *moves,
                              uint32_t n, uint16_t *expert, uint32_t *slots, orr_error *err)
{
    for (uint32_t l = 0; l < p->layers; l++)
        for (uint32_t r = 0; r < p->ranks; r++)
            slots[(size_t)l * p->ranks + r] =
                orr_placement_first(p, l, r + 1) - orr_placement_first(p, l, r);
    for (uint32_t i = 0; i < n; i++) {
        const orr_expert_move *m = &moves->moves[i];
        if (m->layer >= p->layers || m->to >= p->ranks || m->expert >= p->experts)
            return orr_fail(err, ORR_INVALID, "move %u is of another placement", i);
        uint32_t *here = &slots[(size_t)m->layer * p->ranks + m->to];
        if (m->to != m->from) {
            ++*here;
            continue;
        }
        const uint32_t s = find_slot(p, expert, m);
        if (s == UINT32_MAX)
            return orr_fail(err, ORR_INVALID,
                            "move %u: layer %u, rank %u has no expert %u to give up", i,
                            p->number[m->layer], m->to, m->expert);
        expert[s] = GONE;
        --*here;
    }
    return ORR_OK;
}

/* next: shape (L, R): where the next slot of a rank is put. */
static void fill(const orr_expert_placement *p, const orr_expert_moves *moves, uint32_t n,
                 const uint16_t *expert, uint32_t *next, orr_placement_draft *ret)
{
    for (uint32_t l = 0; l < p->layers; l++)
        for (uint32_t r = 0; r < p->ranks; r++) {
            uint32_t *to = &next[(size_t)l * p->ranks + r];
            *to = orr_placement_first(&ret->placement, l, r);
            for (uint32_t s = orr_placement_first(p, l, r); s < orr_placement_first(p, l, r + 1);
                 s++)
                if (expert[s] != GONE)
                    ret->expert[(*to)++] = expert[s];
        }
    for (uint32_t i = 0; i < n; i++) {
        const orr_expert_move *m = &moves->moves[i];
        if (m->to != m->from)
            ret->expert[next[(size_t)m->layer * p->ranks + m->to]++] = m->expert;
    }
}

orr_status orr_expert_moves_apply(const orr_expert_placement *from, const orr_expert_moves *moves,
                                  uint32_t n, orr_arena *arena, orr_expert_placement *ret,
                                  orr_error *err)
{
    orr_placement_draft draft;
    if (n > moves->n)
        return orr_fail(err, ORR_INVALID, "%u moves of %u", n, moves->n);
    uint32_t *slots = orr_arena_array(arena, uint32_t, (size_t)from->layers * from->ranks);
    uint16_t *expert = orr_arena_array(arena, uint16_t, orr_expert_placement_slots(from));
    if (slots == NULL || expert == NULL)
        return orr_fail_memory(err);
    memcpy(expert, from->expert, orr_expert_placement_slots(from) * sizeof *expert);
    ORR_TRY(count_slots(from, moves, n, expert, slots, err));
    ORR_TRY(orr_placement_draft_new(from, slots, true, arena, &draft, err));
    fill(from, moves, n, expert, slots, &draft);
    orr_placement_even_shares(&draft);
    *ret = draft.placement;
    return ORR_OK;
}
