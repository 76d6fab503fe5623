/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "kernel/format/row.h"
#include "team/ring/parts.h"

/* The reducer of host memory. */
static void add(void *ctx, orr_team_dtype dtype, void *out, const void *a, const void *b, size_t n)
{
    (void)ctx;
    const size_t bytes = n * orr_ring_dtype_bytes(dtype);
    if (n == 0)
        return;
    if (a == NULL && b == NULL)
        memset(out, 0, bytes);
    else if (a == NULL || b == NULL)
        memmove(out, a != NULL ? a : b, bytes);
    else
        orr_sum_pair(dtype == ORR_TEAM_FP64 ? ORR_DTYPE_FP64 : ORR_DTYPE_FP32, out, a, b, n);
}

/* Blocks lie in the first cache. */
enum { BLOCK = 1024 };

static const void *as_fp32(orr_dtype dtype, bool is_fp32, const void *at, size_t i, size_t n,
                           float room[BLOCK])
{
    if (is_fp32)
        return (const float *)at + i;
    orr_dtype_to_fp32(dtype, (const uint16_t *)at + i, (int64_t)n, room);
    return room;
}

static void add_wide(void *ctx, orr_team_dtype dtype, void *out, bool out_fp32, const void *a,
                     bool a_fp32, const void *b, size_t n)
{
    const orr_dtype narrow = dtype == ORR_TEAM_BF16 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP16;
    float one[BLOCK], two[BLOCK], sums[BLOCK];
    (void)ctx;
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t here = orr_min_size(n - i, BLOCK);
        float *const sum = out_fp32 ? (float *)out + i : sums;
        const void *x = as_fp32(narrow, a_fp32, a, i, here, one);
        if (b != NULL)
            orr_sum_pair(ORR_DTYPE_FP32, sum, x, as_fp32(narrow, false, b, i, here, two), here);
        else
            memmove(sum, x, here * sizeof *sum);
        if (!out_fp32)
            orr_dtype_from_fp32(narrow, sum, (int64_t)here, (uint16_t *)out + i);
    }
}

const orr_ring_reducer orr_ring_reducer_host = {.add = add, .add_wide = add_wide};
