/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_SIMD_BLOCK_MATH_H
#define ORR_KERNEL_CPU_SIMD_BLOCK_MATH_H

#include <stdbool.h>
#include <stdint.h>

/* Small products and softmax for blocks that stay in the first caches, for each level of the
 * processor. What varies fastest are lanes, in vectors of 16: queries of attention, pixels of a
 * convolution. One factor of a product has lanes; of the other, single numbers are spread over all
 * of them, so it needs no packing, and maxima and sums over keys go down the lanes, never across.
 */
enum {
    ORR_BLOCK_LANES = 64
}; /* the most of attention's functions below; products take any multiple of 16 */

/* c[r][lane] (+)= sum over k of a[r * a_row + k * a_step] b[k][lane].
 * As pairs: every number of a and b is two of bf16, whose products are added. */
typedef struct orr_block_product {
    const float *a, *b;
    float *c;
    int64_t a_row, a_step, b_row, c_row; /* elements from one to the next */
    int64_t rows, depth, lanes;
    bool add;
} orr_block_product;

/* Scores (keys, lanes) that one block of keys gives, and what softmax keeps of those before. */
typedef struct orr_online_softmax_block {
    float *score; /* shape (keys, lanes): products of queries and keys in, exponentials out */
    float *most, *sum, *factor; /* shape (lanes): the largest product; sum of the exponentials; what
                                 * earlier sums are to be multiplied by: out                  */
    float scale;                /* of products, times log2(e), above 0 */
    int64_t keys, lanes;
} orr_online_softmax_block;

typedef struct orr_block_math {
    void (*product)(const orr_block_product *p);
    void (*pair_product)(const orr_block_product *p); /* NULL: not at this level */
    /* to[j][i] = from[i][j], i < rows, j < columns */
    void (*transpose)(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to,
                      int64_t to_row);
    /* Key j is seen by lanes whose least[lane] <= j < end[lane]; the others' scores become
     * `hidden`. */
    void (*mask_scores)(float *score, int64_t keys, int64_t lanes, const int32_t *least,
                        const int32_t *end, float hidden);
    /* One step of an online softmax. False: all factors are 1. */
    bool (*online_softmax)(const orr_online_softmax_block *block);
    /* x[r][lane] *= factor[lane] */
    void (*scale)(float *x, int64_t rows, int64_t lanes, const float *factor);
    /* score = 2^(score * scale - minus[lane]) */
    void (*exp2_scaled)(float *score, int64_t keys, int64_t lanes, float scale, const float *minus);
    /* slope = weight (slope - minus[lane]) scale */
    void (*slope)(float *slope, const float *weight, int64_t keys, int64_t lanes, float scale,
                  const float *minus);
    /* Rows of fp32 to pairs of bf16. Along: number j of a row and j + 1. Across: of row i and i +
     * 1; there the last row of an odd number meets zeros. NULL where there is no pair_product. */
    void (*pairs_along)(const float *from, int64_t n, float *to); /* n a multiple of 16 */
    void (*pairs_across)(const float *from, int64_t rows, int64_t lanes, float *to);
    /* Two rows of n numbers of bf16 as pairs. */
    void (*interleave)(const uint16_t *above, const uint16_t *below, int64_t n, float *to);
} orr_block_math;

/* Of the level that the processor has. */
const orr_block_math *orr_block_math_of_cpu(void);

extern const orr_block_math orr_block_math_plain, orr_block_math_avx2, orr_block_math_avx512,
    orr_block_math_avx512_bf16;

#endif /* ORR_KERNEL_CPU_SIMD_BLOCK_MATH_H */
