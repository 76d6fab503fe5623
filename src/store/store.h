/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_STORE_H
#define ORR_STORE_STORE_H

#include "store/cache/policy.h"
#include "store/file/row_file.h"

/* Rows of one rank's shards that live on a device, with a cache of rows in memory: what training
 * reaches rows through. Batches are numbered from 0 on; each passes announce, wait, change (where
 * it updates) and end, each of these in the order of batches; announce may be in a thread of its
 * own and ahead of the others. The bits of rows are those that all rows in memory would have.
 *
 * Cache: slots of one record size make a pool, any row may have any slot of its pool. Rows of
 * batches that were announced and have not ended are never evicted, so a batch that was announced
 * is there when it is waited for; of the others the policy evicts. */

/* Numbers of rows that were never written: row and state, as a record. Any thread. */
typedef void orr_row_initial(void *ctx, uint32_t shard, int64_t row, void *ret_record);

typedef struct orr_store_options {
    uint64_t cache_bytes; /* of all pools: slots and their bookkeeping; without resident shards */
    /* Shape (n_shards): rows of each shard that are expected in the cache, by which memory is
     * divided among pools; NULL: by the bytes of shards. */
    const double *cached_rows;
    /* shape (n_shards): rows that are all kept in memory, slot k is row k. They are read when the
     * store is opened and written where they have changed, by commits alone. NULL: none. */
    const bool *resident;
    orr_cache_policy policy;
    orr_row_writes writes;
    bool durable;
    bool inline_io; /* no thread: requests are made by callers (simulation) */
    bool huge_pages;
    uint32_t depth;  /* reads in flight; 0: as the device */
    uint32_t window; /* batches that may be announced and not ended, at most */
    orr_row_initial *initial;
    void *ctx;
} orr_store_options;

typedef struct orr_store orr_store;
/* As orr_row_file_create() and orr_row_file_open(). LIMIT: too small a cache ("needs at least N").
 */
orr_status orr_store_create(orr_block_device *device, const orr_row_file_facts *facts,
                            const orr_store_options *options, orr_store **ret,
                            orr_error *err) ORR_MUST_CHECK;
orr_status orr_store_open(orr_block_device *device, const orr_row_file_facts *facts, int64_t step,
                          const orr_store_options *options, orr_store **ret,
                          orr_error *err) ORR_MUST_CHECK;
void orr_store_close(orr_store *store); /* uncommitted rows are lost; NULL is allowed */

/* Slots of a shard: row k of the cache is at rows + k * row_bytes, its state at states + k *
 * state_bytes. Addresses never change. */
typedef struct orr_store_slots {
    char *rows, *states;
    int64_t n, row_bytes, state_bytes;
    const uint64_t *owner; /* shape (n): row of the shard in the slot, in the low 48 bits; NULL
                            * where `resident` */
    bool resident;         /* slot k is row k */
} orr_store_slots;
orr_store_slots orr_store_slots_of(const orr_store *store, uint32_t shard);

/* The lookups of a batch in one shard: pins their rows until the batch ends, begins to read those
 * that are missing, and gives the slot of each. Ids are rows of the shard, from 0. `batch`: that of
 * the call before, or the next. LIMIT: the rows of this batch alone do not fit the cache, and how
 * much would do. Waits where rows of earlier batches, which have not ended, leave no room, and
 * where `window` batches have not ended (LIMIT where requests are made by callers). */
orr_status orr_store_announce(orr_store *store, uint64_t batch, uint32_t shard, const int64_t *ids,
                              int64_t n, uint32_t *ret_slots, orr_error *err) ORR_MUST_CHECK;
/* Waits until all rows of a batch are there. Rows that were not are demand misses, and the time is
 * a stall. IO, PARSE: a row could not be read, which. */
orr_status orr_store_wait(orr_store *store, uint64_t batch, orr_error *err) ORR_MUST_CHECK;
/* Before rows of a batch are changed: those that a commit still has to write are put aside. */
orr_status orr_store_change(orr_store *store, uint64_t batch, orr_error *err) ORR_MUST_CHECK;
/* The batch needs its rows no more. `changed`: all its rows were changed. */
void orr_store_end(orr_store *store, uint64_t batch, bool changed);
/* Ends batches that were announced and will not be computed, from `batch` on. */
void orr_store_forget(orr_store *store, uint64_t batch);

/* Between steps, no batch changing: rows are now those of `step`. Returns at once; what has changed
 * since the last commit is written while training goes on. Errors: of the commit before. */
orr_status orr_store_commit(orr_store *store, int64_t step, orr_error *err) ORR_MUST_CHECK;
/* Waits until it is durable. */
orr_status orr_store_committed(orr_store *store, int64_t *ret_step, orr_error *err) ORR_MUST_CHECK;
/* Commits before `step` are not needed any more. */
void orr_store_settle(orr_store *store, int64_t step);

/* Rows first .. first + n - 1 of a shard, as records (row, then state), in the order of the disk
 * where they are read: to save, to digest, to average. No batch is announced. `change`: they are
 * written back. */
typedef struct orr_store_scan {
    uint32_t shard;
    int64_t first, n;
    char *records; /* shape (n, row_bytes + state_bytes) */
} orr_store_scan;
orr_status orr_store_read(orr_store *store, const orr_store_scan *scan,
                          orr_error *err) ORR_MUST_CHECK;
orr_status orr_store_write(orr_store *store, const orr_store_scan *scan,
                           orr_error *err) ORR_MUST_CHECK;

typedef struct orr_store_stats {
    /* Lookups in shards that are not resident; of them: rows that were in memory or asked for
     * before. */
    uint64_t lookups, hits;
    uint64_t rows, row_hits;    /* the same of distinct rows of batches */
    uint64_t reads, read_bytes; /* requests of the device */
    uint64_t drawn;             /* rows with initial values, which need no reading */
    uint64_t demand_misses;     /* rows that were not there when their batch was waited for */
    int64_t stall_ns;
    uint64_t evictions, written_back;
    uint64_t cache_slots, cache_used;
    orr_row_file_stats file;
} orr_store_stats;
orr_store_stats orr_store_stats_of(orr_store *store);
orr_store_stats orr_store_shard_stats(orr_store *store, uint32_t shard); /* lookups to row_hits */

#endif /* ORR_STORE_STORE_H */
