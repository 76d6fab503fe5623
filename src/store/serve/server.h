/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_SERVE_SERVER_H
#define ORR_STORE_SERVE_SERVER_H

#include <pthread.h>

#include "store/serve/rate_cap.h"
#include "store/serve/recording.h"
#include "store/serve/snapshot.h"

/* The parts of a server and of its readers, for the sources of this folder. */

/* What a reader has counted, of one table: written by its thread alone, read by any. */
typedef struct orr_reader_counts {
    _Atomic uint64_t lookups, hits, pooled_lookups, pooled_hits, pooled_rows_saved;
    _Atomic uint64_t reads, read_bytes, throttled;
} orr_reader_counts;
static inline void orr_count(_Atomic uint64_t *count, uint64_t n)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

struct orr_row_server {
    orr_row_server_options options;
    const orr_clock *clock;
    orr_epochs epochs;
    _Atomic(orr_row_snapshot *) snapshot;
    uint32_t n_tables;
    orr_rate_cap device_cap, *table_caps; /* shape (n_tables) */
    _Atomic(orr_recording *) recording;

    pthread_mutex_t readers_lock; /* of the list and of `left` */
    struct orr_row_reader *readers;
    orr_row_server_stats *left; /* shape (n_tables + 1): of readers that have closed; last: all */

    /* Of the writer. */
    int participant;
    orr_slot_stock *stocks; /* shape (pools of the snapshot) */
    orr_row_snapshot *next; /* that is prepared, or NULL; and its stocks */
    orr_slot_stock *next_stocks;
    uint64_t random;
    int64_t settle_step; /* waits for readers; -1: none */
    uint64_t settle_stamp;
    _Atomic uint64_t swaps, *updates; /* shape (n_tables) */
    _Atomic uint64_t bytes_written;
};

/* A bag that is being made. */
typedef struct orr_served_bag {
    uint32_t item, first, n; /* which orr_row_bags; its rows in `rows` */
    bool keep;               /* in the cache of pooled embeddings */
    int64_t sample;
    uint64_t hash;
} orr_served_bag;

/* A row that was not in the cache. */
typedef struct orr_row_miss {
    uint64_t entry; /* as it was */
    uint64_t at;    /* of the device */
    uint32_t bytes, table, lookup;
    int64_t row;
} orr_row_miss;

/* Sectors side by side that have misses first .. first + n - 1. */
typedef struct orr_served_read {
    uint64_t at;
    uint32_t bytes, first, n;
    int64_t begun_ns;
} orr_served_read;

struct orr_row_reader {
    orr_row_server *server;
    struct orr_row_reader *next;
    int participant;
    uint64_t snapshot; /* number of the one that device and stocks are of; 0: none */
    orr_block_device *device;
    orr_slot_stock *stocks; /* shape (n_pools) */
    uint32_t n_pools;
    orr_pooled_cache *pooled_of; /* whose segment `pooled` is; good in the snapshot */
    orr_pooled_writer pooled;
    uint64_t random;

    /* Of a chunk of lookups. */
    orr_ranged_row *rows; /* shape (room): first the address of the entry, then of the row */
    int64_t *keys;        /* shape (room): rows of the bag, in the order of sums */
    orr_row_miss *misses; /* shape (room) */
    uint32_t room, n_rows, n_misses;
    orr_served_bag *bags; /* shape (bags_room) */
    uint32_t bags_room, n_bags;
    char *unplaced; /* rows that have no slot */
    size_t unplaced_room, unplaced_used;
    char *decoded; /* a row as it is stored */

    /* Reads. */
    char *buffer_memory, *buffers; /* shape (depth, buffer_bytes) */
    uint32_t buffer_bytes, depth;
    uint32_t *free_buffers;
    orr_served_read *reads; /* shape (depth): by buffer */

    orr_reader_counts *counts; /* shape (n_tables) */
    _Atomic uint64_t in_flight, read_ns[64];
    orr_recorder recorder;
};

static inline uint32_t orr_next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* In an epoch: makes device, buffers and stocks those of the snapshot. */
orr_status orr_reader_follow(orr_row_reader *reader, const orr_row_snapshot *snapshot,
                             orr_error *err) ORR_MUST_CHECK;
/* In an epoch: reads the misses of the chunk and puts the address of each into rows[lookup].at. */
orr_status orr_reader_fetch(orr_row_reader *reader, orr_row_snapshot *snapshot,
                            orr_error *err) ORR_MUST_CHECK;
/* Brings rows of a table to the cache that are not there. */
orr_status orr_reader_load(orr_row_reader *reader, uint32_t table, const int64_t *rows, int64_t n,
                           orr_error *err) ORR_MUST_CHECK;
/* Waits until all have left that were in an epoch at the stamp. Of the writer, in none itself. */
void orr_server_wait(orr_row_server *server, uint64_t stamp);
/* In an epoch: a slot of its pool for a row that was used so often; false: there is none now. */
bool orr_server_slot(orr_row_snapshot *snapshot, orr_slot_stock *stocks, orr_epochs *epochs,
                     uint32_t pool, uint32_t frequency, uint32_t random, uint32_t *ret_slot);
/* Stocks for the pools of a snapshot. */
orr_status orr_stocks_open(const orr_row_snapshot *snapshot, orr_slot_stock **ret,
                           orr_error *err) ORR_MUST_CHECK;
void orr_stocks_close(orr_slot_stock *stocks, uint32_t n);
void orr_server_forget_next(orr_row_server *server); /* what is prepared */

orr_row_file_options orr_served_file_options(orr_row_server *server);
/* Callbacks of the row file: homes of rows that the cache holds; ctx: the snapshot's entries. */
orr_row_entry orr_served_home(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry);
void orr_served_set_home(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry,
                         orr_row_entry home);

#endif /* ORR_STORE_SERVE_SERVER_H */
