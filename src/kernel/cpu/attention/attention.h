/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_ATTENTION_ATTENTION_H
#define ORR_KERNEL_CPU_ATTENTION_ATTENTION_H

#include "kernel/cpu/attention/blocks.h"

/* Attention that writes its probability matrix, with dropout: see materialized.c. */
orr_status orr_attention_materialized(const orr_attention_problem *h,
                                      orr_error *err) ORR_MUST_CHECK;

/* Scores q k' of a query block with the keys [key, key + n), shape (n, lanes). `q` is from
 * orr_attention_read_transposed(); `packed` is scratch of ORR_QUERY_BLOCK_FLOATS. */
void orr_attention_scores(const orr_attention_problem *h, const orr_query_block *b, const float *q,
                          int64_t key, int64_t n, float *packed, float *ret);

/* Row i of a query block, from key `key` on, in a tensor (B, H, S, Skv): scores, probabilities or a
 * dropout mask. */
typedef struct orr_score_row {
    char *data; /* NULL: an output that is not wanted */
    orr_dtype dtype;
    int64_t stride; /* bytes from one key to the next */
    int64_t index;  /* row-major index of the first element */
} orr_score_row;
orr_score_row orr_score_row_of(const orr_attention_problem *h, const orr_query_block *b,
                               const orr_operand *pairs, int64_t i, int64_t key);

/* Whether attention dropout keeps element i, row-major in (B, H, S, Skv): with probability 1 -
 * `dropped`. */
bool orr_attention_dropout_keeps(uint64_t seed, int64_t i, double dropped);

#endif /* ORR_KERNEL_CPU_ATTENTION_ATTENTION_H */
