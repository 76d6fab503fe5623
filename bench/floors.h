/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_FLOORS_H
#define BENCH_FLOORS_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/workers.h"
#include "kernel/cpu/simd/cpu_level.h"

/* What this machine does at most: multiply-adds in registers, bytes read from memory. Both 0 where
 * the processor has no AVX-512. */

/* With one thread, time of the processor's that it had: neighbours that take turns do not count. */
static inline double floor_now_s(const orr_workers *workers)
{
    struct timespec t;
    clock_gettime(orr_workers_count(workers) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if ORR_X86
#include <immintrin.h>

enum { FLOOR_SUMS = 24, FLOOR_STEPS = 50000, FLOOR_PIECES = 4, FLOOR_READ_BYTES = 1 << 18 };

ORR_AVX512 static void floor_fma(void *ctx, size_t i, int thread)
{
    (void)i, (void)thread;
    __m512 s[FLOOR_SUMS];
    const __m512 a = _mm512_set1_ps(*(volatile float *)ctx), b = _mm512_set1_ps(0.9f);
    for (int j = 0; j < FLOOR_SUMS; j++)
        s[j] = _mm512_set1_ps((float)j);
    for (int64_t k = 0; k < FLOOR_STEPS; k++)
#pragma GCC unroll 24
        for (int j = 0; j < FLOOR_SUMS; j++)
            s[j] = _mm512_fmadd_ps(a, b, s[j]);
    for (int j = 1; j < FLOOR_SUMS; j++)
        s[0] = _mm512_add_ps(s[0], s[j]);
    if (_mm512_reduce_add_ps(s[0]) == 1.25f)
        abort();
}

ORR_AVX512_BF16 static void floor_dot(void *ctx, size_t i, int thread)
{
    (void)i, (void)thread;
    __m512 s[FLOOR_SUMS];
    const __m512bh a = (__m512bh)_mm512_set1_epi32(*(volatile int *)ctx),
                   b = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    for (int j = 0; j < FLOOR_SUMS; j++)
        s[j] = _mm512_set1_ps((float)j);
    for (int64_t k = 0; k < FLOOR_STEPS; k++)
#pragma GCC unroll 24
        for (int j = 0; j < FLOOR_SUMS; j++)
            s[j] = _mm512_dpbf16_ps(s[j], a, b);
    for (int j = 1; j < FLOOR_SUMS; j++)
        s[0] = _mm512_add_ps(s[0], s[j]);
    if (_mm512_reduce_add_ps(s[0]) == 1.25f)
        abort();
}

ORR_AVX512 static void floor_read(void *ctx, size_t i, int thread)
{
    (void)thread;
    const char *at = (const char *)ctx + i * FLOOR_READ_BYTES;
    __m512i x[4] = {0};
    for (size_t b = 0; b < FLOOR_READ_BYTES; b += 256)
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++)
            x[j] = _mm512_xor_si512(x[j], _mm512_load_si512(at + b + 64 * j));
    for (int j = 1; j < 4; j++)
        x[0] = _mm512_xor_si512(x[0], x[j]);
    if (_mm512_reduce_add_epi32(x[0]) == 12345)
        abort();
}

static inline double floor_flops_per_s(orr_workers *workers, bool bf16)
{
    int one = 0x3f803f80;
    const int n = orr_workers_count(workers) * FLOOR_PIECES;
    const double start = floor_now_s(workers);
    orr_workers_run(workers, (size_t)n, bf16 ? floor_dot : floor_fma, &one);
    const double flops = n * (double)FLOOR_STEPS * FLOOR_SUMS * (bf16 ? 64 : 32);
    return flops / (floor_now_s(workers) - start);
}

/* Of `n` bytes from `bytes` on, a multiple of 256 KiB, aligned to 64. */
static inline double floor_read_per_s(orr_workers *workers, char *bytes, size_t n)
{
    const double start = floor_now_s(workers);
    orr_workers_run(workers, n / FLOOR_READ_BYTES, floor_read, bytes);
    return (double)n / (floor_now_s(workers) - start);
}
#else
static inline double floor_flops_per_s(orr_workers *workers, bool bf16)
{
    (void)workers, (void)bf16;
    return 0;
}

static inline double floor_read_per_s(orr_workers *workers, char *bytes, size_t n)
{
    (void)workers, (void)bytes, (void)n;
    return 0;
}
#endif

#endif /* BENCH_FLOORS_H */
