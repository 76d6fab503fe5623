/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_STORE_STATE_H
#define ORR_STORE_STORE_STATE_H

#include <pthread.h>

#include "base/array.h"
#include "store/cache/pool.h"
#include "store/store.h"

/* What the files of the store share.
 *
 * Two locks, never held together:
 *   the row file's (orr_row_file_lock)  entries, pools, statistics of lookups
 *   `signal`                            jobs of the I/O thread, batches, commits, errors; with two
 *                                       conditions: `work` for the thread, `progress` for others
 *
 * An announced row goes: its entry becomes resident, its slot is pinned and has the home; a read of
 * it is queued; the I/O thread locates the home anew (cleaning may have moved it), reads, checks,
 * copies to the slot and counts down what its batch waits for. */

/* What is counted down to 0: rows of a batch or a scan that are still to be read. */
typedef struct orr_store_pending {
    uint64_t rows;
    bool failed; /* one of them could not be read: orr_store.read_error */
} orr_store_pending;

typedef struct orr_store_item {
    orr_row_entry home; /* when it was asked for, to sort by; in a request: where it is read from */
    int64_t row;
    uint32_t slot;   /* where the job has no records */
    uint32_t offset; /* in the buffer of its request */
} orr_store_item;

/* Rows of a shard that are to be read, in the order of the disk. */
typedef struct orr_store_job {
    struct orr_store_job *next;
    orr_store_pending *pending;
    uint32_t shard;
    char *records; /* of rows from `first` on; NULL: to slots */
    int64_t first;
    orr_array(orr_store_item) items;
    size_t taken, left; /* items in requests or done; not done */
} orr_store_job;

/* Sectors that are read at once, with the rows of some items of a job. */
typedef struct orr_store_request {
    char *buffer;
    orr_store_job *job;
    size_t first, n; /* items */
    uint64_t at;
    uint32_t bytes;
    uint32_t next; /* unused requests */
} orr_store_request;

/* Rows that a batch asked for, each once: in slots of the pool of a shard. */
typedef struct orr_store_segment {
    uint32_t shard;
    size_t end; /* in `slots` of the batch; begins at the end of the one before */
} orr_store_segment;
typedef struct orr_store_batch {
    uint64_t number;
    bool announced; /* and not ended */
    orr_store_pending pending;
    orr_array(orr_store_segment) segments;
    orr_array(uint32_t) slots;
} orr_store_batch;

typedef struct orr_store_shard_state {
    const orr_row_shard *facts;
    orr_cache_pool *pool;
    orr_row_entry *entries; /* shape (rows) */
    uint64_t lookups, hits, rows, row_hits;
    int64_t sweep;  /* entry whose frequency ages next */
    uint64_t aging; /* lookups for which none has aged yet */
} orr_store_shard_state;

struct orr_store {
    orr_store_options options;
    orr_block_device *device; /* the file's */
    orr_row_file *file;
    uint32_t n_shards, n_pools;
    orr_store_shard_state *shards; /* shape (n_shards) */
    orr_cache_pool *pools;         /* shape (n_pools), at most one a shard */
    char *record;                  /* room for the largest record; of who announces */
    orr_store_stats stats;         /* what is not counted elsewhere; under the file's lock */

    pthread_mutex_t signal;
    pthread_cond_t work, progress;
    bool has_signal, has_thread, stop, kick;
    uint32_t starved;   /* callers that wait for places of the row file */
    uint64_t turns;     /* of the I/O thread, counted while somebody is starved */
    pthread_t thread;
    orr_store_batch *batches; /* shape (window): batch b is b % window */
    uint64_t first, next;     /* batches first .. next - 1 have not ended */
    orr_store_job *jobs, **jobs_end;
    uint64_t demand_misses;
    int64_t stall_ns;
    uint64_t broken;             /* under the file's lock: slots whose rows could not be read */
    orr_error read_error, fatal; /* OK: none */
    bool committing;             /* from commit until it is durable or has failed */
    int64_t step;                /* of the commit */
    orr_error commit_error;      /* OK: none; else no commit is taken any more */
    bool writing; /* the commit has slots that are owed to it; under the file's lock */

    /* The I/O thread's own. */
    orr_store_job *job;           /* whose items are made requests */
    orr_store_request *requests;  /* shape (depth) */
    orr_block_request *ready;     /* made, not yet submitted; shape (depth) */
    uint32_t n_ready, n_requests; /* requests that were made and are not done */
    uint32_t depth, unused, buffer_bytes;
    char *buffers;
    uint32_t owed_pool, owed_word; /* how far owed slots have been written */
};

/* --- reads.c: by the I/O thread --------------------------------------------------------------- */

/* Makes requests of what is queued, as many as there is room for. */
void orr_store_make_requests(orr_store *store);
/* A request has completed. */
void orr_store_complete_read(orr_store *store, uint32_t request, int error);

/* --- io.c ------------------------------------------------------------------------------------ */

orr_status orr_store_io_open(orr_store *store, orr_error *err) ORR_MUST_CHECK;
void orr_store_io_close(orr_store *store);
/* Takes the job over, sorts its items and counts them to `pending`, then down as they are read. */
void orr_store_queue(orr_store *store, orr_store_job *job);
/* Something was appended or a commit has begun. */
void orr_store_kick(orr_store *store);
/* Waits, with `signal` held, for a change of anything under it; without a thread it makes requests
 * instead. */
void orr_store_wait_progress(orr_store *store);
/* The same until all rows of `pending` are there, or never will be; then fails with what failed. */
void orr_store_drain(orr_store *store, const orr_store_pending *pending);
orr_status orr_store_wait_pending(orr_store *store, const orr_store_pending *pending,
                                  orr_error *err) ORR_MUST_CHECK;
/* Waits, after an append that is worth trying again, until the I/O thread has cleaned some. */
orr_status orr_store_wait_places(orr_store *store, orr_error *err) ORR_MUST_CHECK;
/* An error after which the store does nothing any more, if there is one; `signal` held. */
orr_status orr_store_check_fatal(const orr_store *store, orr_error *err) ORR_MUST_CHECK;

/* --- scan.c ---------------------------------------------------------------------------------- */

/* Brings all rows of a resident shard to memory. */
orr_status orr_store_load(orr_store *store, uint32_t shard, orr_error *err) ORR_MUST_CHECK;

/* --- commit.c -------------------------------------------------------------------------------- */

/* Gives the row of a slot to the row file, if it has changed; the slot gets the new home. CANCELED:
 * no place is free, there will be (orr_store_wait_places); LIMIT: there will not. Lock of the file.
 */
orr_status orr_store_write_back(orr_store *store, orr_cache_pool *pool, uint32_t slot,
                                orr_error *err) ORR_MUST_CHECK;
/* Gives the row file some slots that are owed to the commit under way. *ret_done: none is left. By
 * the I/O thread, without locks. */
orr_status orr_store_write_owed(orr_store *store, bool *ret_done, orr_error *err) ORR_MUST_CHECK;

/* The record of a batch; NULL: it was not announced. */
static inline orr_store_batch *orr_store_batch_of(const orr_store *store, uint64_t batch)
{
    orr_store_batch *b = &store->batches[batch % store->options.window];
    return b->announced && b->number == batch ? b : NULL;
}
static inline orr_row_entry orr_store_entry(const orr_row_entry *entry)
{
    return __atomic_load_n(entry, __ATOMIC_RELAXED);
}
static inline void orr_store_set_entry(orr_row_entry *entry, orr_row_entry value)
{
    __atomic_store_n(entry, value, __ATOMIC_RELAXED);
}
/* A batch that is none, when it is added to one that is (of 32 bits). */
enum { ORR_STORE_OWNER_BITS = 48, ORR_STORE_NO_BATCH = 1u << 30 };
/* The shard and the row in a slot. */
static inline uint32_t orr_store_owner(const orr_cache_pool *pool, uint32_t slot, int64_t *ret_row)
{
    if (pool->identity) {
        *ret_row = slot;
        return pool->shard;
    }
    *ret_row = (int64_t)(pool->owner[slot] & ((UINT64_C(1) << ORR_STORE_OWNER_BITS) - 1));
    return (uint32_t)(pool->owner[slot] >> ORR_STORE_OWNER_BITS);
}

#endif /* ORR_STORE_STORE_STATE_H */
