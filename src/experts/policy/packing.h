/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_PACKING_H
#define ORR_EXPERTS_POLICY_PACKING_H

#include <stdbool.h>
#include <stdint.h>

/* Experts of a layer packed onto ranks: copies of an expert may take unequal parts of its load.
 *
 * Slots of rank r are first[r] .. first[r + 1] - 1, of which the first used[r] hold a copy, never
 * two of one expert. Threads: none. */
typedef struct orr_packing {
    uint32_t ranks;        /* R */
    const uint32_t *first; /* shape (R + 1) */
    uint32_t *used;        /* shape (R) */
    double *load;          /* shape (R): the sum of the parts on it */
    uint16_t *expert;      /* shape (slots) */
    double *part;          /* shape (slots): load of the copy */
} orr_packing;

/* A part of the ranks, such as those of a host. */
typedef struct orr_rank_range {
    uint32_t first, end;
} orr_rank_range;

bool orr_packing_holds(const orr_packing *packing, uint32_t rank, uint16_t expert);
/* Into a free slot of the rank, which lacks the expert. */
void orr_packing_add(orr_packing *packing, uint32_t rank, uint16_t expert, double part);

/* Experts one by one, in the order given (by descending load), each whole to the least loaded rank
 * that holds fewer than base[r]; of ranks with equal loads to the one with fewest slots beyond its
 * base, then the lowest. There is room for all. heap: scratch, shape (ranks of the range). */
void orr_packing_fill(orr_packing *packing, orr_rank_range range, const uint32_t *base,
                      const double *load, const uint64_t *order, uint32_t n, uint64_t *heap);

/* Equal copies instead: each slot beyond n is a copy of the expert whose copies are most loaded,
 * and copies go by descending load to the least loaded rank that lacks their expert. key, spare:
 * scratch, shape (slots of the range); copies: scratch, shape (E); heap: scratch, shape (ranks of
 * the range). */
void orr_packing_fill_copies(orr_packing *packing, orr_rank_range range, const double *load,
                             const uint64_t *order, uint32_t n, uint64_t *key, uint64_t *spare,
                             uint32_t *copies, uint64_t *heap);

/* Makes copies in free slots until no rank of the range has more than `limit`, or none can help.
 * Returns the load of the fullest rank. */
double orr_packing_level(orr_packing *packing, orr_rank_range range, double limit);

/* Exchanges a copy of the fullest rank for a smaller one of another, or for a free slot, as long as
 * the fuller of both gets emptier, at most `most` times. Returns the load of the fullest rank. */
double orr_packing_exchange(orr_packing *packing, orr_rank_range range, uint32_t most);

#endif /* ORR_EXPERTS_POLICY_PACKING_H */
