/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_ATTENTION_BLOCKS_H
#define ORR_KERNEL_CPU_ATTENTION_BLOCKS_H

#include <orrery/kernel.h>

#include "kernel/cpu/simd/block_math.h"

/* What forward and backward attention share: q, k, v, y and their gradients as strided rows, the
 * keys that a query attends to, and blocks of queries and keys in scratch.
 *
 * Grouped-query attention (Ainslie et al., arXiv 2305.13245): `share` query heads share a key head,
 * called a group. Their queries are taken together: row r of sample b and group g is token r /
 * share of query head g * share + r % share. A query block is up to 64 such rows, transposed so
 * that each is one lane of block_math.h. */
typedef struct orr_head_rows {
    char *data; /* NULL: an output that is not wanted */
    orr_dtype dtype;
    int64_t sample, token, head, column; /* strides in bytes */
    int64_t width;
} orr_head_rows;
/* Rows of an operand (B, S, H, W). */
orr_head_rows orr_head_rows_of(const orr_operand *operand);

typedef struct orr_attention_problem {
    const orr_kernel_call *call;
    const orr_block_math *lanes;
    orr_head_rows q, k, v;
    int64_t batch, queries, keys, heads, groups, share, width, value_width;
    int64_t rows;   /* queries * share: rows of a sample and group */
    int64_t block;  /* queries, and keys, of a block: ORR_BLOCK_LANES, fewer where heads are wide */
    int64_t blocks; /* query blocks of a sample and group */
    float scale;    /* 1 / sqrt(D) */
    bool pairs;     /* multiply bf16 pairs as stored in memory */
} orr_attention_problem;
enum {
    ORR_QUERY_BLOCK_FLOATS = 64 * 256, /* scratch of one query block */
    ORR_HEAD_WIDTH_MAX = 1024          /* the widest head: blocks of 16 rows */
};
/* q, k, v are the inputs `first`, `first` + 1 and `first` + 2. INVALID: a sample has more keys than
 * the cache holds; UNSUPPORTED: heads wider than ORR_HEAD_WIDTH_MAX. */
orr_status orr_attention_problem_of(const orr_kernel_call *call, uint32_t first,
                                    orr_attention_problem *ret, orr_error *err) ORR_MUST_CHECK;

/* Position of the sample's first query in the sequence, and the number of its keys. */
int64_t orr_attention_key_count(const orr_attention_problem *h, int64_t sample);

/* Rows [row, row + n) of a group. lanes: n rounded up to a whole vector; lanes beyond n repeat the
 * mask of the first row. [begin, end) covers the keys that any row attends to. */
typedef struct orr_query_block {
    int64_t sample, group, row, n, lanes, begin, end;
    int64_t first_key[ORR_BLOCK_LANES],
        end_key[ORR_BLOCK_LANES]; /* keys that a lane attends to: [first_key, end_key) */
} orr_query_block;
orr_query_block orr_query_block_of(const orr_attention_problem *h, int64_t sample, int64_t group,
                                   int64_t number);
/* Sets the scores of keys [key, key + n) that a lane does not attend to to `hidden`. */
void orr_attention_mask_scores(const orr_attention_problem *h, const orr_query_block *b,
                               int64_t key, int64_t n, float *score, float hidden);

/* Reads rows of a block as fp32, `to_row` floats apart; writes them back. */
void orr_attention_read_rows(const orr_attention_problem *h, const orr_head_rows *of,
                             const orr_query_block *b, float *to, int64_t to_row);
void orr_attention_write_rows(const orr_attention_problem *h, const orr_head_rows *of,
                              const orr_query_block *b, const float *from, int64_t from_row);
/* Reads a block transposed: (W, lanes), or with `pairs` bf16 pairs, ((W + 1) / 2, lanes). `room` is
 * scratch of ORR_QUERY_BLOCK_FLOATS. */
void orr_attention_read_transposed(const orr_attention_problem *h, const orr_head_rows *of,
                                   const orr_query_block *b, bool pairs, float *room, float *to);

/* Reads tokens [token, token + n) of a key head as fp32, `to_row` floats apart; writes them
 * back. */
void orr_keys_read(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token, int64_t n,
                   float *to, int64_t to_row);
void orr_keys_write(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token,
                    int64_t n, const float *from, int64_t from_row);
/* Reads keys as bf16 pairs: of columns 2i and 2i + 1, (n, (W + 1) / 2); or of tokens 2i and 2i + 1,
 * ((n + 1) / 2, W). */
void orr_keys_pairs_along(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token,
                          int64_t n, float *to);
void orr_keys_pairs_across(const orr_block_math *lanes, const orr_head_rows *of, int64_t sample,
                           int64_t group, int64_t token, int64_t n, float *to);

#endif /* ORR_KERNEL_CPU_ATTENTION_BLOCKS_H */
