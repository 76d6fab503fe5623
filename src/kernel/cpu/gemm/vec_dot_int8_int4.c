/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/gemm/vec_dot.h"

#if ORR_X86
#include <immintrin.h>
#include <string.h>

/* Dot products of INT8 and INT4 rows (one scale per row) with tokens of int16. Products are summed
 * exactly in int32 over groups of 256 numbers, then scaled and summed in fp32. A lane of a group
 * adds 16 products of at most 127 * 32767: no overflow.
 *
 * Layout of a token: int16 numbers in whole groups; the scale of each group; the sum of the token's
 * values, which corrects for the zero point. A byte of INT4 holds two numbers, so each 64 numbers
 * of the token are stored as the 32 even ones followed by the 32 odd ones. */

#define BODY static inline __attribute__((always_inline))

enum { GROUP = 256, LANES = 16 };

typedef enum kind { INT8, INT4 } kind;

static int64_t groups_of(int64_t k)
{
    return (k + GROUP - 1) / GROUP;
}

static size_t token_bytes_int16(int64_t k)
{
    const size_t groups = (size_t)groups_of(k);
    return groups * GROUP * sizeof(int16_t) + (groups * sizeof(float) + 64 + 63) / 64 * 64;
}

static float *scales_of(const void *token, int64_t k)
{
    return (float *)(void *)((char *)(uintptr_t)token +
                             (size_t)groups_of(k) * GROUP * sizeof(int16_t));
}

static float *sum_of(const void *token, int64_t k)
{
    return scales_of(token, k) + groups_of(k);
}

/* Compared as integers: bit patterns of non-negative floats sort as the floats do, NaN above
 * all. */
ORR_AVX512 static float largest(const float *x, int64_t n)
{
    __m512i most = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = orr_first_lanes_mask(n - i);
        const __m512i bits = _mm512_maskz_loadu_epi32(mask, x + i);
        most = _mm512_max_epu32(most, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
    }
    const unsigned bits = _mm512_reduce_max_epu32(most);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Quantizes a group of up to 256 numbers; *sum += the sum of the dequantized values. */
ORR_AVX512 static float prepare_group(const float *x, int64_t n, int16_t *q, double *sum)
{
    const float scale = largest(x, n) / 32767, by = scale > 0 ? 1 / scale : scale;
    int64_t total = 0;
    for (int64_t i = 0; i < GROUP; i += LANES) {
        const int64_t left = n - i;
        const __mmask16 mask = orr_first_lanes_mask(left);
        const __m512 value = _mm512_maskz_loadu_ps(mask, x + i);
        const __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(value, _mm512_set1_ps(by)));
        _mm256_storeu_si256((void *)(q + i), _mm512_cvtsepi32_epi16(rounded));
        total += _mm512_reduce_add_epi32(rounded);
    }
    *sum += (double)scale * (double)total;
    return scale;
}

static void prepare_int16(const float *x, int64_t k, void *ret)
{
    int16_t *q = ret;
    double sum = 0;
    for (int64_t g = 0; g < groups_of(k); g++) {
        const int64_t from = g * GROUP, n = k - from < GROUP ? k - from : GROUP;
        scales_of(ret, k)[g] = prepare_group(x + from, n, q + from, &sum);
    }
    *sum_of(ret, k) = (float)sum;
}

static void prepare_int16_pairs(const float *x, int64_t k, void *ret)
{
    int16_t *q = ret, turned[64];
    prepare_int16(x, k, ret);
    for (int64_t from = 0; from < groups_of(k) * GROUP; from += 64) {
        for (int i = 0; i < 32; i++) {
            turned[i] = q[from + 2 * i];
            turned[32 + i] = q[from + 2 * i + 1];
        }
        memcpy(q + from, turned, sizeof turned);
    }
}

/* 32 bytes, of which `left` belong to the row. */
ORR_AVX512_BF16 BODY __m256i bytes_at(const void *at, int64_t left)
{
    return left >= 32 ? _mm256_loadu_si256(at)
                      : _mm256_maskz_loadu_epi8(left > 0 ? (1u << left) - 1 : 0, at);
}

/* One group of a row by one token, in fp32. */
ORR_AVX512_BF16 BODY __m512 group_int8(const char *row, int64_t left, const int16_t *x)
{
    __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int i = 0; i < GROUP; i += 32)
        sum = _mm512_dpwssd_epi32(sum, _mm512_cvtepi8_epi16(bytes_at(row + i, left - i)),
                                  _mm512_loadu_si512(x + i));
    return _mm512_cvtepi32_ps(sum);
}

ORR_AVX512_BF16 BODY __m512 group_int4(const char *row, int64_t left, const int16_t *x)
{
    __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int i = 0; i < GROUP / 2; i += 32) {
        const __m512i pairs = _mm512_cvtepu8_epi16(bytes_at(row + i, left - i));
        const __m512i even = _mm512_and_si512(pairs, _mm512_set1_epi16(15));
        const __m512i odd = _mm512_srli_epi16(pairs, 4);
        sum = _mm512_dpwssd_epi32(sum, even, _mm512_loadu_si512(x + 2 * i));
        sum = _mm512_dpwssd_epi32(sum, odd, _mm512_loadu_si512(x + 2 * i + 32));
    }
    return _mm512_cvtepi32_ps(sum);
}

/* Address of group g of a row, and the bytes from there to the row's end. */
typedef struct place {
    const char *at;
    int64_t left;
} place;

BODY place place_of(kind what, const char *row, int64_t g, int64_t k)
{
    if (what == INT8)
        return (place){row + 4 + g * GROUP, k - g * GROUP};
    return (place){row + 8 + g * (GROUP / 2), (k + 1) / 2 - g * (GROUP / 2)};
}

ORR_AVX512_BF16 BODY __m512 group_of(kind what, place p, const int16_t *x, bool whole)
{
    if (what == INT4)
        return group_int4(p.at, whole ? GROUP / 2 : p.left, x);
    return group_int8(p.at, whole ? GROUP : p.left, x);
}

BODY float at_of(const char *from)
{
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

BODY float finished(kind what, const char *row, float sum, const char *token, int64_t k)
{
    return at_of(row) * sum + (what == INT4 ? at_of(row + 4) * *sum_of(token, k) : 0);
}

ORR_AVX512_BF16 BODY void dots_of_row(kind what, const char *row, const char *tokens,
                                      size_t token_bytes, int n_tokens, int64_t k, float *ret,
                                      int64_t ret_stride)
{
    __m512 sums[ORR_VEC_DOT_TOKENS];
    const int64_t groups = groups_of(k);
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
        sums[t] = _mm512_setzero_ps();
    for (int64_t g = 0; g < groups; g++) {
        const place p = place_of(what, row, g, k);
#pragma GCC unroll 8
        for (int t = 0; t < n_tokens; t++) {
            const char *token = tokens + (size_t)t * token_bytes;
            const int16_t *x = (const int16_t *)(const void *)token + g * GROUP;
            const __m512 sum =
                (g + 1) * GROUP <= k ? group_of(what, p, x, true) : group_of(what, p, x, false);
            sums[t] = _mm512_fmadd_ps(sum, _mm512_set1_ps(scales_of(token, k)[g]), sums[t]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < n_tokens; t++)
        ret[t * ret_stride] =
            finished(what, row, _mm512_reduce_add_ps(sums[t]), tokens + (size_t)t * token_bytes, k);
}

ORR_AVX512_BF16 BODY void dots(kind what, const void *const *rows, int n_rows, const char *tokens,
                               size_t token_bytes, int n_tokens, int64_t k, float *ret,
                               int64_t ret_stride)
{
    for (int r = 0; r < n_rows; r++) {
        int t = 0;
        for (; t + 4 <= n_tokens; t += 4)
            dots_of_row(what, rows[r], tokens + (size_t)t * token_bytes, token_bytes, 4, k,
                        ret + t * ret_stride + r, ret_stride);
        for (; t + 2 <= n_tokens; t += 2)
            dots_of_row(what, rows[r], tokens + (size_t)t * token_bytes, token_bytes, 2, k,
                        ret + t * ret_stride + r, ret_stride);
        for (; t < n_tokens; t++)
            dots_of_row(what, rows[r], tokens + (size_t)t * token_bytes, token_bytes, 1, k,
                        ret + t * ret_stride + r, ret_stride);
    }
}

#define DOTS_(name, what)                                                                          \
    ORR_AVX512_BF16 static void name(const void *const *rows, int n_rows, const char *tokens,      \
                                     size_t token_bytes, int n_tokens, int64_t k, float *ret,      \
                                     int64_t ret_stride)                                           \
    {                                                                                              \
        dots(what, rows, n_rows, tokens, token_bytes, n_tokens, k, ret, ret_stride);               \
    }
DOTS_(by_int8, INT8)
DOTS_(by_int4, INT4)

const orr_vec_dot orr_vec_dot_int16_by_int8 = {token_bytes_int16, prepare_int16, by_int8, 8, NULL};
const orr_vec_dot orr_vec_dot_int16_by_int4 = {token_bytes_int16, prepare_int16_pairs, by_int4, 8,
                                               NULL};
#endif
