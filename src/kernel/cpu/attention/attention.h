/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_ATTENTION_ATTENTION_H
#define ORR_KERNEL_CPU_ATTENTION_ATTENTION_H

#include "kernel/cpu/attention/blocks.h"

/* Attention that writes its probabilities: see attention_plain.c. */
orr_status orr_attention_materialized(const orr_attention_problem *h,
                                      orr_error *err) ORR_MUST_CHECK;

/* Products of a block of rows with the keys [key, key + n), (n, lanes); `q` from
 * orr_attention_read_transposed(), `packed`: ORR_QUERY_BLOCK_FLOATS. */
void orr_attention_scores(const orr_attention_problem *h, const orr_query_block *b, const float *q,
                          int64_t key, int64_t n, float *packed, float *ret);

/* Numbers of row i of a block from `key` on in a tensor (B, H, S, Skv). */
typedef struct orr_score_row {
    char *data; /* NULL: of an output that no one wants */
    orr_dtype dtype;
    int64_t stride; /* bytes from one key to the next    */
    int64_t index;  /* row-major, of the first           */
} orr_score_row;
orr_score_row orr_score_row_of(const orr_attention_problem *h, const orr_query_block *b,
                               const orr_operand *pairs, int64_t i, int64_t key);

/* Dropout of attention draws number i, row-major in (B, H, S, Skv), so: kept with the probability 1
 * - `dropped`. */
bool orr_attention_dropout_keeps(uint64_t seed, int64_t i, double dropped);

#endif /* ORR_KERNEL_CPU_ATTENTION_ATTENTION_H */
