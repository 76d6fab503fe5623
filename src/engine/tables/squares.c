/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/workers.h"
#include "engine/tables/tables_state.h"

/* Sums of squares of rows whose columns are on several ranks. Blocks of columns are summed as a
 * binary tree over their numbers, so that a shard sends the sums of the fewest subtrees that its
 * blocks make, an array of rows for each; all arrays together are then joined to the root. */
enum { PIECE_ROWS = 4096 };

typedef struct square_sum {
    const orr_tables_entry *entry;
    const float *squares; /* shape (rows, blocks): of this rank */
    int64_t rows;
    uint32_t blocks;
    const orr_range_subtree *subtrees; /* of all peers, by column */
    uint32_t n, own, n_own;            /* subtrees; the first of this rank, and how many */
    float *sums;                       /* shape (n, rows) */
    float *ret;                        /* shape (rows) */
} square_sum;

static int64_t piece_end(const square_sum *s, size_t piece)
{
    const int64_t end = (int64_t)(piece + 1) * PIECE_ROWS;
    return end < s->rows ? end : s->rows;
}

static void sum_own(void *ctx, size_t piece, int thread)
{
    const square_sum *s = ctx;
    const uint32_t first = s->entry->shard->column_begin / ORR_EMBEDDING_BLOCK;
    (void)thread;
    for (uint32_t i = s->own; i < s->own + s->n_own; i++) {
        const uint32_t at = s->subtrees[i].begin - first, left = s->blocks - at,
                       n = s->subtrees[i].count < left ? s->subtrees[i].count : left;
        for (int64_t row = (int64_t)piece * PIECE_ROWS; row < piece_end(s, piece); row++)
            s->sums[i * s->rows + row] = orr_sum_blocks(s->squares + row * s->blocks + at, n);
    }
}

/* Joins neighbouring subtrees as soon as both are there. */
static void join_piece(void *ctx, size_t piece, int thread)
{
    const square_sum *s = ctx;
    const int64_t begin = (int64_t)piece * PIECE_ROWS, n = piece_end(s, piece) - begin;
    orr_range_subtree stack[ORR_TABLES_BLOCK_SUBTREES];
    float *at[ORR_TABLES_BLOCK_SUBTREES];
    uint32_t top = 0;
    (void)thread;
    for (uint32_t i = 0; i < s->n; i++) {
        stack[top] = s->subtrees[i];
        at[top++] = s->sums + i * s->rows + begin;
        for (; top > 1 && stack[top - 2].count == stack[top - 1].count; top--) {
            for (int64_t row = 0; row < n; row++)
                at[top - 2][row] += at[top - 1][row];
            stack[top - 2].count *= 2;
        }
    }
    memcpy(s->ret + begin, at[0], (size_t)n * sizeof(float));
}

static orr_status gather(orr_tables *t, const square_sum *s, uint32_t n_peers, int64_t *sent,
                         orr_error *err)
{
    const size_t array_bytes = (size_t)s->rows * sizeof(float);
    uint32_t me = 0;
    while (t->peers[me] != s->entry)
        me++;
    for (uint32_t k = 1; k < n_peers; k++) {
        const uint32_t to = (me + k) % n_peers, from = (me + n_peers - k) % n_peers;
        const uint32_t first = t->first_subtree[from], n = t->first_subtree[from + 1] - first;
        const orr_tables_message m = {.to = t->peers[to]->shard->rank,
                                      .from = t->peers[from]->shard->rank,
                                      .out = s->sums + s->own * s->rows,
                                      .in = s->sums + first * s->rows,
                                      .out_bytes = array_bytes * s->n_own,
                                      .in_bytes = array_bytes * n};
        ORR_TRY(orr_tables_send_receive(t, 1, &m, sent, err));
    }
    return ORR_OK;
}

orr_status orr_tables_sum_squares(void *ctx, const float *squares, int64_t rows, uint32_t blocks,
                                  float *ret, orr_error *err)
{
    const orr_tables_square_sum *of = ctx;
    orr_tables *t = of->t;
    square_sum s = {.entry = of->entry,
                    .squares = squares,
                    .rows = rows,
                    .blocks = blocks,
                    .subtrees = t->block_subtrees,
                    .ret = ret};
    const size_t pieces = (size_t)((rows + PIECE_ROWS - 1) / PIECE_ROWS);
    for (uint32_t i = 0; i < of->n_peers; i++) {
        const uint32_t n =
            orr_tables_block_subtrees(&t->layout, t->peers[i], t->block_subtrees + s.n);
        t->first_subtree[i] = s.n;
        if (t->peers[i] == of->entry) {
            s.own = s.n;
            s.n_own = n;
        }
        s.n += n;
    }
    t->first_subtree[of->n_peers] = s.n;
    ORR_TRY(orr_tables_reserve(t, &t->squares, (size_t)rows * s.n * sizeof(float), err));
    s.sums = t->squares.at;
    orr_workers_run(t->source.workers, pieces, sum_own, &s);
    ORR_TRY(gather(t, &s, of->n_peers, of->sent, err));
    orr_workers_run(t->source.workers, pieces, join_piece, &s);
    return ORR_OK;
}
