/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_PLACEMENT_INDEX_H
#define ORR_EXPERTS_PLACEMENT_INDEX_H

#include <orrery/experts.h>

/* The copies of each expert of one layer, for those who ask for many tokens. Threads: any number
 * may read; set() is for one. */
typedef struct orr_copy_index {
    uint32_t layer;
    uint32_t *begin; /* shape (E + 1): copies of expert e are [begin[e], begin[e + 1]) of: */
    uint32_t *slot;  /* shape (slots of the layer): by expert, ascending */
    uint16_t *rank;  /* shape (slots of the layer): that has it */
} orr_copy_index;

/* Room for any layer of a placement. */
orr_status orr_copy_index_new(const orr_expert_placement *placement, orr_arena *arena,
                              orr_copy_index *ret, orr_error *err) ORR_MUST_CHECK;
void orr_copy_index_set(orr_copy_index *index, const orr_expert_placement *placement,
                        uint32_t layer);
/* orr_experts_slots() for one choice, with the rank of the slot as an index of index->slot and
 * index->rank; UINT32_MAX: the expert has no slot. */
uint32_t orr_copy_index_choose(const orr_copy_index *index, const orr_expert_placement *placement,
                               const orr_expert_token *token, uint32_t expert, bool by_share);

#endif /* ORR_EXPERTS_PLACEMENT_INDEX_H */
