/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "store/file/place.h"
#include "store/store_state.h"

/* The I/O thread: reads rows to slots, lets the row file write, finishes commits. Without a thread
 * its turns are made by who waits. */
enum {
    COALESCED = 32 << 10, /* bytes of a read that serves several rows, at most */
    COMPLETIONS = 64,
};
#define NONE ((uint32_t)ORR_CACHE_NO_SLOT)

/* --- a turn ---------------------------------------------------------------------------------- */

static orr_status submit(orr_store *store, orr_error *err)
{
    uint32_t n = 0;
    if (store->n_ready == 0)
        return ORR_OK;
    ORR_TRY(store->device->submit(store->device, store->ready, store->n_ready, &n, err));
    store->n_ready -= n;
    memmove(store->ready, store->ready + n, store->n_ready * sizeof *store->ready);
    return ORR_OK;
}

static void complete_other(void *ctx, const orr_block_completion *completion)
{
    orr_store_complete_read(ctx, (uint32_t)completion->tag, completion->error);
}

/* Takes what has completed, `least` requests at least: reads are the store's, others the file's. */
static orr_status reap(orr_store *store, uint32_t least, orr_error *err)
{
    orr_block_completion done[COMPLETIONS];
    uint32_t n = 0, files = 0;
    if (store->n_requests > store->n_ready || orr_row_file_in_flight(store->file) > 0)
        ORR_TRY(store->device->reap(store->device, least, done, COMPLETIONS, &n, err));
    for (uint32_t i = 0; i < n; i++)
        if (done[i].tag & ORR_ROW_FILE_TAG)
            done[files++] = done[i];
        else
            complete_other(store, &done[i]);
    ORR_TRY(submit(store, err)); /* first: the file may write as much as there is room for */
    return orr_row_file_pump(store->file, done, files, err);
}

/* What a commit still needs. *ret_more: there is more to write at once. */
static void go_on_committing(orr_store *store, bool *ret_more)
{
    orr_error err = {.status = ORR_OK};
    bool done = false;
    pthread_mutex_lock(&store->signal);
    const bool committing = store->committing;
    pthread_mutex_unlock(&store->signal);
    *ret_more = false;
    if (!committing)
        return;
    orr_status status = orr_store_write_owed(store, &done, &err);
    if (status == ORR_OK && !done) {
        *ret_more = true;
        return;
    }
    if (status == ORR_OK)
        status = orr_row_file_finish_commit(store->file, complete_other, store, &err);
    pthread_mutex_lock(&store->signal);
    if (status != ORR_OK)
        store->commit_error = err;
    store->committing = false;
    pthread_cond_broadcast(&store->progress);
    pthread_mutex_unlock(&store->signal);
}

/* Everything that can be done now. `block`: waits for a request when there is nothing else. */
static orr_status take_turn(orr_store *store, bool block, orr_error *err)
{
    bool more;
    orr_store_make_requests(store);
    ORR_TRY(submit(store, err));
    go_on_committing(store, &more);
    ORR_TRY(reap(store, block && !more ? 1 : 0, err));
    pthread_mutex_lock(&store->signal);
    if (store->starved > 0) {
        store->turns++;
        pthread_cond_broadcast(&store->progress);
    }
    pthread_mutex_unlock(&store->signal);
    return ORR_OK;
}

static void turn(orr_store *store, bool block)
{
    orr_error err;
    if (store->fatal.status != ORR_OK || take_turn(store, block, &err) == ORR_OK)
        return;
    pthread_mutex_lock(&store->signal);
    store->fatal = err;
    pthread_cond_broadcast(&store->progress);
    pthread_mutex_unlock(&store->signal);
}

static bool is_idle(const orr_store *store)
{
    return !store->kick && store->jobs == NULL && store->job == NULL && store->n_requests == 0 &&
           !store->committing && store->starved == 0 && orr_row_file_in_flight(store->file) == 0;
}

static void *io_thread(void *ctx)
{
    orr_store *store = ctx;
    pthread_mutex_lock(&store->signal);
    while (!store->stop) {
        if (store->fatal.status != ORR_OK || is_idle(store)) {
            pthread_cond_wait(&store->work, &store->signal);
            continue;
        }
        store->kick = false;
        pthread_mutex_unlock(&store->signal);
        turn(store, true);
        pthread_mutex_lock(&store->signal);
    }
    pthread_mutex_unlock(&store->signal);
    return NULL;
}

/* --- for others ------------------------------------------------------------------------------ */

static int by_home(const void *a_, const void *b_)
{
    const uint64_t mask = (UINT64_C(1) << ORR_ROW_PLACE_BITS) - 1;
    const uint64_t a = ((const orr_store_item *)a_)->home & mask;
    const uint64_t b = ((const orr_store_item *)b_)->home & mask;
    return (a > b) - (a < b);
}

static void free_job(orr_store_job *job)
{
    orr_array_done(&job->items);
    orr_free(job);
}

void orr_store_queue(orr_store *store, orr_store_job *job)
{
    const size_t n = job->items.n;
    if (n == 0) {
        free_job(job);
    } else {
        qsort(job->items.at, n, sizeof *job->items.at, by_home);
        job->left = n;
        pthread_mutex_lock(&store->signal);
        job->pending->rows += n;
        *store->jobs_end = job;
        store->jobs_end = &job->next;
        pthread_mutex_unlock(&store->signal);
    }
    orr_store_kick(store);
}

void orr_store_kick(orr_store *store)
{
    pthread_mutex_lock(&store->signal);
    store->kick = true;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->signal);
    if (!store->has_thread)
        turn(store, false);
}

void orr_store_wait_progress(orr_store *store)
{
    if (store->has_thread) {
        pthread_cond_wait(&store->progress, &store->signal);
        return;
    }
    pthread_mutex_unlock(&store->signal);
    turn(store, true);
    pthread_mutex_lock(&store->signal);
}

orr_status orr_store_check_fatal(const orr_store *store, orr_error *err)
{
    if (store->fatal.status != ORR_OK && err != NULL)
        *err = store->fatal;
    return store->fatal.status;
}

void orr_store_drain(orr_store *store, const orr_store_pending *pending)
{
    while (pending->rows > 0 && store->fatal.status == ORR_OK)
        orr_store_wait_progress(store);
}

orr_status orr_store_wait_pending(orr_store *store, const orr_store_pending *pending,
                                  orr_error *err)
{
    orr_store_drain(store, pending);
    if (pending->rows > 0)
        return orr_store_check_fatal(store, err);
    if (pending->failed && err != NULL)
        *err = store->read_error;
    return pending->failed ? store->read_error.status : ORR_OK;
}

orr_status orr_store_wait_places(orr_store *store, orr_error *err)
{
    pthread_mutex_lock(&store->signal);
    const uint64_t turns = store->turns;
    orr_status status = orr_store_check_fatal(store, err);
    store->starved++;
    pthread_cond_signal(&store->work);
    while (status == ORR_OK && store->turns == turns) {
        orr_store_wait_progress(store);
        status = orr_store_check_fatal(store, err);
    }
    store->starved--;
    pthread_mutex_unlock(&store->signal);
    return status;
}

/* --- opening and closing --------------------------------------------------------------------- */

static orr_status make_buffers(orr_store *store, orr_error *err)
{
    const orr_block_device *d = store->device;
    const size_t align = d->alignment > 64 ? d->alignment : 64;
    uint32_t record = 0;
    for (uint32_t i = 0; i < store->n_pools; i++)
        if (store->pools[i].row_bytes + store->pools[i].state_bytes > record)
            record = store->pools[i].row_bytes + store->pools[i].state_bytes;
    /* A record with its number and the hashes between, and what stands beside it in its sectors. */
    const uint64_t least = 2 * (uint64_t)record + 4 * (uint64_t)d->sector;
    store->depth = store->options.depth > 0 && store->options.depth < d->depth
                       ? store->options.depth
                       : d->depth;
    store->buffer_bytes = (uint32_t)((least > COALESCED ? least : COALESCED) + align - 1) /
                          (uint32_t)align * (uint32_t)align;
    const size_t bytes = (size_t)store->depth * store->buffer_bytes;
    store->record = orr_malloc_aligned(record + 1);
    store->requests = orr_calloc(store->depth, sizeof *store->requests);
    store->ready = orr_calloc(store->depth, sizeof *store->ready);
    store->buffers = orr_malloc_aligned(bytes + align);
    if (store->record == NULL || store->requests == NULL || store->ready == NULL ||
        store->buffers == NULL)
        return orr_fail_memory(err);
    char *at = store->buffers + (align - (uintptr_t)store->buffers % align) % align;
    store->unused = NONE;
    for (uint32_t i = store->depth; i-- > 0; store->unused = i) {
        store->requests[i].buffer = at + (size_t)i * store->buffer_bytes;
        store->requests[i].next = store->unused;
    }
    return d->use_memory != NULL ? d->use_memory(store->device, at, bytes, err) : ORR_OK;
}

orr_status orr_store_io_open(orr_store *store, orr_error *err)
{
    store->jobs_end = &store->jobs;
    ORR_TRY(make_buffers(store, err));
    if (pthread_mutex_init(&store->signal, NULL) != 0)
        return orr_fail_memory(err);
    pthread_cond_init(&store->work, NULL);
    pthread_cond_init(&store->progress, NULL);
    store->has_signal = true;
    if (store->options.inline_io)
        return ORR_OK;
    if (pthread_create(&store->thread, NULL, io_thread, store) != 0)
        return orr_fail(err, ORR_LIMIT, "the thread for input and output cannot be started");
    store->has_thread = true;
    return ORR_OK;
}

/* What has not been read when the store is closed will not be. */
static void drop_jobs(orr_store *store)
{
    for (uint32_t i = 0; i < store->depth && store->requests != NULL; i++)
        if (store->requests[i].job != NULL)
            orr_store_complete_read(store, i, ECANCELED);
    if (store->job != NULL)
        free_job(store->job);
    for (orr_store_job *job = store->jobs, *next; job != NULL; job = next) {
        next = job->next;
        free_job(job);
    }
}

void orr_store_io_close(orr_store *store)
{
    orr_error err;
    if (store->has_thread) {
        pthread_mutex_lock(&store->signal);
        store->stop = true;
        pthread_cond_signal(&store->work);
        pthread_mutex_unlock(&store->signal);
        pthread_join(store->thread, NULL);
    }
    if (store->has_signal) {
        /* Nobody waits any more; but the device may still write to the buffers. */
        while (store->n_requests > store->n_ready && reap(store, 1, &err) == ORR_OK)
            ;
        drop_jobs(store);
        pthread_mutex_destroy(&store->signal);
        pthread_cond_destroy(&store->work);
        pthread_cond_destroy(&store->progress);
    }
    orr_free(store->record);
    orr_free(store->requests);
    orr_free(store->ready);
    orr_free(store->buffers);
}
