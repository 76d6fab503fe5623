/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/block_math.h"

#include "kernel/cpu/simd/cpu_level.h"

#if ORR_X86
#define LEVEL         ORR_AVX2
#define AT(name)      name##_avx2
#define NUMBERS       8
#define TILES(X)      X(2, 6, 2)
#define STEP(c, a, b) ((c) += (a) * (b))
#include "kernel/cpu/simd/block_math_product.h"

#include "kernel/cpu/simd/block_math_level.h"

const orr_block_math orr_block_math_avx2 = {
    .product = product_avx2,
    .transpose = transpose_avx2,
    .mask_scores = mask_scores_avx2,
    .online_softmax = online_softmax_avx2,
    .scale = scale_avx2,
    .exp2_scaled = exp2_scaled_avx2,
    .slope = slope_avx2,
};
#endif
