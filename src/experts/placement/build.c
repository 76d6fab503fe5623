/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/placement/build.h"

#include <string.h>

static orr_status check_shape(const orr_expert_placement *like, orr_error *err)
{
    if (like->layers == 0 || like->layers > ORR_PLACEMENT_LAYERS_MAX)
        return orr_fail(err, ORR_INVALID, "a placement of %u layers: from 1 to %d are possible",
                        like->layers, ORR_PLACEMENT_LAYERS_MAX);
    if (like->experts == 0 || like->experts > ORR_EXPERTS_MAX)
        return orr_fail(err, ORR_INVALID, "a placement of %u experts: from 1 to %d are possible",
                        like->experts, ORR_EXPERTS_MAX);
    if (like->ranks == 0 || like->ranks > ORR_PLACEMENT_RANKS_MAX)
        return orr_fail(err, ORR_INVALID, "a placement over %u ranks: from 1 to %d are possible",
                        like->ranks, ORR_PLACEMENT_RANKS_MAX);
    return ORR_OK;
}

/* The first slots of all layers and ranks; how many slots there are, or 0: too many. */
static uint64_t lay_out(const orr_expert_placement *p, const uint32_t *rank_slots, bool per_layer,
                        uint32_t *first)
{
    uint64_t slots = 0;
    for (uint32_t l = 0; l < p->layers; l++) {
        const uint32_t *n = rank_slots + (per_layer ? (size_t)l * p->ranks : 0);
        for (uint32_t r = 0; r < p->ranks; r++) {
            *first++ = (uint32_t)slots;
            slots += n[r];
            if (slots > INT32_MAX)
                return UINT64_MAX;
        }
        *first++ = (uint32_t)slots;
    }
    return slots;
}

orr_status orr_placement_draft_new(const orr_expert_placement *like, const uint32_t *rank_slots,
                                   bool per_layer, orr_arena *arena, orr_placement_draft *ret,
                                   orr_error *err)
{
    ORR_TRY(check_shape(like, err));
    const char *policy = like->policy != NULL ? like->policy : "";
    const char *source = like->source != NULL ? like->source : "";
    orr_placement_draft d = {
        .placement = {.layers = like->layers,
                      .experts = like->experts,
                      .ranks = like->ranks,
                      .host_ranks = like->host_ranks > 0 ? like->host_ranks : like->ranks,
                      .nearest = like->nearest}};
    uint32_t *number = orr_arena_array(arena, uint32_t, like->layers);
    uint32_t *first =
        orr_arena_array(arena, uint32_t, (size_t)like->layers * ((size_t)like->ranks + 1));
    d.placement.policy = orr_arena_strndup(arena, policy, strlen(policy));
    d.placement.source = orr_arena_strndup(arena, source, strlen(source));
    if (number == NULL || first == NULL || d.placement.policy == NULL || d.placement.source == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < like->layers; l++)
        number[l] = like->number != NULL ? like->number[l] : l;
    const uint64_t slots = lay_out(&d.placement, rank_slots, per_layer, first);
    if (slots == UINT64_MAX)
        return orr_fail(err, ORR_LIMIT, "a placement of more than 2^31 slots");
    d.expert = orr_arena_array(arena, uint16_t, slots);
    d.share = orr_arena_array(arena, float, slots);
    if (d.expert == NULL || d.share == NULL)
        return orr_fail_memory(err);
    d.placement.number = number;
    d.placement.first_slot = first;
    d.placement.expert = d.expert;
    d.placement.share = d.share;
    *ret = d;
    return ORR_OK;
}

void orr_placement_rank_slots(uint32_t slots, uint32_t ranks, const bool *dead, uint32_t *ret)
{
    for (uint32_t r = 0; r < ranks; r++)
        ret[r] = dead != NULL && dead[r] ? 0 : slots / ranks + (r < slots % ranks);
}

void orr_placement_even_shares(orr_placement_draft *draft)
{
    const orr_expert_placement *p = &draft->placement;
    uint32_t copies[ORR_EXPERTS_MAX];
    for (uint32_t l = 0; l < p->layers; l++) {
        const uint32_t begin = orr_placement_first(p, l, 0),
                       end = orr_placement_first(p, l, p->ranks);
        memset(copies, 0, p->experts * sizeof *copies);
        for (uint32_t s = begin; s < end; s++)
            copies[p->expert[s]]++;
        for (uint32_t s = begin; s < end; s++)
            draft->share[s] = 1.0F / (float)copies[p->expert[s]];
    }
}

uint32_t orr_placement_holders(const orr_expert_placement *p, uint32_t layer, uint32_t begin,
                               uint32_t end)
{
    uint32_t ret = 0;
    for (uint32_t r = begin; r < end; r++)
        ret += orr_placement_first(p, layer, r) < orr_placement_first(p, layer, r + 1);
    return ret;
}

uint32_t orr_placement_rank(const orr_expert_placement *p, uint32_t layer, uint32_t slot)
{
    const uint32_t *first = p->first_slot + (size_t)layer * (p->ranks + 1);
    uint32_t low = 0, high = p->ranks; /* first[low] <= slot < first[high] */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (first[middle] <= slot)
            low = middle;
        else
            high = middle;
    }
    return low;
}
