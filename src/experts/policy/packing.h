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

/* Experts one by one, in the order given (by descending load), each whole to the least loaded rank
 * that holds fewer than base[r]; of ranks with equal loads to the one with fewest slots beyond its
 * base, then the lowest. There is room for all. heap: scratch, shape (ranks of the range). */
void orr_packing_fill(orr_packing *packing, orr_rank_range range, const uint32_t *base,
                      const double *load, const uint64_t *order, uint32_t n, uint64_t *heap);

/* Makes copies in free slots until no rank of the range has more than `limit`, or none can help.
 * Returns the load of the fullest rank. */
double orr_packing_level(orr_packing *packing, orr_rank_range range, double limit);

/* Exchanges a copy of the fullest rank for a smaller one of another, or for a free slot, as long as
 * the fuller of both gets emptier, at most `most` times. Returns the load of the fullest rank. */
double orr_packing_exchange(orr_packing *packing, orr_rank_range range, uint32_t most);

#endif /* ORR_EXPERTS_POLICY_PACKING_H */
