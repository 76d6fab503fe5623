/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "team/ring/parts.h"

/* Sums of a chunk, which is in the cache: whole vectors, then the rest. Sums of single numbers are
 * the same in vectors of any width. */
#if defined(__x86_64__)
#define WIDER __attribute__((target("avx2")))
#endif

/* Numbers may stand anywhere, and `a` may be `out`. */
typedef float some_floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef double some_doubles __attribute__((vector_size(32), aligned(8), may_alias));

#define SUM(T, VECTOR)                                                                             \
    do {                                                                                           \
        enum { AT_ONCE = sizeof(VECTOR) / sizeof(T) };                                             \
        T *const o = out;                                                                          \
        const T *const x = a, *const y = b;                                                        \
        size_t i = 0;                                                                              \
        for (; i + 2 * AT_ONCE <= n; i += 2 * AT_ONCE) {                                           \
            const VECTOR one = *(const VECTOR *)(x + i) + *(const VECTOR *)(y + i);                \
            const VECTOR two =                                                                     \
                *(const VECTOR *)(x + i + AT_ONCE) + *(const VECTOR *)(y + i + AT_ONCE);           \
            *(VECTOR *)(o + i) = one;                                                              \
            *(VECTOR *)(o + i + AT_ONCE) = two;                                                    \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            o[i] = x[i] + y[i];                                                                    \
    } while (0)

static inline __attribute__((always_inline)) void sum(orr_ring_dtype dtype, void *out,
                                                      const void *a, const void *b, size_t n)
{
    if (dtype == ORR_RING_FP64)
        SUM(double, some_doubles);
    else
        SUM(float, some_floats);
}

#ifdef WIDER
WIDER static void sum_wider(orr_ring_dtype dtype, void *out, const void *a, const void *b, size_t n)
{
    sum(dtype, out, a, b, n);
}
#endif

static void add(void *ctx, orr_ring_dtype dtype, void *out, const void *a, const void *b, size_t n)
{
    (void)ctx;
    const size_t bytes = n * orr_ring_dtype_bytes(dtype);
    if (n == 0)
        return;
    if (a == NULL && b == NULL) {
        memset(out, 0, bytes);
    } else if (a == NULL || b == NULL) {
        memmove(out, a != NULL ? a : b, bytes);
    } else {
#ifdef WIDER
        if (__builtin_cpu_supports("avx2")) {
            sum_wider(dtype, out, a, b, n);
            return;
        }
#endif
        sum(dtype, out, a, b, n);
    }
}

const orr_ring_reducer orr_ring_reducer_host = {.add = add};
