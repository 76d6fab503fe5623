/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/workers.h"
#include "engine/train/trainer.h"

/* Digest of embedding tables, which does not depend on how they are sharded: the sum of a hash for
 * each ORR_EMBEDDING_BLOCK columns of each row, and for states of the whole row, whichever rank has
 * them. */

enum { PIECE_ROWS = 512, SCAN_ROWS = 8192 };

typedef enum part { NUMBERS, STATES, ROW_STATE } part;

typedef struct shard_digest {
    orr_row_store *store;
    const orr_embedding_shard *shard;
    int64_t first_row; /* of the table */
    uint32_t group;    /* of ranks that have all tables */
    _Atomic uint64_t sum;
} shard_digest;

static uint64_t of_part(const shard_digest *d, part what, int64_t row, int64_t column,
                        const void *data, int64_t bytes)
{
    const uint64_t place[] = {what, d->group, d->shard->table, (uint64_t)(d->first_row + row),
                              (uint64_t)column};
    return XXH3_64bits_withSeed(data, (size_t)bytes, XXH3_64bits(place, sizeof place));
}

static uint64_t of_columns(const shard_digest *d, part what, int64_t row, const char *data,
                           int64_t column_bytes)
{
    uint64_t sum = 0;
    for (int64_t c = 0; c < d->store->columns; c += ORR_EMBEDDING_BLOCK) {
        const int64_t left = d->store->columns - c,
                      n = left < ORR_EMBEDDING_BLOCK ? left : ORR_EMBEDDING_BLOCK;
        sum += of_part(d, what, row, d->shard->column_begin + c, data + c * column_bytes,
                       n * column_bytes);
    }
    return sum;
}

static uint64_t of_record(const shard_digest *d, int64_t row, const char *record, const char *state)
{
    const orr_row_store *s = d->store;
    const int64_t column_bytes = orr_row_format_bytes((orr_row_format)s->format, 1);
    const int64_t each = orr_row_optimizer_bytes((orr_row_optimizer)s->optimizer, s->columns);
    const int64_t of_numbers =
        s->optimizer == ORR_ROW_OPTIMIZER_ADAGRAD || s->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM
            ? s->columns * (int64_t)sizeof(float)
            : 0;
    uint64_t sum = of_columns(d, NUMBERS, row, record, column_bytes);
    if (of_numbers > 0)
        sum += of_columns(d, STATES, row, state, sizeof(float));
    if (each > of_numbers && d->shard->column_begin == 0)
        sum += of_part(d, ROW_STATE, row, 0, state + of_numbers, each - of_numbers);
    return sum;
}

static void digest_piece(void *ctx, size_t piece, int thread)
{
    shard_digest *d = ctx;
    const int64_t first = (int64_t)piece * PIECE_ROWS, end = first + PIECE_ROWS;
    uint64_t sum = 0;
    (void)thread;
    for (int64_t row = first; row < end && row < d->store->rows; row++)
        sum += of_record(d, row, d->store->base + row * d->store->record_bytes,
                         orr_row_store_state(d->store, row));
    atomic_fetch_add(&d->sum, sum);
}

/* Rows that are not all in memory, some at a time. */
static orr_status digest_records(shard_digest *d, orr_error *err)
{
    orr_row_store *s = d->store;
    const int64_t bytes = orr_row_store_bytes(s);
    char *records = orr_malloc((size_t)(SCAN_ROWS * bytes));
    orr_status status = records != NULL ? ORR_OK : orr_fail_memory(err);
    for (int64_t first = 0; first < s->rows && status == ORR_OK; first += SCAN_ROWS) {
        const int64_t n = s->rows - first < SCAN_ROWS ? s->rows - first : SCAN_ROWS;
        status = orr_row_store_read(s, first, n, records, err);
        for (int64_t i = 0; i < n && status == ORR_OK; i++)
            d->sum +=
                of_record(d, first + i, records + i * bytes, records + i * bytes + s->record_bytes);
    }
    orr_free(records);
    return status;
}

static orr_status digest_shard(shard_digest *d, orr_workers *workers, orr_error *err)
{
    if (d->store->read != NULL)
        return digest_records(d, err);
    orr_workers_run(workers, (size_t)((d->store->rows + PIECE_ROWS - 1) / PIECE_ROWS), digest_piece,
                    d);
    return ORR_OK;
}

orr_status orr_train_table_digest(const orr_trainer *t, uint64_t *ret, orr_error *err)
{
    const orr_tables *tables = orr_engine_step_tables(t->step);
    const orr_embedding_plan *plan = orr_engine_step_table_plan(t->step);
    const uint32_t rank = t->transport->rank % plan->ranks;
    *ret = 0;
    for (uint32_t i = 0; i < orr_tables_n_shards(tables); i++) {
        shard_digest d = {.group = t->transport->rank / plan->ranks};
        d.shard = orr_tables_shard(tables, i, &d.store);
        d.first_row =
            orr_embedding_range_begin(plan->tables[d.shard->table].rows, d.shard->range_begin);
        if (plan->placements[d.shard->table].sharding == ORR_SHARDING_DATA && rank != 0)
            continue; /* every rank has it */
        ORR_TRY(digest_shard(&d, t->workers, err));
        *ret += d.sum;
    }
    return ORR_OK;
}
