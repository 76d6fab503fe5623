/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/gemm/vec_dot.h"

#if ORR_X86
#include <immintrin.h>
#include <math.h>
#include <string.h>

/* Dot product of Q8_0 rows with tokens of 15 bits, two blocks (68 bytes: scale, 32 int8, scale, 32
 * int8) at a time; 4 such pairs share one scale of the token.
 *
 * VNNI multiplies four unsigned by four signed bytes. Row numbers therefore have 128 added, and the
 * sums start at -128 times the token's sum of four. A token number of 15 bits is 128 times a high
 * int8 plus a low one, hence two products. */

#define BODY static inline __attribute__((always_inline))

enum {
    BLOCK = 32,
    PAIR = 2 * BLOCK,
    BLOCK_BYTES = 34,
    PAIR_BYTES = 2 * BLOCK_BYTES,
    LANES = 16,
    PAIRS = 4
};
enum {
    GROUP = PAIRS * PAIR,
    MOST = 127 * 128 + 63
}; /* the largest value that a high and a low part represent */

typedef struct group_of_pairs { /* a group of pairs of a token */
    struct {
        int8_t high[PAIR], low[PAIR];
        int32_t begin[LANES]; /* -128 times the sum of four numbers */
    } pair[PAIRS];
    float scale[LANES]; /* one scale repeated 16 times */
} group_of_pairs;

static int64_t groups_of(int64_t k)
{
    return (k + GROUP - 1) / GROUP;
}

static size_t token_bytes(int64_t k)
{
    return (size_t)groups_of(k) * sizeof(group_of_pairs);
}

/* The scale is NaN where a number of the group is NaN or infinite. */
static float scale_of(const float *x, int64_t n)
{
    float most = 0, rest = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        rest += x[i] * 0;
    }
    return most / MOST + rest;
}

static void prepare_group(const float *x, int64_t n, group_of_pairs *ret)
{
    const float scale = scale_of(x, n), by = scale > 0 ? 1 / scale : 0;
    for (int l = 0; l < LANES; l++)
        ret->scale[l] = scale;
    for (int64_t i = 0; i < n; i++) {
        const float value = rintf(x[i] * by);
        const int q = (int)(value > -MOST ? value < MOST ? value : MOST : -MOST);
        const int high =
            (q + 64 + (1 << 20)) / 128 - (1 << 13); /* remainder in the low part: -64 to 63 */
        ret->pair[i / PAIR].high[i % PAIR] = (int8_t)high;
        ret->pair[i / PAIR].low[i % PAIR] = (int8_t)(q - 128 * high);
        ret->pair[i / PAIR].begin[i % PAIR / 4] -= 128 * q;
    }
}

static void prepare(const float *x, int64_t k, void *ret)
{
    group_of_pairs *groups = ret;
    memset(ret, 0, token_bytes(k));
    for (int64_t g = 0; g < groups_of(k); g++)
        prepare_group(x + g * GROUP, k - g * GROUP < GROUP ? k - g * GROUP : GROUP, &groups[g]);
}

typedef struct weights {
    __m512i bytes; /* the row's numbers plus 128 */
    __m512 scale;
} weights;

ORR_AVX512_BF16 BODY __m256i half_at(const char *at)
{
    short half;
    memcpy(&half, at, sizeof half);
    return _mm256_set1_epi16(half);
}

/* The second block of a pair may be missing at the end of a row: zeros with a scale of zero. */
ORR_AVX512_BF16 BODY weights weights_at(const char *row, bool both)
{
    const __m256i first = _mm256_loadu_si256((const void *)(row + 2)), halves = half_at(row);
    __m256i second = _mm256_setzero_si256(), half = _mm256_maskz_mov_epi16(0xff, halves);
    if (both) {
        second = _mm256_loadu_si256((const void *)(row + BLOCK_BYTES + 2));
        half = _mm256_mask_mov_epi16(halves, 0xff00, half_at(row + BLOCK_BYTES));
    }
    const __m512i bytes = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
    return (weights){.bytes = _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)),
                     .scale = _mm512_cvtph_ps(half)};
}

typedef struct shape { /* compile-time constants */
    int rows, tokens;
} shape;

ORR_AVX512_BF16 BODY void add_pair(shape s, const char *const *rows, bool both, int pair,
                                   const group_of_pairs *const *x,
                                   __m512 sums[ORR_VEC_DOT_ROWS][ORR_VEC_DOT_TOKENS])
{
    weights w[ORR_VEC_DOT_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < s.rows; r++)
        w[r] = weights_at(rows[r], both);
#pragma GCC unroll 4
    for (int t = 0; t < s.tokens; t++) {
        const __m512i begin = _mm512_loadu_si512(x[t]->pair[pair].begin);
        const __m512i high = _mm512_loadu_si512(x[t]->pair[pair].high);
        const __m512i low = _mm512_loadu_si512(x[t]->pair[pair].low);
#pragma GCC unroll 4
        for (int r = 0; r < s.rows; r++) {
            const __m512i upper = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[r].bytes, high);
            const __m512i dot = _mm512_add_epi32(_mm512_dpbusd_epi32(begin, w[r].bytes, low),
                                                 _mm512_slli_epi32(upper, 7));
            sums[r][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), w[r].scale, sums[r][t]);
        }
    }
}

/* One group of rows that begin at `rows` and have `blocks` blocks left. */
ORR_AVX512_BF16 BODY void add_group(shape s, const char *const *rows, int64_t blocks,
                                    const group_of_pairs *const *x,
                                    __m512 totals[ORR_VEC_DOT_ROWS][ORR_VEC_DOT_TOKENS])
{
    __m512 sums[ORR_VEC_DOT_ROWS][ORR_VEC_DOT_TOKENS];
    const char *at[ORR_VEC_DOT_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < s.rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < s.tokens; t++)
            sums[r][t] = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int p = 0; p < PAIRS; p++) {
        if (2 * p >= blocks)
            break;
#pragma GCC unroll 4
        for (int r = 0; r < s.rows; r++)
            at[r] = rows[r] + p * PAIR_BYTES;
        add_pair(s, at, 2 * p + 2 <= blocks, p, x, sums);
    }
#pragma GCC unroll 4
    for (int r = 0; r < s.rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < s.tokens; t++)
            totals[r][t] = _mm512_fmadd_ps(sums[r][t], _mm512_loadu_ps(x[t]->scale), totals[r][t]);
}

ORR_AVX512_BF16 BODY void dots_of(shape s, const void *const *rows, const char *tokens,
                                  size_t bytes, int64_t k, float *ret, int64_t ret_stride)
{
    enum { GROUP_BYTES = PAIRS * PAIR_BYTES };
    __m512 totals[ORR_VEC_DOT_ROWS][ORR_VEC_DOT_TOKENS];
    const char *at[ORR_VEC_DOT_ROWS];
    const group_of_pairs *x[ORR_VEC_DOT_TOKENS];
#pragma GCC unroll 4
    for (int r = 0; r < s.rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < s.tokens; t++)
            totals[r][t] = _mm512_setzero_ps();
    for (int64_t g = 0; g < groups_of(k); g++) {
#pragma GCC unroll 4
        for (int t = 0; t < s.tokens; t++)
            x[t] = (const group_of_pairs *)(const void *)(tokens + (size_t)t * bytes) + g;
#pragma GCC unroll 4
        for (int r = 0; r < s.rows; r++) {
            at[r] = (const char *)rows[r] + g * GROUP_BYTES;
        }
        if ((g + 1) * GROUP <= k)
            add_group(s, at, 2 * PAIRS, x, totals);
        else
            add_group(s, at, (k - g * GROUP) / BLOCK, x, totals);
    }
#pragma GCC unroll 4
    for (int r = 0; r < s.rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < s.tokens; t++)
            ret[t * ret_stride + r] = _mm512_reduce_add_ps(totals[r][t]);
}

/* All rows by n_tokens tokens; row by row, so that memory is read in order. */
ORR_AVX512_BF16 BODY void dots_by(int n_tokens, const void *const *rows, int n_rows,
                                  const char *tokens, size_t bytes, int64_t k, float *ret,
                                  int64_t ret_stride)
{
    for (int r = 0; r < n_rows; r++)
        dots_of((shape){1, n_tokens}, rows + r, tokens, bytes, k, ret + r, ret_stride);
}

ORR_AVX512_BF16 static void dots(const void *const *rows, int n_rows, const char *tokens,
                                 size_t bytes, int n_tokens, int64_t k, float *ret,
                                 int64_t ret_stride)
{
    int t = 0;
    for (; t + 4 <= n_tokens; t += 4)
        dots_by(4, rows, n_rows, tokens + (size_t)t * bytes, bytes, k, ret + t * ret_stride,
                ret_stride);
    for (; t + 2 <= n_tokens; t += 2)
        dots_by(2, rows, n_rows, tokens + (size_t)t * bytes, bytes, k, ret + t * ret_stride,
                ret_stride);
    for (; t < n_tokens; t++)
        dots_by(1, rows, n_rows, tokens + (size_t)t * bytes, bytes, k, ret + t * ret_stride,
                ret_stride);
}

const orr_vec_dot orr_vec_dot_int15_by_q8_0 = {token_bytes, prepare, dots, 8, NULL};
#endif
