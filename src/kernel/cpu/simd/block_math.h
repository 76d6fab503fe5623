/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_SIMD_BLOCK_MATH_H
#define ORR_KERNEL_CPU_SIMD_BLOCK_MATH_H

#include <stdbool.h>
#include <stdint.h>

/* Block math: small matrix products and softmax on blocks that stay in L1 and L2, one
 * implementation per CPU level. The dimension that varies fastest are lanes, in vectors of 16: the
 * queries of attention, the pixels of a convolution. One factor of a product has lanes; single
 * numbers of the other are broadcast, so nothing is packed, and maxima and sums over keys are
 * vertical operations. */
enum {
    ORR_BLOCK_LANES = 64
}; /* lanes at most of the attention functions below; products take any multiple of 16 */

/* c[r][lane] (+)= sum over k of a[r * a_row + k * a_step] b[k][lane]. In a pair product each
 * element of a and b is two bf16 numbers, whose two products are added. */
typedef struct orr_block_product {
    const float *a, *b;
    float *c;
    int64_t a_row, a_step, b_row, c_row; /* elements from one to the next */
    int64_t rows, depth, lanes;
    bool add;
} orr_block_product;

/* One step of the online softmax (Milakov and Gimelshein, arXiv 1805.02867): the scores of one
 * block of keys, (keys, lanes), and the running maximum and sum over the blocks before. */
typedef struct orr_online_softmax_block {
    float *score; /* shape (keys, lanes): products of queries and keys in, exponentials out */
    float *max, *sum,
        *factor; /* shape (lanes): running maximum of the products; running sum of the exponentials;
                    out: the factor that earlier sums must be multiplied by */
    float scale; /* scale of the scores times log2(e), above 0 */
    int64_t keys, lanes;
} orr_online_softmax_block;

typedef struct orr_block_math {
    void (*product)(const orr_block_product *p);
    void (*pair_product)(const orr_block_product *p); /* NULL: not at this level */
    /* to[j][i] = from[i][j], i < rows, j < columns */
    void (*transpose)(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to,
                      int64_t to_row);
    /* Masks: key j is visible to lanes with least[lane] <= j < end[lane]; other scores become
     * `hidden`. */
    void (*mask_scores)(float *score, int64_t keys, int64_t lanes, const int32_t *least,
                        const int32_t *end, float hidden);
    /* Returns false if all factors are 1. */
    bool (*online_softmax)(const orr_online_softmax_block *block);
    /* x[r][lane] *= factor[lane] */
    void (*scale)(float *x, int64_t rows, int64_t lanes, const float *factor);
    /* score = 2^(score * scale - minus[lane]) */
    void (*exp2_scaled)(float *score, int64_t keys, int64_t lanes, float scale, const float *minus);
    /* Softmax backward: slope = weight (slope - minus[lane]) scale */
    void (*slope)(float *slope, const float *weight, int64_t keys, int64_t lanes, float scale,
                  const float *minus);
    /* Converts fp32 rows to bf16 pairs. Along: of numbers j and j + 1 of a row. Across: of rows i
     * and i + 1; an odd last row is paired with zeros. NULL where there is no pair_product. */
    void (*pairs_along)(const float *from, int64_t n, float *to); /* n a multiple of 16 */
    void (*pairs_across)(const float *from, int64_t rows, int64_t lanes, float *to);
    /* Interleaves two rows of n bf16 numbers into one row of pairs. */
    void (*interleave)(const uint16_t *above, const uint16_t *below, int64_t n, float *to);
} orr_block_math;

/* The implementation for this CPU's level. */
const orr_block_math *orr_block_math_of_cpu(void);

extern const orr_block_math orr_block_math_plain, orr_block_math_avx2, orr_block_math_avx512,
    orr_block_math_avx512_bf16;

#endif /* ORR_KERNEL_CPU_SIMD_BLOCK_MATH_H */
