/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/sum.h"
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

const orr_ring_reducer orr_ring_reducer_host = {.add = add};
