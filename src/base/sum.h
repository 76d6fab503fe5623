/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_SUM_H
#define ORR_BASE_SUM_H

#include <stddef.h>

#include <orrery/dtype.h>

/* What all all-reduces share. Adds two vectors of n numbers: fp64, fp32, tf32 (as fp32), int64,
 * int32 or int8, which wrap. `out` may be `a` or `b`. Numbers are added one by one, so that vectors
 * of every width give the same bits. */
void orr_sum_pair(orr_dtype dtype, void *out, const void *a, const void *b, size_t n);

/* Part `i` of n things cut into `parts` that differ by one at most; the first ones have it. */
static inline size_t orr_part_begin(size_t n, size_t parts, size_t i)
{
    return n / parts * i + (i < n % parts ? i : n % parts);
}

#endif /* ORR_BASE_SUM_H */
