/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/block_math.h"

#include "kernel/cpu/simd/cpu_level.h"

#define LEVEL
#define AT(name)      name##_plain
#define NUMBERS       4
#define TILES(X)      X(4, 2, 1)
#define STEP(c, a, b) ((c) += (a) * (b))
#include "kernel/cpu/simd/block_math_product.h"

#include "kernel/cpu/simd/block_math_level.h"

const orr_block_math orr_block_math_plain = {
    .product = product_plain,
    .transpose = transpose_plain,
    .mask_scores = mask_scores_plain,
    .online_softmax = online_softmax_plain,
    .scale = scale_plain,
    .exp2_scaled = exp2_scaled_plain,
    .slope = slope_plain,
};
