/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_EMBEDDING_SHARDED_TABLE_H
#define ORR_KERNEL_CPU_EMBEDDING_SHARDED_TABLE_H

#include <orrery/embedding.h>
#include <orrery/kernel.h>

/* Lookups in one shard of an embedding table and their update, so that the bits do not depend on
 * how the table is sharded (include/orrery/embedding.h), nor on threads. */

/* Rows of a shard and their optimizer state, in slots of memory: slot k has its row at base + k *
 * record_bytes, its state at states + k * state_bytes. In memory slot k is row k; where only some
 * rows are in memory (a row cache) lookups tell the slots of their rows. */
typedef struct orr_row_store orr_row_store;
struct orr_row_store {
    int64_t rows, columns;
    uint8_t format, optimizer; /* orr_row_format, orr_row_optimizer */
    int64_t record_bytes, state_bytes;
    char *base, *states; /* states: NULL where they have no bytes */
    /* A row cache: */
    int64_t slots;
    const uint64_t *owner; /* shape (slots): the row in each, in the low 48 bits */
    /* NULL where all rows are in memory. */
    orr_status (*read)(orr_row_store *self, int64_t first, int64_t n, char *records,
                       orr_error *err);
    orr_status (*write)(orr_row_store *self, int64_t first, int64_t n, const char *records,
                        orr_error *err);
    void *ctx;
};
/* The state of the row in a slot; NULL: it has none. */
static inline char *orr_row_store_state(const orr_row_store *store, int64_t slot)
{
    return store->states != NULL ? store->states + slot * store->state_bytes : NULL;
}
/* Rows first .. first + n - 1 as records: row, then state, orr_row_store_bytes() each. Of a row
 * cache while no lookups are under way. IO, PARSE: a row that cannot be read. */
int64_t orr_row_store_bytes(const orr_row_store *store);
orr_status orr_row_store_read(orr_row_store *store, int64_t first, int64_t n, char *records,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_row_store_write(orr_row_store *store, int64_t first, int64_t n, const char *records,
                               orr_error *err) ORR_MUST_CHECK;

/* The lookups of one step in a shard, by sample. */
typedef struct orr_shard_lookups {
    orr_row_store *store;
    const orr_embedding_shard *shard;
    int64_t table_rows, first_row; /* of the whole table; of the shard */
    int64_t samples, n;
    const int32_t *lengths; /* shape (samples) */
    const int64_t *ids;     /* shape (n): rows of the shard, from 0; checked before */
    const uint32_t *slots;  /* shape (n): where their rows are; NULL: slot k is row k */
} orr_shard_lookups;

/* Subtrees of ORR_EMBEDDING_RANGES that a shard sums: the fewest aligned ones, ascending. */
typedef struct orr_range_subtree {
    uint32_t begin, count; /* count: a power of two that divides begin */
} orr_range_subtree;
enum { ORR_SHARD_SUBTREES_MAX = 16 };
uint32_t orr_shard_subtrees(const orr_embedding_shard *shard,
                            orr_range_subtree ret[ORR_SHARD_SUBTREES_MAX]);

/* Sums of each sample's bag over each subtree of the shard: of sample s from ret + s * ret_stride
 * on, shape (subtrees, columns of the shard), fp32; 0 where nothing was looked up. UNSUPPORTED:
 * rows of Q8_0, Q4_0. */
orr_status orr_shard_bag_sums(const orr_shard_lookups *lookups, float *ret, int64_t ret_stride,
                              void *workspace, orr_workers *workers, orr_error *err) ORR_MUST_CHECK;
/* Bytes of workspace, aligned to 64; without `lengths`, for bags of up to twice their mean. */
size_t orr_shard_bag_bytes(const orr_shard_lookups *lookups, const orr_workers *workers);
/* The bag from the sums of subtrees of all shards of its rows: `parts`, shape (n): in ascending
 * order, addresses of `columns` numbers each; together they cover the tree. */
void orr_join_subtrees(const orr_range_subtree *subtrees, const float *const *parts, uint32_t n,
                       int64_t columns, float *ret);

/* Update of one shard from the gradients of bags. */
typedef struct orr_shard_update {
    const orr_shard_lookups *lookups;
    const float *gradient; /* of sample s: gradient + s * gradient_stride; the shard's columns */
    int64_t gradient_stride;
    const orr_update *by;
    uint64_t seed; /* of stochastic rounding, with table, row, column and step */
    /* Where columns of a row are on several ranks, and its optimizer needs the mean square of the
     * whole row: called once with squares, shape (rows that were looked up, ascending; blocks of
     * the shard), to give `ret`, shape (rows): sums over the blocks of all columns by
     * orr_sum_blocks(). NULL: all columns are here. Not called where the optimizer needs none. */
    int64_t table_columns; /* of the whole table */
    orr_status (*sum_squares)(void *ctx, const float *squares, int64_t rows, uint32_t blocks,
                              float *ret, orr_error *err);
    void *ctx;
} orr_shard_update;
/* Sum of the squares of a row's blocks, as a binary tree over their numbers. */
float orr_sum_blocks(const float *squares, uint32_t blocks);
enum { ORR_SHARD_UPDATE_COLUMNS = 1024 };                      /* of a shard, at most */
size_t orr_shard_update_bytes(const orr_shard_update *update); /* of workspace, aligned to 64 */
/* One pass from the gradients of bags: lookups are sorted by row, then sample; each row's gradients
 * are summed and the row is updated. UNSUPPORTED: rows of INT8, INT4; more columns; 2^32 lookups.
 */
orr_status orr_shard_update_run(const orr_shard_update *update, void *workspace,
                                orr_workers *workers, orr_error *err) ORR_MUST_CHECK;

/* Vectors of `columns` numbers to and from orr_embedding_codec; of 16 and 8 bits rounded to
 * nearest. `bytes` between vectors: orr_embedding_codec_bytes(). Error of a number x of a vector
 * whose largest magnitude is m, once there and back:
 *
 *   FP16  2^-11 |x|, below 2^-14: 2^-25; magnitudes from 65520 on become infinite
 *   BF16  2^-8 |x|
 *   INT8  half a step, m / 254, and 2^-20 m for what the scale is rounded; of finite numbers */
void orr_codec_encode(orr_embedding_codec codec, const float *from, int64_t n, int64_t columns,
                      int64_t from_stride, void *to);
void orr_codec_decode(orr_embedding_codec codec, const void *from, int64_t n, int64_t columns,
                      float *to, int64_t to_stride);

#endif /* ORR_KERNEL_CPU_EMBEDDING_SHARDED_TABLE_H */
