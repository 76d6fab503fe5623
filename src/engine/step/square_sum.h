/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_SQUARE_SUM_H
#define ORR_ENGINE_STEP_SQUARE_SUM_H

#include <stdint.h>

/* Exact sums of squares of fp32 numbers: a fixed-point number as wide as all of them need
 * (Kulisch's long accumulator). Nothing is rounded before the end, so the sum does not depend on
 * how the numbers are divided over threads, shards and ranks, nor on their order.
 *
 * The sum is that of limb[i] 2^(32 i - 298); limbs are below 2^32 but for the last. */
enum { ORR_SQUARE_LIMBS = 19 };
typedef struct orr_square_sum {
    uint64_t limb[ORR_SQUARE_LIMBS];
    double not_finite; /* INFINITY or NAN where a number was; else 0 */
} orr_square_sum;

/* At most 2^16 numbers, added to `sum`. */
enum { ORR_SQUARE_PIECE = 1 << 16 };
void orr_square_sum_add(orr_square_sum *sum, const float *numbers, int64_t n);
void orr_square_sum_join(orr_square_sum *sum, const orr_square_sum *other);
/* The sum, rounded in one way whatever it was made of; INFINITY or NAN where a number was. */
double orr_square_sum_value(const orr_square_sum *sum);

#endif /* ORR_ENGINE_STEP_SQUARE_SUM_H */
