/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_EMBEDDING_ROW_KERNELS_H
#define ORR_KERNEL_CPU_EMBEDDING_ROW_KERNELS_H

#include <orrery/embedding.h>
#include <orrery/kernel.h>

/* What is made of rows of embedding tables, one implementation for each CPU level. All levels give
 * the same bits: products are not contracted to FMA, and sums across columns go by a fixed tree. */

/* sum[j] += the sum of n rows, in order. `more`: addresses after the n that may be prefetched. */
typedef void orr_row_sum(const char *const *row, int64_t n, int64_t more, int64_t columns,
                         float *sum);

/* A row of a bag and the range of the table that it lies in. */
typedef struct orr_ranged_row {
    const char *at;
    int64_t range;
} orr_ranged_row;
/* ret[j] = the sum of n rows, n > 0, whose ranges ascend: those of a range in order, then ranges as
 * a binary tree over their numbers. `more`: as above. */
typedef void orr_row_tree(const orr_ranged_row *row, int64_t n, int64_t more, int64_t columns,
                          float *ret);

/* Parameters of the optimizer step of one row; see row_update.c. */
typedef struct orr_row_step {
    float factor; /* of the gradient, or of the first moment */
    float rate, epsilon, beta1;
} orr_row_step;

/* Steps of the row's optimizers. `n`: columns, a multiple of ORR_EMBEDDING_BLOCK. */
typedef struct orr_row_kernels {
    orr_row_sum *sum[ORR_ROW_FORMATS];   /* NULL: by way of orr_row_to_fp32() */
    orr_row_tree *tree[ORR_ROW_FORMATS]; /* NULL: Q8_0, Q4_0 */
    /* ret[b] = the sum of squares of block b: of its 16 lanes i + 8 is added to i, then i + 4,
     * i + 2, i + 1. */
    void (*squares)(const float *g, int64_t n, float *ret);
    /* row += factor g */
    void (*add_scaled)(const orr_row_step *by, const float *g, int64_t n, float *row);
    /* state += g^2, row -= rate g / (sqrt(state) + epsilon) */
    void (*adagrad)(const orr_row_step *by, const float *g, int64_t n, float *row, float *state);
    /* moment = beta1 moment + (1 - beta1) g, row += factor moment */
    void (*adam)(const orr_row_step *by, const float *g, int64_t n, float *row, float *moment);
    /* Stochastic rounding: up with the probability of what is cut off. Column j draws from a hash
     * of `key` and `column` + j. Finite numbers stay finite. */
    void (*round_fp16)(const float *row, uint64_t key, uint32_t column, int64_t n, uint16_t *ret);
    void (*round_bf16)(const float *row, uint64_t key, uint32_t column, int64_t n, uint16_t *ret);
} orr_row_kernels;

/* Those of this CPU's level. */
const orr_row_kernels *orr_row_kernels_of_cpu(void);
/* Its row sum, or the portable one. */
orr_row_sum *orr_row_sum_of(orr_row_format format);

#endif /* ORR_KERNEL_CPU_EMBEDDING_ROW_KERNELS_H */
