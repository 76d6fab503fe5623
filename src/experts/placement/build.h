/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_PLACEMENT_BUILD_H
#define ORR_EXPERTS_PLACEMENT_BUILD_H

#include <orrery/experts.h>

/* Placements in the making: what policies, readers and moves fill in. L layers, R ranks. */
typedef struct orr_placement_draft {
    orr_expert_placement placement; /* whose arrays are those below */
    uint16_t *expert;               /* shape (slots): to be filled in */
    float *share;                   /* shape (slots): 0; see orr_placement_split_shares() */
} orr_placement_draft;

/* The layers, experts, ranks, host_ranks (0: all are one host), numbers of layers (NULL: 0 .. L -
 * 1), nearest, policy and source are those of `like`; its arrays are copied, other fields ignored.
 * rank_slots: slots of each rank, shape (L, R), or (R) for all layers alike where `per_layer` is
 * not set. INVALID: no layers, experts or ranks, or more than there can be. LIMIT: more slots than
 * 2^31. */
orr_status orr_placement_draft_new(const orr_expert_placement *like, const uint32_t *rank_slots,
                                   bool per_layer, orr_arena *arena, orr_placement_draft *ret,
                                   orr_error *err) ORR_MUST_CHECK;

/* How `slots` of a layer lie on ranks: as many on each, one more on the first ones where ranks do
 * not divide them. Dead ranks (NULL: none) have none, and their slots are lost. ret: shape (R). */
void orr_placement_rank_slots(uint32_t slots, uint32_t ranks, const bool *dead, uint32_t *ret);

/* Equal shares for the copies of each expert. */
void orr_placement_even_shares(orr_placement_draft *draft);
/* The shares of orr_experts_split() for loads, shape (L, E). NO_MEMORY. */
orr_status orr_placement_split_shares(orr_placement_draft *draft, const double *load,
                                      orr_error *err) ORR_MUST_CHECK;

/* First slot of a rank in a layer; those of the layer begin with rank 0, and end where rank R
 * begins. */
static inline uint32_t orr_placement_first(const orr_expert_placement *p, uint32_t layer,
                                           uint32_t rank)
{
    return p->first_slot[(size_t)layer * (p->ranks + 1) + rank];
}

/* For a placement that is made, which gets other shares, of the arena: of those that level ranks as
 * well, ones that keep more rows on their rank. */
orr_status orr_placement_level(orr_expert_placement *placement, const double *load,
                               orr_arena *arena, orr_error *err) ORR_MUST_CHECK;

/* Ranks of [begin, end) that have slots in a layer. */
uint32_t orr_placement_holders(const orr_expert_placement *p, uint32_t layer, uint32_t begin,
                               uint32_t end);
/* The rank that has a slot of a layer. */
uint32_t orr_placement_rank(const orr_expert_placement *p, uint32_t layer, uint32_t slot);

enum { ORR_PLACEMENT_RANKS_MAX = UINT16_MAX - 1, ORR_PLACEMENT_LAYERS_MAX = 65536 };

#endif /* ORR_EXPERTS_PLACEMENT_BUILD_H */
