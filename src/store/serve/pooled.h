/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_SERVE_POOLED_H
#define ORR_STORE_SERVE_POOLED_H

#include <pthread.h>
#include <stdatomic.h>

#include <orrery/status.h>

#include "store/serve/epochs.h"

/* A cache of pooled embeddings (arXiv 2110.11489, section 4.4). Key: the table and the rows of the
 * bag, in full, in the order of sums: by range of the table, those of a range as they were looked
 * up. Bags whose sums are the same by that order share an entry, and no others: rows of different
 * ranges may be looked up in any order, and the first two of a range, since a + b = b + a. (Sums
 * that have NaN, whose payloads depend on that order, are not kept.) A bag is kept when it is seen
 * for the second time; until then its bucket has its tag alone.
 *
 * Entries are written into segments one behind another; a whole segment is forgotten at a time, the
 * oldest first. Looking up takes no lock; a participant takes one when its segment is full.
 *
 * Rows change: each row has one of the stamps, the number of the last update of a row that shares
 * it. An entry is good while the stamps of its rows are not after the one that it was begun at. */
typedef struct orr_pooled_segment {
    uint32_t used; /* bytes */
    uint64_t retired;
} orr_pooled_segment;

typedef struct orr_pooled_cache {
    char *memory; /* NULL: no cache */
    uint32_t segment_bytes, n_segments;
    orr_pooled_segment *segments;
    _Atomic uint64_t *cells;  /* shape (buckets, WAYS) */
    uint64_t buckets;         /* a power of two */
    _Atomic uint64_t *stamps; /* shape (n_stamps) */
    uint64_t n_stamps;        /* a power of two */
    _Atomic uint64_t updates; /* the last stamp that was given */
    orr_epochs *epochs;
    pthread_mutex_t lock; /* of the three lists of segments */
    uint32_t *list;       /* shape (3, n_segments): free, closed and retired ones */
    uint32_t n_free, closed_at, n_closed, retired_at, n_retired;
} orr_pooled_cache;

/* What a participant writes to. */
typedef struct orr_pooled_writer {
    int64_t segment; /* -1: none */
    uint32_t used;
} orr_pooled_writer;

typedef struct orr_pooled_key {
    uint64_t hash;
    uint32_t table, n;
    const int64_t *rows; /* shape (n) */
    uint32_t columns;
} orr_pooled_key;

/* `bytes` 0: no cache. `rows`: of all tables. */
orr_status orr_pooled_init(orr_pooled_cache *cache, uint64_t bytes, uint64_t rows,
                           orr_epochs *epochs, orr_error *err) ORR_MUST_CHECK;
void orr_pooled_done(orr_pooled_cache *cache);

/* Sets `hash`. */
void orr_pooled_hash(orr_pooled_key *key);
/* In an epoch: the sum, shape (columns), good until it ends; NULL: none. `ret_wanted`: it is worth
 * to be inserted. */
const float *orr_pooled_find(orr_pooled_cache *cache, const orr_pooled_key *key, bool *ret_wanted);
/* The stamp that a sum begins at: before its rows' entries are read. */
static inline uint64_t orr_pooled_begin(const orr_pooled_cache *cache)
{
    return atomic_load(&cache->updates);
}
/* In an epoch. Does nothing where there is no room yet. */
void orr_pooled_insert(orr_pooled_cache *cache, orr_pooled_writer *writer,
                       const orr_pooled_key *key, uint64_t begun, const float *sum);
/* A participant leaves: its segment goes to the others. */
void orr_pooled_leave(orr_pooled_cache *cache, orr_pooled_writer *writer);
/* After new numbers of rows are visible. One thread. */
void orr_pooled_updated(orr_pooled_cache *cache, uint32_t table, const int64_t *rows, int64_t n);

#endif /* ORR_STORE_SERVE_POOLED_H */
