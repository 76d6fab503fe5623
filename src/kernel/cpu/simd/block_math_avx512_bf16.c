/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/block_math.h"

#include "kernel/cpu/simd/cpu_level.h"

#if ORR_X86
#include <immintrin.h>

#define LEVEL    ORR_AVX512_BF16
#define NUMBERS  16
#define TILES(X) X(4, 6, 2) X(2, 12, 4) X(1, 16, 4)

#define AT(name)      name##_bf16
#define STEP(c, a, b) ((c) += (a) * (b))
#include "kernel/cpu/simd/block_math_product.h"

#define LARGER(a, b)      ((V)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define REST(x)           ((V)_mm512_reduce_ps((__m512)(x), 0))
#define TIMES_POWER(p, n) ((V)_mm512_scalef_ps((__m512)(p), (__m512)(n)))
#include "kernel/cpu/simd/block_math_level.h"
#undef AT
#undef STEP

#define AT(name)      name##_pairs
#define STEP(c, a, b) ((c) = (vec_pairs)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(b), (__m512bh)(a)))
#include "kernel/cpu/simd/block_math_product.h"

LEVEL static void pairs_along(const float *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i += 16) {
        const __m256bh half = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + i));
        _mm256_storeu_si256((__m256i *)(void *)(to + i / 2), (__m256i)half);
    }
}

LEVEL static void pairs_across(const float *from, int64_t rows, int64_t lanes, float *to)
{
    for (int64_t i = 0; i < rows; i += 2)
        for (int64_t lane = 0; lane < lanes; lane += 16) {
            const float *at = from + i * lanes + lane;
            const __m512 above = _mm512_loadu_ps(at),
                         below = i + 1 < rows ? _mm512_loadu_ps(at + lanes) : _mm512_setzero_ps();
            const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(above)),
                          high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(below));
            _mm512_storeu_si512(to + i / 2 * lanes + lane,
                                _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
}

LEVEL static void interleave(const uint16_t *above, const uint16_t *below, int64_t n, float *to)
{
    int64_t i = 0;
    for (; n - i >= 16; i += 16) {
        const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(above + i))),
                      high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(below + i)));
        _mm512_storeu_si512(to + i, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
    for (uint16_t *pair = (uint16_t *)(void *)to; i < n; i++) {
        pair[2 * i] = above[i];
        pair[2 * i + 1] = below[i];
    }
}

const orr_block_math orr_block_math_avx512_bf16 = {
    .product = product_bf16,
    .pair_product = product_pairs,
    .transpose = transpose_bf16,
    .mask_scores = mask_scores_bf16,
    .online_softmax = online_softmax_bf16,
    .scale = scale_bf16,
    .exp2_scaled = exp2_scaled_bf16,
    .slope = slope_bf16,
    .pairs_along = pairs_along,
    .pairs_across = pairs_across,
    .interleave = interleave,
};
#endif
