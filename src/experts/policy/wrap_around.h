/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_WRAP_AROUND_H
#define ORR_EXPERTS_POLICY_WRAP_AROUND_H

#include "experts/policy/packing.h"

/* Experts packed onto ranks with few slots, of which fewer are spare than there are ranks.
 *
 * McNaughton's wrap-around rule fills rank after rank up to a limit and cuts the expert that passes
 * it, whose rest begins the next rank. That is exact with a cut for each rank but one; where spare
 * slots allow fewer, some ranks must end without a cut. Such a rank is closed by the expert that
 * fits it best, as long as there are many to choose from; those that are larger than a rank are cut
 * anyway, and have the smallest beside them. Source of the rule: R. McNaughton, Scheduling with
 * deadlines and loss functions, 1959. Threads: none. */
enum { ORR_WRAP_BINS = 256 };
typedef struct orr_wrap_experts {
    const uint64_t *order;         /* shape (n): experts by descending load */
    uint32_t n, top;               /* top: the largest load, as bits */
    double load;                   /* of all */
    double *size;                  /* shape (n): of each */
    uint64_t *turn;                /* shape (n): scratch */
    uint16_t start[ORR_WRAP_BINS]; /* the first in `order` of a bin of loads or later ones */
} orr_wrap_experts;
/* `size` and `turn` are set; load: shape (E). */
void orr_wrap_experts_set(orr_wrap_experts *experts, const double *load, const uint64_t *order,
                          uint32_t n);
/* Fills ranks up to `limit`. Returns the load of the fullest, above the limit where the experts do
 * not fit. */
double orr_packing_wrap(orr_packing *packing, orr_rank_range range, const orr_wrap_experts *experts,
                        double limit);

#endif /* ORR_EXPERTS_POLICY_WRAP_AROUND_H */
