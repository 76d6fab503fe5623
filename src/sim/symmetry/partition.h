/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_SYMMETRY_PARTITION_H
#define ORR_SIM_SYMMETRY_PARTITION_H

#include <orrery/status.h>

/* Partition of the vertices of a graph into classes, and its refinement.
 *
 * Refined is: any two vertices of a class have, for every class, as many neighbours in it. The
 * coarsest such partition that refines a given one is unique; it is also known as colour
 * refinement. Found in O(E log V) by splitting classes by one class at a time, where of a class
 * that was split all pieces but the largest are used again: source: Hopcroft, "An n log n
 * algorithm for minimizing states in a finite automaton", 1971; Paige, Tarjan, "Three partition
 * refinement algorithms", SIAM J. Comput. 16, 1987. */
typedef struct orr_partition {
    uint32_t n, n_classes;
    uint32_t *order;    /* shape (n): vertices, those of a class side by side */
    uint32_t *place;    /* shape (n): where in `order` a vertex is            */
    uint32_t *class_of; /* shape (n)                                          */
    uint32_t *first;    /* shape (n), by class: its vertices in `order`       */
    uint32_t *count;    /* shape (n), by class                                */
} orr_partition;

/* class_of: shape (n), each of 0 .. n_classes - 1 occurs; copied. Free with orr_partition_done(),
 * also after a failure. Errors: NO_MEMORY. */
orr_status orr_partition_init(orr_partition *p, const uint32_t *class_of, uint32_t n,
                              uint32_t n_classes, orr_error *err) ORR_MUST_CHECK;
void orr_partition_done(orr_partition *p);

/* Neighbours of v: to[first[v]] .. to[first[v + 1] - 1]; each edge stands in both rows. The numbers
 * of the classes are of no meaning. Errors: NO_MEMORY. */
orr_status orr_partition_refine(orr_partition *p, const uint32_t *first, const uint32_t *to,
                                orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_SYMMETRY_PARTITION_H */
