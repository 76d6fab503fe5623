/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_SYMMETRY_PARTITION_H
#define ORR_SIM_SYMMETRY_PARTITION_H

#include <orrery/status.h>

/* Partition refinement (colour refinement; 1-dimensional Weisfeiler-Leman).
 *
 * A partition of a graph's vertices is equitable if any two vertices of a class have, for every
 * class, equally many neighbours in it. The coarsest equitable partition that refines a given
 * one is unique. It is found in O(E log V) by splitting classes by one class at a time; of a
 * class that was split, all pieces but the largest become splitters (Hopcroft, "An n log n
 * algorithm for minimizing states in a finite automaton", 1971; Paige, Tarjan, "Three partition
 * refinement algorithms", SIAM J. Comput. 16, 1987). */
typedef struct orr_partition {
    uint32_t n, n_classes;
    uint32_t *order;    /* shape (n): vertices, those of a class contiguous */
    uint32_t *place;    /* shape (n): index of a vertex in `order` */
    uint32_t *class_of; /* shape (n)                                          */
    uint32_t *first;    /* shape (n), by class: index in `order` of its first vertex */
    uint32_t *count;    /* shape (n), by class                                */
} orr_partition;

/* Starts with a partition. class_of: shape (n), each of 0 .. n_classes - 1 occurs; copied. Free
 * with orr_partition_done(), also after a failure. Errors: NO_MEMORY. */
orr_status orr_partition_init(orr_partition *p, const uint32_t *class_of, uint32_t n,
                              uint32_t n_classes, orr_error *err) ORR_MUST_CHECK;
void orr_partition_done(orr_partition *p);

/* Refines to the coarsest equitable partition. Neighbours of v: to[first[v]] .. to[first[v + 1]
 * - 1]; each edge is in both rows. Class numbers have no meaning. Errors: NO_MEMORY. */
orr_status orr_partition_refine(orr_partition *p, const uint32_t *first, const uint32_t *to,
                                orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_SYMMETRY_PARTITION_H */
