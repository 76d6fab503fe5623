/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "experts/placement/build.h"

/* Some layers of a placement. */

static bool is_counted_up(const orr_expert_placement *p)
{
    for (uint32_t l = 0; l < p->layers; l++)
        if (p->number[l] != l)
            return false;
    return true;
}

/* The layer of a number; UINT32_MAX: none. `from`: where to look first. */
static uint32_t find_layer(const orr_expert_placement *p, uint32_t number, uint32_t from)
{
    for (uint32_t l = from; l < p->layers; l++)
        if (p->number[l] == number)
            return l;
    return UINT32_MAX;
}

/* Which layers are meant, shape (n). */
static orr_status find_layers(const orr_expert_placement *p, const uint32_t *number, uint32_t n,
                              uint32_t *ret, orr_error *err)
{
    const bool in_order = p->layers == n && is_counted_up(p);
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = in_order ? i : find_layer(p, number[i], i > 0 ? ret[i - 1] + 1 : 0);
        if (ret[i] == UINT32_MAX)
            return orr_fail(err, ORR_INVALID,
                            "the placement has no layer %u: its %u layers are from %u to %u",
                            number[i], p->layers, p->number[0], p->number[p->layers - 1]);
    }
    return ORR_OK;
}

orr_status orr_expert_placement_layers(const orr_expert_placement *placement,
                                       const uint32_t *number, uint32_t n, orr_arena *arena,
                                       orr_expert_placement *ret, orr_error *err)
{
    const orr_expert_placement *p = placement;
    orr_expert_placement like = *p;
    orr_placement_draft draft;
    uint32_t *layer = orr_arena_array(arena, uint32_t, n);
    uint32_t *slots = orr_arena_array(arena, uint32_t, (size_t)n * p->ranks);
    if (layer == NULL || slots == NULL)
        return orr_fail_memory(err);
    ORR_TRY(find_layers(p, number, n, layer, err));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < p->ranks; r++)
            slots[(size_t)i * p->ranks + r] =
                orr_placement_first(p, layer[i], r + 1) - orr_placement_first(p, layer[i], r);
    like.layers = n;
    like.number = number;
    ORR_TRY(orr_placement_draft_new(&like, slots, true, arena, &draft, err));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t to = orr_placement_first(&draft.placement, i, 0),
                       from = orr_placement_first(p, layer[i], 0),
                       count = orr_placement_first(p, layer[i], p->ranks) - from;
        memcpy(draft.expert + to, p->expert + from, count * sizeof *draft.expert);
        memcpy(draft.share + to, p->share + from, count * sizeof *draft.share);
    }
    *ret = draft.placement;
    return ORR_OK;
}
