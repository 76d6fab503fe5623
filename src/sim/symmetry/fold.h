/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_SYMMETRY_FOLD_H
#define ORR_SIM_SYMMETRY_FOLD_H

#include "sim/program/prepared.h"

/* Fold: ranks that behave alike, and one group of each kind of group.
 *
 * Two ranks behave alike when they play the same graph from the same start at the same speed, and
 * meet, in each grouping, groups that are alike; two groups are alike when they have as many
 * members of each class of ranks and their transfers cost the same. The coarsest partition of
 * which both hold is found by refinement. All ranks of a class then have the same times: each
 * time is a function of what a rank and its groups are, and by induction over the order in which
 * times are settled these are the same. */
typedef struct orr_fold_group {
    uint32_t grouping, group;
} orr_fold_group;

typedef struct orr_fold {
    uint32_t n_classes, n_groups;
    const uint32_t *class_of_rank; /* shape (R); ORR_NONE: has no graph                 */
    const uint32_t *first_rank;    /* shape (n_classes), ascending                      */
    const uint32_t *n_ranks;       /* shape (n_classes)                                 */
    const orr_fold_group *groups;  /* shape (n_groups): the first of those that are alike */
} orr_fold;

/* Every rank and every group for itself. */
orr_status orr_fold_none(const orr_ensemble *ensemble, orr_arena *arena, orr_fold *ret,
                         orr_error *err) ORR_MUST_CHECK;
/* `scripts`: shape (D). `cluster`: where ranks lie decides what a transfer costs; NULL: it does
 * not. In the arena; nothing else is left in it. Errors: NO_MEMORY, LIMIT. */
orr_status orr_fold_equivalent(const orr_ensemble *ensemble, const orr_prepared_program *scripts,
                               const orr_cluster *cluster, orr_arena *arena, orr_fold *ret,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_SYMMETRY_FOLD_H */
