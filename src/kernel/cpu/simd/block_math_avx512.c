/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/block_math.h"

#include "kernel/cpu/simd/cpu_level.h"

#if ORR_X86
#include <immintrin.h>

#define LEVEL         ORR_AVX512
#define AT(name)      name##_avx512
#define NUMBERS       16
#define TILES(X)      X(4, 6, 2) X(2, 12, 4) X(1, 16, 4)
#define STEP(c, a, b) ((c) += (a) * (b))
#include "kernel/cpu/simd/block_math_product.h"

#define LARGER(a, b)      ((V)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define REST(x)           ((V)_mm512_reduce_ps((__m512)(x), 0))
#define TIMES_POWER(p, n) ((V)_mm512_scalef_ps((__m512)(p), (__m512)(n)))
#include "kernel/cpu/simd/block_math_level.h"

const orr_block_math orr_block_math_avx512 = {
    .product = product_avx512,
    .transpose = transpose_avx512,
    .mask_scores = mask_scores_avx512,
    .online_softmax = online_softmax_avx512,
    .scale = scale_avx512,
    .exp2_scaled = exp2_scaled_avx512,
    .slope = slope_avx512,
};
#endif
