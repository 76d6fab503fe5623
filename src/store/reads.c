/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "store/store_state.h"

/* Rows from the device to where they are wanted: requests are made of the items of jobs, in the
 * order of the disk. */
enum { REQUESTS = 64 }; /* made before others may have the lock of the file */
#define NONE ((uint32_t)ORR_CACHE_NO_SLOT)

/* Where a row lives now. Lock of the file. */
static orr_row_entry home_of(const orr_store *store, uint32_t shard, int64_t row)
{
    const orr_store_shard_state *s = &store->shards[shard];
    const orr_row_entry entry = orr_store_entry(&s->entries[row]);
    return (entry & ORR_ROW_RESIDENT) != 0 ? *orr_cache_pool_home(s->pool, (uint32_t)entry)
                                           : entry & ORR_ROW_HOME_MASK;
}

/* Copies a row that was read to where the job wants it. */
static orr_status deliver(const orr_store *store, const orr_store_job *job,
                          const orr_store_item *item, const void *sectors, orr_error *err)
{
    const orr_cache_pool *pool = store->shards[job->shard].pool;
    const size_t record = (size_t)pool->row_bytes + pool->state_bytes;
    char *const to = job->records != NULL ? job->records + (size_t)(item->row - job->first) * record
                                          : orr_cache_pool_row(pool, item->slot);
    char *const state =
        job->records != NULL ? to + pool->row_bytes : orr_cache_pool_state(pool, item->slot);
    return orr_row_file_check(store->file, job->shard, item->row, item->home, sectors, to,
                              pool->state_bytes > 0 ? state : NULL, err);
}

/* So many rows of a job are done; the job too when they were the last. */
static void count_down(orr_store *store, orr_store_job *job, size_t n)
{
    pthread_mutex_lock(&store->signal);
    job->pending->rows -= n;
    if (job->pending->rows == 0)
        pthread_cond_broadcast(&store->progress);
    pthread_mutex_unlock(&store->signal);
    job->left -= n;
    if (job->left == 0) {
        orr_array_done(&job->items);
        orr_free(job);
    }
}

/* A row could not be read: its batch fails, and so do others that have asked for it meanwhile. */
static void fail_row(orr_store *store, orr_store_job *job, const orr_store_item *item,
                     const orr_error *why)
{
    orr_cache_pool *pool = store->shards[job->shard].pool;
    if (job->records == NULL && !pool->identity) {
        orr_row_file_lock(store->file);
        pool->slots[item->slot].broken = true;
        store->broken++;
        orr_row_file_unlock(store->file);
    }
    pthread_mutex_lock(&store->signal);
    job->pending->failed = true;
    if (store->read_error.status == ORR_OK)
        store->read_error = *why;
    pthread_mutex_unlock(&store->signal);
}

/* The row has moved while it was read. */
static bool read_again(orr_store *store, const orr_store_job *job, const orr_store_item *item)
{
    orr_row_file_lock(store->file);
    const bool moved = home_of(store, job->shard, item->row) != item->home;
    orr_row_file_unlock(store->file);
    orr_store_job *again = moved ? orr_calloc(1, sizeof *again) : NULL;
    if (again == NULL || !orr_array_push(&again->items, *item)) {
        orr_free(again);
        return false;
    }
    again->pending = job->pending;
    again->shard = job->shard;
    again->records = job->records;
    again->first = job->first;
    again->left = 1;
    pthread_mutex_lock(&store->signal);
    again->next = store->jobs;
    store->jobs = again;
    if (again->next == NULL)
        store->jobs_end = &again->next;
    pthread_mutex_unlock(&store->signal);
    return true;
}

void orr_store_complete_read(orr_store *store, uint32_t number, int error)
{
    orr_store_request *r = &store->requests[number];
    orr_store_job *job = r->job;
    size_t again = 0;
    for (size_t i = r->first; i < r->first + r->n; i++) {
        const orr_store_item *item = &job->items.at[i];
        orr_error err;
        if (error != 0) {
            (void)orr_fail(&err, ORR_IO, "table %s, row %lld: it cannot be read: %s",
                           store->shards[job->shard].facts->table,
                           (long long)(store->shards[job->shard].facts->first_row + item->row),
                           strerror(error));
            fail_row(store, job, item, &err);
        } else if (deliver(store, job, item, r->buffer + item->offset, &err) != ORR_OK) {
            if (read_again(store, job, item))
                again++;
            else
                fail_row(store, job, item, &err);
        }
    }
    const size_t n = r->n - again;
    r->job = NULL;
    r->next = store->unused;
    store->unused = number;
    store->n_requests--;
    job->left -= again; /* they are of another job now */
    count_down(store, job, n);
}

/* Adds the next items of the job to a request, as far as their sectors are its own or follow. Lock
 * of the file. */
static void extend_request(orr_store *store, orr_store_request *r)
{
    orr_store_job *job = r->job;
    for (; job->taken < job->items.n; job->taken++, r->n++) {
        orr_store_item *item = &job->items.at[job->taken];
        const orr_row_entry home = home_of(store, job->shard, item->row);
        const orr_row_read read = orr_row_file_locate(store->file, job->shard, home);
        const uint64_t end = read.at + read.bytes;
        if (read.data != NULL || read.at < r->at || read.at > r->at + r->bytes ||
            end > r->at + store->buffer_bytes)
            return;
        item->home = home;
        item->offset = (uint32_t)(read.at - r->at);
        if (end > r->at + r->bytes)
            r->bytes = (uint32_t)(end - r->at);
    }
}

/* Makes a request of the next items, or serves one that is still in memory. Lock of the file. */
static void take_items(orr_store *store, orr_store_job *job, size_t *ret_served)
{
    orr_store_item *item = &job->items.at[job->taken];
    item->home = home_of(store, job->shard, item->row);
    const orr_row_read read = orr_row_file_locate(store->file, job->shard, item->home);
    if (read.data != NULL) { /* written, and not yet on its way to the device */
        orr_error err;
        job->taken++;
        ++*ret_served;
        if (deliver(store, job, item, read.data, &err) != ORR_OK) {
            orr_row_file_unlock(store->file);
            fail_row(store, job, item, &err);
            orr_row_file_lock(store->file);
        }
        return;
    }
    const uint32_t number = store->unused;
    orr_store_request *r = &store->requests[number];
    store->unused = r->next;
    r->job = job;
    r->first = job->taken;
    r->n = 0;
    r->at = read.at;
    r->bytes = read.bytes;
    extend_request(store, r);
    store->stats.reads++;
    store->stats.read_bytes += r->bytes;
    store->n_requests++;
    store->ready[store->n_ready++] = (orr_block_request){.operation = ORR_BLOCK_READ,
                                                         .bytes = r->bytes,
                                                         .at = r->at,
                                                         .data = r->buffer,
                                                         .tag = number};
}

/* The job whose items are next; NULL: none. */
static orr_store_job *current_job(orr_store *store)
{
    if (store->job == NULL) {
        pthread_mutex_lock(&store->signal);
        store->job = store->jobs;
        if (store->job != NULL)
            store->jobs = store->job->next;
        if (store->jobs == NULL)
            store->jobs_end = &store->jobs;
        pthread_mutex_unlock(&store->signal);
    }
    return store->job;
}

void orr_store_make_requests(orr_store *store)
{
    for (orr_store_job *job; store->unused != NONE && (job = current_job(store)) != NULL;) {
        size_t served = 0;
        orr_row_file_lock(store->file);
        for (int i = 0; i < REQUESTS && store->unused != NONE && job->taken < job->items.n; i++)
            take_items(store, job, &served);
        orr_row_file_unlock(store->file);
        if (job->taken == job->items.n)
            store->job = NULL;
        if (served > 0)
            count_down(store, job, served);
    }
}
