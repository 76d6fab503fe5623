/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_PLACEMENT_INDEX_H
#define ORR_EXPERTS_PLACEMENT_INDEX_H

#include <orrery/experts.h>

/* What becomes of the rows of an expert by one of its slots, as far as shares go: of those on the
 * slot's rank the chance that they stay, of those that the host's ranks have left the chance that
 * they stay on the host, and what the slot has left for them, and for other hosts. A rank's second
 * slot of an expert has none. */
typedef struct orr_copy_part {
    double keep, near, room, beyond;
} orr_copy_part;

/* The copies of each expert of one layer. Threads: any number
 * may read; set() is for one. */
typedef struct orr_copy_index {
    uint32_t layer, live; /* live: ranks that have slots in it */
    uint32_t *begin;      /* shape (E + 1): copies of expert e are [begin[e], begin[e + 1]) of: */
    uint32_t *slot;       /* shape (slots of the layer): by expert, ascending */
    uint16_t *rank;       /* shape (slots of the layer): that has it */
    orr_copy_part *part;  /* shape (slots of the layer); NULL: not weighed */
} orr_copy_index;

/* Room for any layer of a placement. */
orr_status orr_copy_index_new(const orr_expert_placement *placement, orr_arena *arena,
                              orr_copy_index *ret, orr_error *err) ORR_MUST_CHECK;
void orr_copy_index_set(orr_copy_index *index, const orr_expert_placement *placement,
                        uint32_t layer);
/* Weighs the copies of each layer that is set from here on, for those who ask for many tokens. */
orr_status orr_copy_index_weigh(orr_copy_index *index, const orr_expert_placement *placement,
                                orr_arena *arena, orr_error *err) ORR_MUST_CHECK;
/* orr_experts_slots() for one choice, with the rank of the slot as an index of index->slot and
 * index->rank; UINT32_MAX: the expert has no slot. */
uint32_t orr_copy_index_choose(const orr_copy_index *index, const orr_expert_placement *placement,
                               const orr_expert_token *token, uint32_t expert, bool by_share);

#endif /* ORR_EXPERTS_PLACEMENT_INDEX_H */
