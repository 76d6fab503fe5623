/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_MOVES_CHANGES_H
#define ORR_EXPERTS_MOVES_CHANGES_H

#include <orrery/experts.h>

/* How two placements differ, as sets of (layer, rank, expert): copies to make and to give up. */

/* An expert of a layer whose ranks change. */
typedef struct orr_changed_expert {
    uint32_t layer;
    uint16_t expert;
    bool is_left_out;      /* the other placement has none: the last copy may be given up too */
    uint32_t n, first;     /* ranks that have it now: holder[first .. first + n) */
    uint32_t adds, n_adds; /* copies to make: add[adds .. adds + n_adds) */
} orr_changed_expert;

/* A copy to be made or given up, once. */
typedef struct orr_copy_change {
    uint32_t expert; /* index of orr_changes.expert */
    uint16_t rank;
    bool is_done;
    bool is_surplus; /* of drops: the rank has the expert twice, and keeps one */
} orr_copy_change;

typedef struct orr_changes {
    orr_changed_expert *expert;  /* shape (n_experts): by layer, then expert */
    orr_copy_change *add, *drop; /* shape (n_adds), (n_drops): by expert, then rank */
    uint16_t *holder;
    uint32_t n_experts, n_adds, n_drops;
} orr_changes;

/* INVALID: placements of different layers, experts or ranks. */
orr_status orr_changes_check(const orr_expert_placement *from, const orr_expert_placement *to,
                             orr_error *err) ORR_MUST_CHECK;
/* INVALID: placements of other layers, experts or ranks; an expert that is wanted and is on no
 * rank. Copies that would double an expert on a rank are not wanted. */
orr_status orr_changes_find(const orr_expert_placement *from, const orr_expert_placement *to,
                            orr_arena *arena, orr_changes *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_MOVES_CHANGES_H */
