/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/gemm/vec_dot.h"

#if ORR_X86
#include <immintrin.h>
#include <math.h>
#include <string.h>

/* Dot product of Q4_0 rows with tokens of int8, two blocks (36 bytes) at a time:
 *
 *   bytes    0-1      2-17         18-19    20-35
 *   row      scale 0  nibbles 0    scale 1  nibbles 1
 *
 * Byte i of the nibbles holds number i in its low half and number i + 16 in its high half. One
 * shuffle copies the 16 bytes of each block twice: to where its low nibbles belong and to where its
 * high ones do. The 64 unsigned nibbles (0 to 15) enter VNNI's products of four (unsigned by
 * signed); the offset of 8 that each carries is taken out by starting the sums at -8 times the
 * token's sum of four. */

#define BODY static inline __attribute__((always_inline))

enum { BLOCK = 32, PAIR = 2 * BLOCK, BLOCK_BYTES = 18, PAIR_BYTES = 2 * BLOCK_BYTES, LANES = 16 };

typedef struct pair_of_blocks { /* a pair of blocks of a token */
    int8_t q[PAIR];
    int32_t begin[LANES]; /* -8 times the sum of four numbers */
    float scale[LANES];   /* scale of the block that the four belong to */
} pair_of_blocks;

static int64_t pairs_of(int64_t k)
{
    return (k + PAIR - 1) / PAIR;
}

static size_t token_bytes(int64_t k)
{
    return (size_t)pairs_of(k) * sizeof(pair_of_blocks);
}

/* The scale is NaN where a number of the block is NaN or infinite. */
static float prepare_block(const float *x, int8_t *q)
{
    float most = 0, rest = 0;
    for (int i = 0; i < BLOCK; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        rest += x[i] * 0;
    }
    const float scale = most / 127 + rest, by = scale > 0 ? 1 / scale : 0;
    for (int i = 0; i < BLOCK; i++) {
        const float value = rintf(x[i] * by);
        q[i] = (int8_t)(value > -127 ? value < 127 ? value : 127 : -127);
    }
    return scale;
}

static void prepare(const float *x, int64_t k, void *ret)
{
    pair_of_blocks *pairs = ret;
    memset(ret, 0, token_bytes(k));
    for (int64_t b = 0; b < k / BLOCK; b++) {
        pair_of_blocks *p = &pairs[b / 2];
        const int half = (int)(b % 2);
        const float scale = prepare_block(x + b * BLOCK, &p->q[half * BLOCK]);
        for (int l = half * LANES / 2; l < (half + 1) * LANES / 2; l++) {
            p->scale[l] = scale;
            p->begin[l] = -8 * (p->q[4 * l] + p->q[4 * l + 1] + p->q[4 * l + 2] + p->q[4 * l + 3]);
        }
    }
}

typedef struct weights {
    __m512i nibbles;
    __m512 scale;
} weights;

ORR_AVX512_BF16 BODY weights weights_at(const char *row, int64_t pair, __mmask64 mask,
                                        __m512i order, __m512i shifts, __m512i halves)
{
    const __m512i bytes = _mm512_maskz_loadu_epi8(mask, row + pair * PAIR_BYTES);
    const __m512i twice = _mm512_srlv_epi16(_mm512_permutexvar_epi8(order, bytes), shifts);
    const __m512i half = _mm512_permutexvar_epi16(halves, bytes);
    return (weights){.nibbles = _mm512_and_si512(twice, _mm512_set1_epi8(15)),
                     .scale = _mm512_cvtph_ps(_mm512_castsi512_si256(half))};
}

/* Selects bytes 2 to 17 twice, then 20 to 35 twice. */
ORR_AVX512_BF16 BODY __m512i nibble_order(void)
{
    int8_t order[64];
    for (int i = 0; i < 64; i++)
        order[i] = (int8_t)(2 + i % 16 + i / 32 * BLOCK_BYTES);
    return _mm512_loadu_si512(order);
}

/* Shuffle indices. */
typedef struct orders {
    __m512i nibbles, shifts, halves;
} orders;

ORR_AVX512_BF16 BODY orders orders_of(void)
{
    return (orders){
        .nibbles = nibble_order(),
        .shifts =
            _mm512_broadcast_i64x4(_mm256_set_epi64x(0x0004000400040004, 0x0004000400040004, 0, 0)),
        .halves = _mm512_inserti64x2(_mm512_setzero_si512(), _mm_set1_epi16(9), 1),
    };
}

ORR_AVX512_BF16 BODY void add_pair(const void *const *rows, int n_rows, const char *tokens,
                                   size_t bytes, int n_tokens, int64_t p, __mmask64 mask,
                                   const orders *o,
                                   __m512 sums[ORR_VEC_DOT_ROWS][ORR_VEC_DOT_TOKENS])
{
    weights w[ORR_VEC_DOT_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        w[r] = weights_at(rows[r], p, mask, o->nibbles, o->shifts, o->halves);
    }
#pragma GCC unroll 4
    for (int t = 0; t < n_tokens; t++) {
        const pair_of_blocks *x =
            (const pair_of_blocks *)(const void *)(tokens + (size_t)t * bytes) + p;
        const __m512i begin = _mm512_loadu_si512(x->begin), q = _mm512_loadu_si512(x->q);
        const __m512 scale = _mm512_loadu_ps(x->scale);
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            const __m512i dot = _mm512_dpbusd_epi32(begin, w[r].nibbles, q);
            sums[r][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(w[r].scale, scale),
                                         sums[r][t]);
        }
    }
}

ORR_AVX512_BF16 BODY void dots_of(const void *const *rows, int n_rows, const char *tokens,
                                  size_t bytes, int n_tokens, int64_t k, float *ret,
                                  int64_t ret_stride)
{
    const orders o = orders_of();
    const int64_t row_bytes = k / BLOCK * BLOCK_BYTES;
    __m512 sums[ORR_VEC_DOT_ROWS][ORR_VEC_DOT_TOKENS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < n_tokens; t++)
            sums[r][t] = _mm512_setzero_ps();
    int64_t p = 0;
    for (; p * PAIR_BYTES + 64 <= row_bytes; p++)
        add_pair(rows, n_rows, tokens, bytes, n_tokens, p, ~(__mmask64)0, &o, sums);
    for (; p < pairs_of(k); p++) {
        const __mmask64 mask = (p + 1) * PAIR <= k ? ((__mmask64)1 << PAIR_BYTES) - 1
                                                   : ((__mmask64)1 << BLOCK_BYTES) - 1;
        add_pair(rows, n_rows, tokens, bytes, n_tokens, p, mask, &o, sums);
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < n_tokens; t++)
            ret[t * ret_stride + r] = _mm512_reduce_add_ps(sums[r][t]);
}

/* All rows by n_tokens tokens; row by row, so that memory is read in order. */
ORR_AVX512_BF16 BODY void dots_by(const void *const *rows, int n_rows, const char *tokens,
                                  size_t bytes, int n_tokens, int64_t k, float *ret,
                                  int64_t ret_stride)
{
    for (int r = 0; r < n_rows; r++)
        dots_of(rows + r, 1, tokens, bytes, n_tokens, k, ret + r, ret_stride);
}

ORR_AVX512_BF16 static void dots(const void *const *rows, int n_rows, const char *tokens,
                                 size_t bytes, int n_tokens, int64_t k, float *ret,
                                 int64_t ret_stride)
{
    int t = 0;
    for (; t + 4 <= n_tokens; t += 4)
        dots_by(rows, n_rows, tokens + (size_t)t * bytes, bytes, 4, k, ret + t * ret_stride,
                ret_stride);
    for (; t + 2 <= n_tokens; t += 2)
        dots_by(rows, n_rows, tokens + (size_t)t * bytes, bytes, 2, k, ret + t * ret_stride,
                ret_stride);
    for (; t < n_tokens; t++)
        dots_by(rows, n_rows, tokens + (size_t)t * bytes, bytes, 1, k, ret + t * ret_stride,
                ret_stride);
}

const orr_vec_dot orr_vec_dot_int8_by_q4_0 = {token_bytes, prepare, dots, 8, NULL};
#endif
