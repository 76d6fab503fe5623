/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_SYMMETRY_FOLD_H
#define ORR_SIM_SYMMETRY_FOLD_H

#include "sim/program/prepared.h"

/* Symmetry reduction: one simulated rank for each equivalence class of ranks, and one group for
 * each class of groups.
 *
 * Two ranks are equivalent if they run the same graph from the same start at the same speed and
 * belong, in each grouping, to equivalent groups; two groups are equivalent if they have as many
 * members of each class of ranks and their transfers cost the same. The coarsest such partition
 * (the coarsest equitable partition) is found by refinement. All ranks of a class have the same
 * times: each time is a function of what a rank and its groups are, and by induction over the
 * order in which points are settled these functions agree. */
typedef struct orr_fold_group {
    uint32_t grouping, group;
} orr_fold_group;

typedef struct orr_fold {
    uint32_t n_classes, n_groups;
    const uint32_t *class_of_rank;  /* shape (R); ORR_NONE: has no graph */
    const uint32_t *first_rank;     /* shape (n_classes), ascending */
    const uint32_t *n_ranks;        /* shape (n_classes) */
    const orr_fold_group *groups;   /* shape (n_groups): the first of each class of groups */
    const uint32_t *class_of_group; /* by number of the group among those of all groupings, in
                                     * order: row of `groups`; ORR_NONE: nobody communicates in it;
                                     * NULL: no folding */
} orr_fold;

/* Flows of groups on links. With them, two groups are equivalent only if their flows are; two flows
 * if they are of one colour and cross equally many links of each class; two links if they are of
 * one colour and equally many flows of each class cross them. Ranks and links have no edge:
 * where a rank lies matters to it only through the ends of its transfers. */
typedef struct orr_fold_network {
    uint32_t n_flows, n_flow_colours, n_links, n_link_colours;
    const uint32_t *group_of_flow;           /* shape (n_flows): as rows of class_of_group */
    const uint32_t *flow_colour;             /* shape (n_flows), each colour occurs */
    const uint32_t *link_colour;             /* shape (n_links), each colour occurs */
    const uint32_t *hop_first, *hops;        /* links of flow f: hops[hop_first[f]] .. */
    uint32_t *class_of_flow, *class_of_link; /* filled in: classes by their first member */
    uint32_t n_flow_classes, n_link_classes; /* filled in */
} orr_fold_network;

/* No folding: every rank and every group is a class of its own. */
orr_status orr_fold_none(const orr_ensemble *ensemble, orr_arena *arena, orr_fold *ret,
                         orr_error *err) ORR_MUST_CHECK;
/* Finds the classes. `prepared_programs`: prepared programs, shape (D). `cluster`: prices depend on
 * the ranks' positions; NULL: they do not. `network`: transfers share links; NULL: they do not. In
 * the arena; nothing else is left in it. Errors: NO_MEMORY, LIMIT. */
orr_status orr_fold_equivalent(const orr_ensemble *ensemble,
                               const orr_prepared_program *prepared_programs,
                               const orr_cluster *cluster, orr_fold_network *network,
                               orr_arena *arena, orr_fold *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_SYMMETRY_FOLD_H */
