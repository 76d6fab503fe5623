/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_ATTENTION_BLOCKS_H
#define ORR_KERNEL_CPU_ATTENTION_BLOCKS_H

#include <orrery/kernel.h>

#include "kernel/cpu/simd/block_math.h"

/* What attention forward and backward have in common: q, k, v and the like seen as rows, which of
 * them meet, and blocks of them in scratch.
 *
 * Heads that share keys stand together: row r of sample b and head of keys g is token r / share of
 * head g * share + r % share. A block of rows is the lanes of lanes.h. */
typedef struct orr_head_rows {
    char *data; /* NULL: an output that no one wants */
    orr_dtype dtype;
    int64_t sample, token, head, column; /* bytes from one to the next */
    int64_t width;
} orr_head_rows;
/* Of an operand (B, S, H, W). */
orr_head_rows orr_head_rows_of(const orr_operand *operand);

typedef struct orr_attention_problem {
    const orr_kernel_call *call;
    const orr_block_math *lanes;
    orr_head_rows q, k, v;
    int64_t batch, queries, keys, heads, groups, share, width, value_width;
    int64_t rows;   /* queries * share: of a sample and a head of keys */
    int64_t block;  /* rows of a block, and keys of a block: ORR_BLOCK_LANES, fewer where heads are
                       wide */
    int64_t blocks; /* of rows */
    float scale;    /* 1 / sqrt(D) */
    bool pairs;     /* of bf16, as they are in memory */
} orr_attention_problem;
enum {
    ORR_QUERY_BLOCK_FLOATS = 64 * 256, /* numbers of a block of rows in scratch */
    ORR_HEAD_WIDTH_MAX = 1024          /* the widest: blocks of 16              */
};
/* q, k, v are inputs `first` and the two after it. INVALID: a sample has more keys than there is
 * room; UNSUPPORTED: heads wider than ORR_HEAD_WIDTH_MAX. */
orr_status orr_attention_problem_of(const orr_kernel_call *call, uint32_t first,
                                    orr_attention_problem *ret, orr_error *err) ORR_MUST_CHECK;

/* Position of the sample's first query, and how many keys it has. */
int64_t orr_attention_first_position(const orr_attention_problem *h, int64_t sample);
int64_t orr_attention_key_count(const orr_attention_problem *h, int64_t sample);

/* A block of `n` rows from `row` on; lanes: n rounded up to a whole vector; rows beyond n see what
 * the first one sees. The keys that any row sees lie in [begin, end). */
typedef struct orr_query_block {
    int64_t sample, group, row, n, lanes, begin, end;
    int64_t least[ORR_BLOCK_LANES],
        last[ORR_BLOCK_LANES]; /* keys that a lane sees: [least, last) */
} orr_query_block;
orr_query_block orr_query_block_of(const orr_attention_problem *h, int64_t sample, int64_t group,
                                   int64_t number);
/* The keys [key, key + n) of `score` that a lane does not see become `hidden`. */
void orr_attention_mask_scores(const orr_attention_problem *h, const orr_query_block *b,
                               int64_t key, int64_t n, float *score, float hidden);

/* Rows of a block, in fp32, `to_row` apart, and back. */
void orr_attention_read_rows(const orr_attention_problem *h, const orr_head_rows *of,
                             const orr_query_block *b, float *to, int64_t to_row);
void orr_attention_write_rows(const orr_attention_problem *h, const orr_head_rows *of,
                              const orr_query_block *b, const float *from, int64_t from_row);
/* The same with lanes: (W, lanes); of pairs ((W + 1) / 2, lanes). `room`: ORR_QUERY_BLOCK_FLOATS
 * numbers. */
void orr_attention_read_transposed(const orr_attention_problem *h, const orr_head_rows *of,
                                   const orr_query_block *b, bool pairs, float *room, float *to);

/* Tokens [token, token + n) of a head of keys, in fp32, `to_row` apart, and back. */
void orr_keys_read(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token, int64_t n,
                   float *to, int64_t to_row);
void orr_keys_write(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token,
                    int64_t n, const float *from, int64_t from_row);
/* As pairs of bf16: of columns 2i and 2i + 1, (n, (W + 1) / 2); of tokens, ((n + 1) / 2, W). */
void orr_keys_pairs_along(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token,
                          int64_t n, float *to);
void orr_keys_pairs_across(const orr_block_math *lanes, const orr_head_rows *of, int64_t sample,
                           int64_t group, int64_t token, int64_t n, float *to);

#endif /* ORR_KERNEL_CPU_ATTENTION_BLOCKS_H */
