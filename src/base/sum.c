/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sum.h"

#include <stdint.h>

/* Two vectors at a time, then the rest; numbers may stand at any address. Integers are added as
 * unsigned ones, which wrap. */
#define SUM(T)                                                                                     \
    do {                                                                                           \
        typedef T vector __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));          \
        enum { AT_ONCE = sizeof(vector) / sizeof(T) };                                             \
        T *const o = out;                                                                          \
        const T *const x = a, *const y = b;                                                        \
        size_t i = 0;                                                                              \
        for (; i + 2 * AT_ONCE <= n; i += 2 * AT_ONCE) {                                           \
            const vector one = *(const vector *)(x + i) + *(const vector *)(y + i);                \
            const vector two =                                                                     \
                *(const vector *)(x + i + AT_ONCE) + *(const vector *)(y + i + AT_ONCE);           \
            *(vector *)(o + i) = one;                                                              \
            *(vector *)(o + i + AT_ONCE) = two;                                                    \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            o[i] = (T)(x[i] + y[i]);                                                               \
    } while (0)

static inline __attribute__((always_inline)) void sum(orr_dtype dtype, void *out, const void *a,
                                                      const void *b, size_t n)
{
    if (dtype == ORR_DTYPE_FP32 || dtype == ORR_DTYPE_TF32)
        SUM(float);
    else if (dtype == ORR_DTYPE_FP64)
        SUM(double);
    else if (dtype == ORR_DTYPE_INT64)
        SUM(uint64_t);
    else if (dtype == ORR_DTYPE_INT32)
        SUM(uint32_t);
    else
        SUM(uint8_t);
}

#if defined __x86_64__
__attribute__((target("avx2"))) static void sum_avx2(orr_dtype dtype, void *out, const void *a,
                                                     const void *b, size_t n)
{
    sum(dtype, out, a, b, n);
}
#endif

void orr_sum_pair(orr_dtype dtype, void *out, const void *a, const void *b, size_t n)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        sum_avx2(dtype, out, a, b, n);
        return;
    }
#endif
    sum(dtype, out, a, b, n);
}
