/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/gemm/vec_dot.h"

#if ORR_X86
#include <immintrin.h>
#include <string.h>

#include "kernel/format/row.h"

/* Dot products of fp32, fp16 and bf16 rows at AVX-512. Each vector of a row is loaded once for all
 * tokens, each vector of a token once for all rows; lanes are summed at the end. */

#define BODY static inline __attribute__((always_inline))

/* Rows at a time: as many as leave registers for the sums, but one row for up to three tokens.
 * Memory is then read in order, and the hardware prefetcher reaches the full bandwidth; several
 * rows at once, with or without prefetch instructions, reached half of it. */
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
        const __m512 x = _mm512_loadu_ps(tokens + (size_t)t * token_bytes + 4 * k);
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
        const __m512bh x = (__m512bh)_mm512_loadu_si512(tokens + (size_t)t * token_bytes + 2 * k);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++)
            sums[r][t] = _mm512_dpbf16_ps(sums[r][t], w[r], x);
    }
}

ORR_AVX512_BF16 BODY void run_bf16(const void *const *rows, int n_rows, const char *tokens,
                                   size_t token_bytes, int n_tokens, int64_t k,
                                   __m512 sums[ROWS][ORR_VEC_DOT_TOKENS])
{
    int64_t i = 0;
    for (; i + 32 <= k; i += 32) {
        step_bf16(rows, n_rows, tokens, token_bytes, n_tokens, i, 0xffffffffu, sums);
    }
    if (i < k)
        step_bf16(rows, n_rows, tokens, token_bytes, n_tokens, i, (1u << (k - i)) - 1, sums);
}

ORR_AVX512 BODY void run_fp32(kind what, const void *const *rows, int n_rows, const char *tokens,
                              size_t token_bytes, int n_tokens, int64_t k,
                              __m512 sums[ROWS][ORR_VEC_DOT_TOKENS])
{
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        step_fp32(what, rows, n_rows, tokens, token_bytes, n_tokens, i, 0xffff, sums);
    }
    if (i < k)
        step_fp32(what, rows, n_rows, tokens, token_bytes, n_tokens, i, orr_first_lanes_mask(k - i),
                  sums);
}

ORR_AVX512_BF16 BODY void dots_of(kind what, const void *const *rows, int n_rows,
                                  const char *tokens, size_t token_bytes, int n_tokens, int64_t k,
                                  float *ret, int64_t ret_stride)
{
    __m512 sums[ROWS][ORR_VEC_DOT_TOKENS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++)
            sums[r][t] = _mm512_setzero_ps();
    if (what == BF16_BF16)
        run_bf16(rows, n_rows, tokens, token_bytes, n_tokens, k, sums);
    else
        run_fp32(what, rows, n_rows, tokens, token_bytes, n_tokens, k, sums);
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++)
            ret[t * ret_stride + r] = _mm512_reduce_add_ps(sums[r][t]);
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
        TOKENS_(2, 1)
        TOKENS_(3, 1)
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

const orr_vec_dot orr_vec_dot_bf16 = {token_bytes_bf16, prepare_bf16, bf16_by_bf16, 32};
const orr_vec_dot orr_vec_dot_fp32_by_fp32 = {orr_token_bytes_fp32, orr_token_prepare_fp32,
                                              fp32_by_fp32, 16};
const orr_vec_dot orr_vec_dot_fp32_by_bf16 = {orr_token_bytes_fp32, orr_token_prepare_fp32,
                                              fp32_by_bf16, 16};
const orr_vec_dot orr_vec_dot_fp32_by_fp16 = {orr_token_bytes_fp32, orr_token_prepare_fp32,
                                              fp32_by_fp16, 16};
#endif
