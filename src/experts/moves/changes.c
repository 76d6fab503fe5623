/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/moves/changes.h"

#include "experts/placement/build.h"
#include "experts/placement/index.h"

orr_status orr_changes_check(const orr_expert_placement *from, const orr_expert_placement *to,
                             orr_error *err)
{
    if (from->layers != to->layers || from->experts != to->experts || from->ranks != to->ranks)
        return orr_fail(err, ORR_INVALID,
                        "from a placement of %u layers, %u experts and %u ranks to one of %u, %u "
                        "and %u",
                        from->layers, from->experts, from->ranks, to->layers, to->experts,
                        to->ranks);
    for (uint32_t l = 0; l < from->layers; l++)
        if (from->number[l] != to->number[l])
            return orr_fail(err, ORR_INVALID, "from a placement of layer %u to one of layer %u",
                            from->number[l], to->number[l]);
    return ORR_OK;
}

/* Ranks of an expert, ascending, of which `at` is the next; those that are twice there are so. */
typedef struct cursor {
    const uint16_t *rank;
    uint32_t at, end;
} cursor;

static cursor cursor_of(const orr_copy_index *index, uint32_t expert)
{
    return (cursor){index->rank, index->begin[expert], index->begin[expert + 1]};
}

/* The next rank, passing over its further slots; UINT32_MAX: no more. ret_slots: how many. */
static uint32_t next_rank(cursor *c, uint32_t *ret_slots)
{
    *ret_slots = 0;
    if (c->at == c->end)
        return UINT32_MAX;
    const uint32_t rank = c->rank[c->at];
    for (; c->at < c->end && c->rank[c->at] == rank; c->at++)
        ++*ret_slots;
    return rank;
}

/* Adds an expert of a layer to the changes, if there are any. */
static void compare_expert(orr_changes *c, uint32_t *holders, uint32_t layer, uint32_t expert,
                           cursor from, cursor to)
{
    const uint32_t drops = c->n_drops, changed = c->n_experts;
    orr_changed_expert e = {.layer = layer,
                            .expert = (uint16_t)expert,
                            .is_left_out = to.at == to.end,
                            .first = *holders,
                            .adds = c->n_adds};
    uint32_t here, n_here, wanted, n_wanted;
    here = next_rank(&from, &n_here);
    wanted = next_rank(&to, &n_wanted);
    while (here != UINT32_MAX || wanted != UINT32_MAX) {
        const uint32_t rank = here < wanted ? here : wanted;
        if (here == rank) {
            c->holder[*holders + e.n++] = (uint16_t)rank;
            for (uint32_t i = wanted == rank; i < n_here; i++)
                c->drop[c->n_drops++] =
                    (orr_copy_change){.expert = changed,
                                      .rank = (uint16_t)rank,
                                      .is_surplus = i + 1 < n_here || wanted == rank};
            here = next_rank(&from, &n_here);
        } else {
            c->add[c->n_adds++] = (orr_copy_change){.expert = changed, .rank = (uint16_t)rank};
            e.n_adds++;
        }
        if (wanted == rank)
            wanted = next_rank(&to, &n_wanted);
    }
    if (e.n_adds == 0 && c->n_drops == drops)
        return;
    c->expert[c->n_experts++] = e;
    *holders += e.n + e.n_adds;
}

orr_status orr_changes_find(const orr_expert_placement *from, const orr_expert_placement *to,
                            orr_arena *arena, orr_changes *ret, orr_error *err)
{
    ORR_TRY(orr_changes_check(from, to, err));
    const size_t n_from = orr_expert_placement_slots(from), n_to = orr_expert_placement_slots(to);
    orr_changes c = {.expert = orr_arena_array(arena, orr_changed_expert, n_from + n_to),
                     .add = orr_arena_array(arena, orr_copy_change, n_to),
                     .drop = orr_arena_array(arena, orr_copy_change, n_from),
                     .holder = orr_arena_array(arena, uint16_t, n_from + n_to)};
    orr_copy_index of_from, of_to;
    uint32_t holders = 0;
    if (c.expert == NULL || c.add == NULL || c.drop == NULL || c.holder == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_copy_index_new(from, arena, &of_from, err));
    ORR_TRY(orr_copy_index_new(to, arena, &of_to, err));
    for (uint32_t l = 0; l < from->layers; l++) {
        orr_copy_index_set(&of_from, from, l);
        orr_copy_index_set(&of_to, to, l);
        for (uint32_t e = 0; e < from->experts; e++) {
            const cursor f = cursor_of(&of_from, e), t = cursor_of(&of_to, e);
            if (f.at == f.end && t.at < t.end)
                return orr_fail(err, ORR_INVALID,
                                "layer %u: expert %u is on no rank that it could be copied from",
                                from->number[l], e);
            compare_expert(&c, &holders, l, e, f, t);
        }
    }
    *ret = c;
    return ORR_OK;
}
