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

/* A lookup of a row in the bag of a sample. */
typedef struct orr_lookup {
    uint32_t row; /* its slot, relative to the first one of its range */
    uint32_t sample;
} orr_lookup;

/* The optimizer step of rows; see row_update.c for the formulas. */
typedef struct orr_row_step {
    float rate; /* row-wise Adam: divided by 1 - beta1^step */
    float epsilon, beta1, beta2;
    float second_bias; /* 1 / (1 - beta2^step) */
    float mean;        /* 1 / columns of the table */
    float scale;       /* of the gradients */
} orr_row_step;

/* Lookups of a row whose gradients are summed before they are added to the others', which bounds
 * the rounding error. */
enum { ORR_ROW_PART = 256 };

/* Gradients of bags, fp32: of sample s from at + s * row_bytes on. */
typedef struct orr_bag_gradients {
    const char *at;
    int64_t row_bytes;
    bool far; /* more than caches hold: prefetched */
} orr_bag_gradients;

/* Rows of a range of slots in memory, in fp32, fp16 or bf16, and their states. */
typedef struct orr_row_range {
    char *rows, *states; /* of the first row of the range */
    int64_t row_bytes, state_bytes;
    int64_t columns;
    orr_row_format format;
    uint64_t noise;        /* of stochastic rounding: row r has the key orr_row_noise(noise + r) */
    const uint64_t *owner; /* r of each slot, in the low 48 bits; NULL: slot r has row r */
    uint32_t column;
    const float *square; /* of each row that is looked up; NULL: of the columns at hand */
} orr_row_range;
static inline uint64_t orr_row_of_slot(const uint64_t *owner, int64_t slot)
{
    return owner != NULL ? owner[slot] & ((UINT64_C(1) << 48) - 1) : (uint64_t)slot;
}
/* The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014). */
static inline uint64_t orr_row_noise(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* `n`: columns, a multiple of ORR_EMBEDDING_BLOCK. */
typedef struct orr_row_kernels {
    orr_row_sum *sum[ORR_ROW_FORMATS];   /* NULL: by way of orr_row_to_fp32() */
    orr_row_tree *tree[ORR_ROW_FORMATS]; /* NULL: Q8_0, Q4_0 */
    /* The gradient of a row: of its lookups in order, in parts of ORR_ROW_PART; scaled. */
    void (*sum_bags)(const orr_row_step *by, const orr_bag_gradients *gradients,
                     const orr_lookup *lookup, int64_t lookups, int64_t n, float *ret);
    /* ret[b] = the sum of squares of block b: of its 16 lanes i + 8 is added to i, then i + 4,
     * i + 2, i + 1. */
    void (*squares)(const float *g, int64_t n, float *ret);
    /* The same of the gradient of each row of sorted lookups, one row after another. */
    void (*squares_of_rows)(const orr_row_step *by, const orr_bag_gradients *gradients,
                            const orr_lookup *lookup, int64_t lookups, int64_t n, float *ret);
    /* The step of one row. `square`: the sum of squares of its gradient, of all columns. */
    void (*step[ORR_ROW_OPTIMIZERS])(const orr_row_step *by, const float *g, float square,
                                     int64_t n, float *row, float *state);
    /* All three for each row of a range, whose lookups are sorted. */
    void (*update[ORR_ROW_OPTIMIZERS])(const orr_row_step *by, const orr_bag_gradients *gradients,
                                       const orr_row_range *range, const orr_lookup *lookup,
                                       int64_t lookups);
    /* Stochastic rounding: up with the probability of what is cut off. Column j draws from a hash
     * of `key` and `column` + j. Finite numbers stay finite. */
    void (*round[ORR_ROW_FORMATS])(const float *row, uint64_t key, uint32_t column, int64_t n,
                                   uint16_t *ret); /* of FP16 and BF16 */
} orr_row_kernels;

/* Those of this CPU's level. */
const orr_row_kernels *orr_row_kernels_of_cpu(void);
/* Its row sum, or the portable one. */
orr_row_sum *orr_row_sum_of(orr_row_format format);

#endif /* ORR_KERNEL_CPU_EMBEDDING_ROW_KERNELS_H */
