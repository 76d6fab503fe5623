/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_GRADIENT_TREE_H
#define ORR_ENGINE_STEP_GRADIENT_TREE_H

#include "engine/step/tape_writer.h"

/* Gradients of a bucket, summed so that the bits do not depend on the number of ranks: as a binary
 * tree over the blocks of samples (micro-batches) of the whole batch. A node is the sum of its two
 * children, or the only child where the batch ends before the other. A rank has consecutive blocks
 * and sums the subtrees that lie within these, like a binary counter; then each rank owns a slice
 * of the bucket, gets the slices of all subtrees, and joins them. */

/* The sum of blocks begin .. begin + count - 1, a whole subtree. */
typedef struct orr_block_sum {
    uint32_t begin, count;
    float *sum;
} orr_block_sum;

/* A path of the tree from right to left: what is left of it when two whole siblings are joined. Of
 * at most 2^31 blocks: twice as many as there are levels. */
enum { ORR_BLOCK_SUMS_MAX = 64 };
typedef struct orr_block_sums {
    orr_block_sum at[ORR_BLOCK_SUMS_MAX];
    uint32_t n;
} orr_block_sums;

typedef struct orr_gradient_tree {
    orr_engine_step *step;
    float *buffers[ORR_BLOCK_SUMS_MAX]; /* the first is the bucket's gradient */
    uint32_t n_buffers;
    int64_t n, slice; /* numbers of the bucket; of a rank's slice, at most */
    float *received;  /* slices of the other ranks' subtrees; NULL: there are none */
    orr_block_sums sums;
    uint32_t next; /* the micro-batch that is written to the tape next */
} orr_gradient_tree;

/* Whether the top two sums are siblings; the tree has whole subtrees only. */
bool orr_block_sums_meet(const orr_block_sums *sums);
/* The subtrees of a range of blocks, without sums; *ret_most: how many there are at once until all
 * blocks have been added. */
orr_block_sums orr_block_sums_of(uint32_t begin, uint32_t count, uint32_t *ret_most);

#endif /* ORR_ENGINE_STEP_GRADIENT_TREE_H */
