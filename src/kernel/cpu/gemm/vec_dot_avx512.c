/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/gemm/vec_dot.h"

#if ORR_X86
#include <immintrin.h>
#include <string.h>

#include "kernel/format/row.h"

/* Dot products of fp32, fp16 and bf16 rows at AVX-512. Each vector of a row is loaded once for all
 * tokens, each vector of a token once for all rows; lanes are summed after each block of K. */

#define BODY static inline __attribute__((always_inline))

/* Rows at a time: as many as leave registers for the sums, but one row for one token: memory is
 * then read in order, and the hardware prefetcher reaches the full bandwidth. Two rows for two or
 * three tokens hide the latency of their sums. */
enum { ROWS = ORR_VEC_DOT_ROWS, LANES = 16 };

typedef enum kind { BF16_BF16, FP32_FP32, FP32_BF16, FP32_FP16 } kind;

static size_t token_bytes_bf16(int64_t k)
{
    return (size_t)((k + 31) / 32 * 32) * sizeof(uint16_t);
}

static void prepare_bf16(const float *x, int64_t k, void *ret)
{
    memset(ret, 0, token_bytes_bf16(k));
    orr_dtype_from_fp32(ORR_DTYPE_BF16, x, k, ret);
}

/* 16 numbers of a row as fp32; those outside `mask` are not read. */
ORR_AVX512 BODY __m512 numbers_at(kind what, const char *row, int64_t k, __mmask16 mask)
{
    if (what == FP32_FP32)
        return _mm512_maskz_loadu_ps(mask, row + 4 * k);
    const __m256i half = _mm256_maskz_loadu_epi16(mask, row + 2 * k);
    return what == FP32_FP16
               ? _mm512_cvtph_ps(half)
               : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

ORR_AVX512 BODY void step_fp32(kind what, const void *const *rows, int n_rows, const char *tokens,
                               size_t token_bytes, int n_tokens, int64_t k, __mmask16 mask,
                               __m512 sums[ROWS][ORR_VEC_DOT_TOKENS])
{
    __m512 w[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
        w[r] = numbers_at(what, rows[r], k, mask);
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++) {
        const __m512 x = _mm512_maskz_loadu_ps(mask, tokens + (size_t)t * token_bytes + 4 * k);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++)
            sums[r][t] = _mm512_fmadd_ps(w[r], x, sums[r][t]);
    }
}

ORR_AVX512_BF16 BODY void step_bf16(const void *const *rows, int n_rows, const char *tokens,
                                    size_t token_bytes, int n_tokens, int64_t k, __mmask32 mask,
                                    __m512 sums[ROWS][ORR_VEC_DOT_TOKENS])
{
    __m512bh w[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
        w[r] = (__m512bh)_mm512_maskz_loadu_epi16(mask, (const char *)rows[r] + 2 * k);
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++) {
        const __m512bh x =
            (__m512bh)_mm512_maskz_loadu_epi16(mask, tokens + (size_t)t * token_bytes + 2 * k);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++)
            sums[r][t] = _mm512_dpbf16_ps(sums[r][t], w[r], x);
    }
}

ORR_AVX512_BF16 BODY void run_bf16(const void *const *rows, int n_rows, const char *tokens,
                                   size_t token_bytes, int n_tokens, int64_t from, int64_t to,
                                   __m512 sums[ROWS][ORR_VEC_DOT_TOKENS])
{
    int64_t i = from;
    for (; i + 32 <= to; i += 32)
        step_bf16(rows, n_rows, tokens, token_bytes, n_tokens, i, 0xffffffffu, sums);
    if (i < to)
        step_bf16(rows, n_rows, tokens, token_bytes, n_tokens, i, (1u << (to - i)) - 1, sums);
}

ORR_AVX512 BODY void run_fp32(kind what, const void *const *rows, int n_rows, const char *tokens,
                              size_t token_bytes, int n_tokens, int64_t from, int64_t to,
                              __m512 sums[ROWS][ORR_VEC_DOT_TOKENS])
{
    int64_t i = from;
    for (; i + LANES <= to; i += LANES)
        step_fp32(what, rows, n_rows, tokens, token_bytes, n_tokens, i, 0xffff, sums);
    if (i < to)
        step_fp32(what, rows, n_rows, tokens, token_bytes, n_tokens, i,
                  orr_first_lanes_mask(to - i), sums);
}

/* The sum of 16 lanes: halves are added, then quarters, then what is left of those. */
ORR_AVX512 BODY float sum_of_lanes(__m512 v)
{
    const __m512 half = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
    const __m512 quarter = _mm512_add_ps(half, _mm512_shuffle_f32x4(half, half, 0xb1));
    const __m512 pair = _mm512_add_ps(quarter, _mm512_shuffle_ps(quarter, quarter, 0x4e));
    return _mm512_cvtss_f32(_mm512_add_ps(pair, _mm512_shuffle_ps(pair, pair, 0xb1)));
}

/* v0, v1: the sums of both halves of each; quarters likewise. */
ORR_AVX512 BODY __m512 halves_of(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

ORR_AVX512 BODY __m512 quarters_of(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Sums of four rows, with the same additions: those of token t are in quarter t. */
ORR_AVX512 BODY __m512 sums_of_quarters(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    const __m512 cd = _mm512_add_ps(_mm512_shuffle_ps(c, d, 0x44), _mm512_shuffle_ps(c, d, 0xee));
    return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x88), _mm512_shuffle_ps(ab, cd, 0xdd));
}

ORR_AVX512 BODY void store_four(__m128 four, bool add, float *at)
{
    _mm_storeu_ps(at, add ? _mm_add_ps(_mm_loadu_ps(at), four) : four);
}

/* Of 4 rows, and up to 4 tokens from t on. */
ORR_AVX512 BODY void store_tile(__m512 sums[ROWS][ORR_VEC_DOT_TOKENS], int t, int n_tokens,
                                bool add, float *ret, int64_t ret_stride)
{
    __m512 q[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        const __m512 *v = &sums[r][t];
        const __m512 first = halves_of(v[0], n_tokens > 1 ? v[1] : v[0]);
        const __m512 second = n_tokens > 2 ? halves_of(v[2], n_tokens > 3 ? v[3] : v[2]) : first;
        q[r] = quarters_of(first, second);
    }
    const __m512 all = sums_of_quarters(q[0], q[1], q[2], q[3]);
    store_four(_mm512_castps512_ps128(all), add, ret);
    if (n_tokens > 1)
        store_four(_mm512_extractf32x4_ps(all, 1), add, ret + ret_stride);
    if (n_tokens > 2)
        store_four(_mm512_extractf32x4_ps(all, 2), add, ret + 2 * ret_stride);
    if (n_tokens > 3)
        store_four(_mm512_extractf32x4_ps(all, 3), add, ret + 3 * ret_stride);
}

ORR_AVX512 BODY void store_sums(__m512 sums[ROWS][ORR_VEC_DOT_TOKENS], int n_rows, int n_tokens,
                                bool add, float *ret, int64_t ret_stride)
{
    if (n_rows == ROWS) {
#pragma GCC unroll 2
        for (int t = 0; t < n_tokens; t += 4)
            store_tile(sums, t, n_tokens - t, add, ret + t * ret_stride, ret_stride);
        return;
    }
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            const float sum = sum_of_lanes(sums[r][t]);
            ret[t * ret_stride + r] = add ? ret[t * ret_stride + r] + sum : sum;
        }
}

/* The numbers from .. to - 1 of K. */
ORR_AVX512_BF16 BODY void dots_of_block(kind what, const void *const *rows, int n_rows,
                                        const char *tokens, size_t token_bytes, int n_tokens,
                                        int64_t from, int64_t to, bool add, float *ret,
                                        int64_t ret_stride)
{
    __m512 sums[ROWS][ORR_VEC_DOT_TOKENS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++)
            sums[r][t] = _mm512_setzero_ps();
    if (what == BF16_BF16)
        run_bf16(rows, n_rows, tokens, token_bytes, n_tokens, from, to, sums);
    else
        run_fp32(what, rows, n_rows, tokens, token_bytes, n_tokens, from, to, sums);
    store_sums(sums, n_rows, n_tokens, add, ret, ret_stride);
}

ORR_AVX512_BF16 BODY void dots_of(kind what, const void *const *rows, int n_rows,
                                  const char *tokens, size_t token_bytes, int n_tokens, int64_t k,
                                  float *ret, int64_t ret_stride)
{
    const int64_t block = what == BF16_BF16 ? ORR_DOT_BLOCK_BF16 : ORR_DOT_BLOCK;
    for (int64_t from = 0; from < k; from += block)
        dots_of_block(what, rows, n_rows, tokens, token_bytes, n_tokens, from,
                      from + block < k ? from + block : k, from > 0, ret, ret_stride);
}

/* All rows, `at_once` at a time, the rest one by one. */
ORR_AVX512_BF16 BODY void dots_by(kind what, int at_once, const void *const *rows, int n_rows,
                                  const char *tokens, size_t token_bytes, int n_tokens, int64_t k,
                                  float *ret, int64_t ret_stride)
{
    int r = 0;
    for (; r + at_once <= n_rows; r += at_once)
        dots_of(what, rows + r, at_once, tokens, token_bytes, n_tokens, k, ret + r, ret_stride);
    for (; r < n_rows; r++)
        dots_of(what, rows + r, 1, tokens, token_bytes, n_tokens, k, ret + r, ret_stride);
}

#define TOKENS_(n, at_once)                                                                        \
    case n:                                                                                        \
        dots_by(what, at_once, rows, n_rows, tokens, token_bytes, n, k, ret, ret_stride);          \
        return;

ORR_AVX512_BF16 BODY void dots(kind what, const void *const *rows, int n_rows, const char *tokens,
                               size_t token_bytes, int n_tokens, int64_t k, float *ret,
                               int64_t ret_stride)
{
    switch (n_tokens) {
        TOKENS_(1, 1)
        TOKENS_(2, 2)
        TOKENS_(3, 2)
        TOKENS_(4, 4)
        TOKENS_(5, 4)
        TOKENS_(6, 4)
        TOKENS_(7, 2)
        TOKENS_(8, 2)
    }
}

#define DOTS_(name, what)                                                                          \
    ORR_AVX512_BF16 static void name(const void *const *rows, int n_rows, const char *tokens,      \
                                     size_t token_bytes, int n_tokens, int64_t k, float *ret,      \
                                     int64_t ret_stride)                                           \
    {                                                                                              \
        dots(what, rows, n_rows, tokens, token_bytes, n_tokens, k, ret, ret_stride);               \
    }
DOTS_(bf16_by_bf16, BF16_BF16)
DOTS_(fp32_by_fp32, FP32_FP32)
DOTS_(fp32_by_bf16, FP32_BF16)
DOTS_(fp32_by_fp16, FP32_FP16)

/* One block of fp32 rows. */
#define BLOCK_(n, at_once)                                                                         \
    case n:                                                                                        \
        for (; r + (at_once) <= n_rows; r += (at_once))                                            \
            dots_of_block(FP32_FP32, rows + r, at_once, tokens, token_bytes, n, 0, k, add,         \
                          ret + r, ret_stride);                                                    \
        for (; r < n_rows; r++)                                                                    \
            dots_of_block(FP32_FP32, rows + r, 1, tokens, token_bytes, n, 0, k, add, ret + r,      \
                          ret_stride);                                                             \
        return;

ORR_AVX512_BF16 void orr_dots_fp32_avx512(const void *const *rows, int n_rows, const char *tokens,
                                          size_t token_bytes, int n_tokens, int64_t k, bool add,
                                          float *ret, int64_t ret_stride)
{
    int r = 0;
    switch (n_tokens) {
        BLOCK_(1, 4)
        BLOCK_(2, 4)
        BLOCK_(3, 4)
        BLOCK_(4, 4)
        BLOCK_(5, 4)
        BLOCK_(6, 4)
        BLOCK_(7, 2)
        BLOCK_(8, 2)
    }
}

/* The same sums of packed rows and tokens. A tile of 6 tokens by 4 rows has 24 sums, which hide
 * the latency of two FMAs a cycle, and loads 10 vectors for them. */
enum { TILE_TOKENS = 6 };

ORR_AVX512_BF16 BODY void tile(kind what, int64_t units, const char *a, const char *b, float *c,
                               int64_t c_stride, int64_t columns, bool add)
{
    const size_t bytes = (size_t)units * 4;
    const void *const rows[ROWS] = {b, b + bytes, b + 2 * bytes, b + 3 * bytes};
    const int64_t n = what == BF16_BF16 ? 2 * units : units;
    float edge[TILE_TOKENS * ROWS];
    if (columns == ROWS) {
        dots_of_block(what, rows, ROWS, a, bytes, TILE_TOKENS, 0, n, add, c, c_stride);
        return;
    }
    dots_of_block(what, rows, ROWS, a, bytes, TILE_TOKENS, 0, n, false, edge, ROWS);
    for (int t = 0; t < TILE_TOKENS; t++)
        for (int64_t r = 0; r < columns; r++) {
            float *at = &c[t * c_stride + r];
            *at = add ? *at + edge[t * ROWS + r] : edge[t * ROWS + r];
        }
}

#define TILE_(name, what)                                                                          \
    ORR_AVX512_BF16 static void name(int64_t units, const void *a, const void *b, float *c,        \
                                     int64_t c_stride, int64_t columns, bool add)                  \
    {                                                                                              \
        tile(what, units, a, b, c, c_stride, columns, add);                                        \
    }
TILE_(tile_fp32, FP32_FP32)
TILE_(tile_bf16, BF16_BF16)

const orr_gemm_microkernel orr_gemm_dots_avx512 = {.rows = TILE_TOKENS,
                                                   .columns = ROWS,
                                                   .per_unit = 1,
                                                   .k_block = ORR_DOT_BLOCK,
                                                   .by_rows = true,
                                                   .tile = tile_fp32};
const orr_gemm_microkernel orr_gemm_dots_avx512_bf16 = {.rows = TILE_TOKENS,
                                                        .columns = ROWS,
                                                        .per_unit = 2,
                                                        .k_block = ORR_DOT_BLOCK_BF16,
                                                        .by_rows = true,
                                                        .tile = tile_bf16};

const orr_vec_dot orr_vec_dot_bf16 = {token_bytes_bf16, prepare_bf16, bf16_by_bf16, 32,
                                      &orr_gemm_dots_avx512_bf16};
const orr_vec_dot orr_vec_dot_fp32_by_fp32 = {orr_token_bytes_fp32, orr_token_prepare_fp32,
                                              fp32_by_fp32, 16, &orr_gemm_dots_avx512};
const orr_vec_dot orr_vec_dot_fp32_by_bf16 = {orr_token_bytes_fp32, orr_token_prepare_fp32,
                                              fp32_by_bf16, 16, &orr_gemm_dots_avx512};
const orr_vec_dot orr_vec_dot_fp32_by_fp16 = {orr_token_bytes_fp32, orr_token_prepare_fp32,
                                              fp32_by_fp16, 16, &orr_gemm_dots_avx512};
#endif
