/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RANKS_REDUCTION_H
#define ORR_ENGINE_RANKS_REDUCTION_H

#include <stdbool.h>

#include <orrery/dtype.h>

/* Sums of n-element vectors, in order: ((a + b) + c) + ... Integers wrap. bf16 and fp16 are summed
 * in fp32 and rounded once, ties to even. `out` may be one of `parts`. */
bool orr_reduction_supports(orr_dtype dtype); /* fp64, fp32, tf32, fp16, bf16 and integers */
void orr_reduction_sum(orr_dtype dtype, const void *const *parts, uint32_t n_parts, int64_t n,
                       void *out);

#endif /* ORR_ENGINE_RANKS_REDUCTION_H */
