/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/parallel_for.h"
#include "store/store_state.h"

/* Rows one after another: resident shards when the store is opened; all rows to be saved, digested
 * or averaged. */

/* Queues the items of a job and waits until they have been read. */
static orr_status read_job(orr_store *store, orr_store_job *job, orr_error *err)
{
    orr_store_pending pending = {0};
    job->pending = &pending;
    orr_store_queue(store, job);
    pthread_mutex_lock(&store->signal);
    const orr_status status = orr_store_wait_pending(store, &pending, err);
    pthread_mutex_unlock(&store->signal);
    return status;
}

static orr_store_job *new_job(uint32_t shard, size_t items, orr_error *err)
{
    orr_store_job *job = orr_calloc(1, sizeof *job);
    if (job == NULL || !orr_array_reserve(&job->items, items)) {
        orr_free(job);
        (void)orr_fail_memory(err);
        return NULL;
    }
    job->shard = shard;
    return job;
}

/* --- resident shards ------------------------------------------------------------------------- */

enum { LOADED = 1 << 16, DRAWN = 256 }; /* rows: in a job; drawn by a body */

typedef struct drawing {
    const orr_store *store;
    uint32_t shard;
    int64_t first, n;
} drawing;

/* Initial values of rows that have no home, of a piece of DRAWN rows. */
static orr_status draw_piece(void *ctx, size_t index, orr_error *err)
{
    const drawing *d = ctx;
    const orr_store_options *o = &d->store->options;
    orr_cache_pool *pool = d->store->shards[d->shard].pool;
    const int64_t begin = d->first + (int64_t)index * DRAWN;
    const int64_t end = begin + DRAWN < d->first + d->n ? begin + DRAWN : d->first + d->n;
    char *record = orr_malloc((size_t)pool->row_bytes + pool->state_bytes + 1);
    if (record == NULL)
        return orr_fail_memory(err);
    for (int64_t row = begin; row < end; row++)
        if (pool->homes[row] == 0) {
            o->initial(o->ctx, d->shard, row, record);
            orr_cache_pool_put(pool, (uint32_t)row, record);
        }
    orr_free(record);
    return ORR_OK;
}

static orr_status load_piece(orr_store *store, uint32_t shard, int64_t first, int64_t n,
                             orr_error *err)
{
    const orr_store_shard_state *s = &store->shards[shard];
    drawing d = {.store = store, .shard = shard, .first = first, .n = n};
    orr_store_job *job = new_job(shard, (size_t)n, err);
    if (job == NULL)
        return ORR_NO_MEMORY;
    orr_row_file_lock(store->file);
    for (int64_t row = first; row < first + n; row++) {
        const orr_row_entry home = orr_store_entry(&s->entries[row]) & ORR_ROW_HOME_MASK;
        s->pool->homes[row] = home;
        orr_store_set_entry(&s->entries[row], ORR_ROW_RESIDENT | (uint32_t)row);
        if (home != 0)
            job->items.at[job->items.n++] =
                (orr_store_item){.home = home, .row = row, .slot = (uint32_t)row};
    }
    orr_row_file_unlock(store->file);
    orr_status status = ORR_OK;
    if (job->items.n < (size_t)n) {
        const int threads = store->has_thread ? 0 : 1;
        status = orr_parallel_for((size_t)((n + DRAWN - 1) / DRAWN), threads, draw_piece, &d, err);
    }
    const orr_status read = read_job(store, job, status == ORR_OK ? err : NULL);
    return status != ORR_OK ? status : read;
}

orr_status orr_store_load(orr_store *store, uint32_t shard, orr_error *err)
{
    const int64_t rows = store->shards[shard].facts->rows;
    store->shards[shard].pool->used = (uint32_t)rows;
    for (int64_t row = 0; row < rows; row += LOADED)
        ORR_TRY(load_piece(store, shard, row, rows - row < LOADED ? rows - row : LOADED, err));
    return ORR_OK;
}

/* --- scans ----------------------------------------------------------------------------------- */

static orr_status check_scan(const orr_store *store, const orr_store_scan *scan, orr_error *err)
{
    const int64_t rows = scan->shard < store->n_shards ? store->shards[scan->shard].facts->rows : 0;
    if (scan->first < 0 || scan->n < 0 || scan->first > rows || scan->n > rows - scan->first)
        return orr_fail(err, ORR_INVALID, "rows %lld to %lld of shard %u, which has %lld",
                        (long long)scan->first, (long long)(scan->first + scan->n), scan->shard,
                        (long long)rows);
    return ORR_OK;
}

orr_status orr_store_read(orr_store *store, const orr_store_scan *scan, orr_error *err)
{
    ORR_TRY(check_scan(store, scan, err));
    const orr_store_shard_state *s = &store->shards[scan->shard];
    const size_t record = (size_t)s->pool->row_bytes + s->pool->state_bytes;
    orr_store_job *job = new_job(scan->shard, (size_t)scan->n, err);
    if (job == NULL)
        return ORR_NO_MEMORY;
    job->records = scan->records;
    job->first = scan->first;
    for (int64_t i = 0; i < scan->n; i++) {
        const int64_t row = scan->first + i;
        char *to = scan->records + (size_t)i * record;
        orr_row_file_lock(store->file);
        const orr_row_entry entry = orr_store_entry(&s->entries[row]);
        const orr_row_entry home = entry & ORR_ROW_HOME_MASK;
        if (entry & ORR_ROW_RESIDENT)
            orr_cache_pool_get(s->pool, (uint32_t)entry, to);
        else if (home != 0)
            job->items.at[job->items.n++] = (orr_store_item){.home = home, .row = row};
        orr_row_file_unlock(store->file);
        if ((entry & ORR_ROW_RESIDENT) == 0 && home == 0)
            store->options.initial(store->options.ctx, scan->shard, row, to);
    }
    return read_job(store, job, err);
}

/* A row that is written: to its slot, or to a new place. Lock of the file. CANCELED: no place is
 * free yet. */
static orr_status write_row(orr_store *store, uint32_t shard, int64_t row, const char *record,
                            orr_error *err)
{
    const orr_store_shard_state *s = &store->shards[shard];
    orr_row_entry *at = &s->entries[row], home;
    const orr_row_entry entry = orr_store_entry(at);
    if (entry & ORR_ROW_RESIDENT) {
        const uint32_t slot = (uint32_t)entry;
        if (orr_cache_bit(s->pool->owed, slot))
            ORR_TRY(orr_store_write_back(store, s->pool, slot, err));
        orr_cache_pool_put(s->pool, slot, record);
        orr_cache_bit_set(s->pool->dirty, slot);
        return ORR_OK;
    }
    const char *state = s->pool->state_bytes > 0 ? record + s->pool->row_bytes : NULL;
    const orr_status status =
        orr_row_file_append(store->file, shard, row, record, state, false, &home, err);
    if (status == ORR_OK)
        orr_store_set_entry(at, (entry & ~ORR_ROW_HOME_MASK) | home);
    return status == ORR_LIMIT && orr_row_file_cleaning(store->file) ? ORR_CANCELED : status;
}

orr_status orr_store_write(orr_store *store, const orr_store_scan *scan, orr_error *err)
{
    enum { PIECE = 1024 }; /* rows before what was appended is written */
    ORR_TRY(check_scan(store, scan, err));
    const orr_cache_pool *pool = store->shards[scan->shard].pool;
    const size_t record = (size_t)pool->row_bytes + pool->state_bytes;
    for (int64_t i = 0; i < scan->n;) {
        orr_row_file_lock(store->file);
        const orr_status status =
            write_row(store, scan->shard, scan->first + i, scan->records + (size_t)i * record, err);
        orr_row_file_unlock(store->file);
        if (status == ORR_CANCELED) {
            ORR_TRY(orr_store_wait_places(store, err));
            continue;
        }
        ORR_TRY(status);
        if (++i % PIECE == 0 || i == scan->n)
            orr_store_kick(store);
    }
    return ORR_OK;
}
