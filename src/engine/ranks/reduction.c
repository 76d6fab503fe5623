/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ranks/reduction.h"

#include <string.h>

#include "base/sum.h"
#include "kernel/format/row.h"

/* Elementwise sums in plain C, compiled for the vectors of this CPU. Elements are independent, so
 * every vector width gives the same bits. */
#if defined __x86_64__
#define WIDER __attribute__((target("avx2")))
#endif

enum { BLOCK = 2048 }; /* sums of a block stay in L1 */

static inline __attribute__((always_inline)) void widen_bf16(const uint16_t *from, int64_t n,
                                                             float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = orr_bf16_to_fp32(from[i]);
}

static inline __attribute__((always_inline)) void add_bf16(const uint16_t *from, int64_t n,
                                                           float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += orr_bf16_to_fp32(from[i]);
}

/* orr_fp32_to_bf16() without branches, so that it vectorizes. */
static inline __attribute__((always_inline)) void narrow_bf16(const float *from, int64_t n,
                                                              uint16_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16,
                       not_a_number = bits >> 16 | 0x40;
        to[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? not_a_number : rounded);
    }
}

/* In blocks that stay in the cache, since `out` may be any of `parts`. */
static void sum_pairs(orr_dtype dtype, const void *const *parts, uint32_t n_parts, int64_t n,
                      void *out)
{
    double held[BLOCK];
    const size_t each = (size_t)orr_dtype_bytes(dtype);
    for (int64_t from = 0; from < n; from += BLOCK) {
        const size_t m = (size_t)(n - from < BLOCK ? n - from : BLOCK), at = (size_t)from * each;
        const void *held_sum = (const char *)parts[0] + at;
        for (uint32_t p = 1; p < n_parts; p++) {
            void *to = p + 1 < n_parts ? (void *)held : (char *)out + at;
            orr_sum_pair(dtype, to, held_sum, (const char *)parts[p] + at, m);
            held_sum = to;
        }
    }
}

static inline __attribute__((always_inline)) void sum_bf16(const void *const *parts,
                                                           uint32_t n_parts, int64_t n, void *out)
{
    float held[BLOCK];
    for (int64_t from = 0; from < n; from += BLOCK) {
        const int64_t m = n - from < BLOCK ? n - from : BLOCK;
        widen_bf16((const uint16_t *)parts[0] + from, m, held);
        for (uint32_t p = 1; p < n_parts; p++)
            add_bf16((const uint16_t *)parts[p] + from, m, held);
        narrow_bf16(held, m, (uint16_t *)out + from);
    }
}

static inline __attribute__((always_inline)) void sum_fp16(const void *const *parts,
                                                           uint32_t n_parts, int64_t n, void *out)
{
    float held[BLOCK], next[BLOCK];
    for (int64_t from = 0; from < n; from += BLOCK) {
        const int64_t m = n - from < BLOCK ? n - from : BLOCK;
        orr_dtype_to_fp32(ORR_DTYPE_FP16, (const uint16_t *)parts[0] + from, m, held);
        for (uint32_t p = 1; p < n_parts; p++) {
            orr_dtype_to_fp32(ORR_DTYPE_FP16, (const uint16_t *)parts[p] + from, m, next);
            for (int64_t i = 0; i < m; i++)
                held[i] += next[i];
        }
        orr_dtype_from_fp32(ORR_DTYPE_FP16, held, m, (uint16_t *)out + from);
    }
}

static inline __attribute__((always_inline)) void sum(orr_dtype dtype, const void *const *parts,
                                                      uint32_t n_parts, int64_t n, void *out)
{
    if (dtype == ORR_DTYPE_BF16)
        sum_bf16(parts, n_parts, n, out);
    else if (dtype == ORR_DTYPE_FP16)
        sum_fp16(parts, n_parts, n, out);
    else
        sum_pairs(dtype, parts, n_parts, n, out);
}

#ifdef WIDER
WIDER static void sum_wider(orr_dtype dtype, const void *const *parts, uint32_t n_parts, int64_t n,
                            void *out)
{
    sum(dtype, parts, n_parts, n, out);
}
#endif

bool orr_reduction_supports(orr_dtype dtype)
{
    return dtype != ORR_DTYPE_FP8 && dtype != ORR_DTYPE_FP4 && dtype < ORR_DTYPES;
}

void orr_reduction_sum(orr_dtype dtype, const void *const *parts, uint32_t n_parts, int64_t n,
                       void *out)
{
    if (n_parts == 1) {
        memmove(out, parts[0], (size_t)n * (size_t)orr_dtype_bytes(dtype));
        return;
    }
#ifdef WIDER
    if (__builtin_cpu_supports("avx2")) {
        sum_wider(dtype, parts, n_parts, n, out);
        return;
    }
#endif
    sum(dtype, parts, n_parts, n, out);
}
