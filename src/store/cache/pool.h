/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_CACHE_POOL_H
#define ORR_STORE_CACHE_POOL_H

#include <string.h>

#include "store/cache/policy.h"
#include "store/file/row_file.h"

/* Slots of one record size, and which of them is given away next. Any row may have any slot, so
 * there are no conflict misses; where a row is, its entry of the row file says (ORR_ROW_RESIDENT),
 * so nothing is searched.
 *
 * A slot is free, pinned (an announced batch needs its row) or evictable. Evictable slots stand in
 * circular lists, one for each frequency (LFU, LOOKAHEAD) or one for all (LRU), the longest unused
 * first: the victim is the first of the first list that is not empty. That is constant time for
 * every policy.
 *
 * Threads: the lock of the row file is held by all that change a pool. Rows and states of a pinned
 * slot belong to the batches that pin it. */
enum {
    ORR_CACHE_FREQUENCIES = 256, /* 8 bits, as entries have */
    ORR_CACHE_NO_SLOT = -1,      /* as uint32_t */
};

typedef enum orr_cache_slot_state {
    ORR_CACHE_FREE,
    ORR_CACHE_EVICTABLE,
    ORR_CACHE_PINNED
} orr_cache_slot_state;

typedef struct orr_cache_slot {
    orr_row_entry home;  /* place and generation of its row on disk; 0: it has none */
    uint32_t prev, next; /* while evictable */
    uint32_t batch;      /* while pinned: the last batch that needs it */
    uint8_t state;       /* orr_cache_slot_state */
    uint8_t frequency;   /* batches that asked for the row, by counts that age */
    bool broken;         /* its row could not be read */
} orr_cache_slot;

typedef struct orr_cache_pool {
    uint32_t row_bytes, state_bytes;
    bool identity;  /* slot k is row k of one shard: never evicted, no lists, no owners */
    uint32_t shard; /* that one */
    uint8_t policy;
    uint32_t n, used;      /* slots; those that have ever been given away */
    uint32_t first_free;   /* of slots that were given back, by `next` */
    char *rows, *states;   /* shape (n, row_bytes), (n, state_bytes) */
    orr_cache_slot *slots; /* shape (n + frequencies): the last ones are heads of lists */
    uint64_t *owner;       /* shape (n): shard << 48 | row */
    orr_row_entry *homes;  /* identity: shape (n), for want of slots */
    /* Shape (n) bits. Dirty: changed since the last commit began; owed: changed before it, and not
     * yet given to the row file. */
    uint64_t *dirty, *owed;
    uint32_t owing;              /* bits of `owed` that are set, at most */
    uint32_t sweep;              /* slot whose frequency ages next */
    uint8_t level;               /* how fast counts forget: see orr_cache_pool_adapt() */
    uint32_t random;             /* of counts that not every batch adds to */
    uint64_t swept;              /* entries that have aged since the level was chosen */
    uint64_t rows_served, aging; /* rows of all shards; see announce.c */
    uint64_t occupied[ORR_CACHE_FREQUENCIES / 64]; /* bit f: list f is not empty */
    size_t row_map, state_map;                     /* bytes that are mapped */
} orr_cache_pool;

/* Bytes of memory that a slot takes, bookkeeping included. */
static inline uint64_t orr_cache_slot_bytes(uint32_t row_bytes, uint32_t state_bytes)
{
    return (uint64_t)row_bytes + state_bytes + sizeof(orr_cache_slot) + sizeof(uint64_t) + 1;
}
/* Pool {0} before it. Rows begin at a page; memory is touched when it is used. */
orr_status orr_cache_pool_init(orr_cache_pool *pool, uint32_t row_bytes, uint32_t state_bytes,
                               uint32_t n, bool identity, orr_cache_policy policy, bool huge_pages,
                               orr_error *err) ORR_MUST_CHECK;
void orr_cache_pool_done(orr_cache_pool *pool);

/* A free slot, which is pinned by `batch` now; ORR_CACHE_NO_SLOT: none. */
uint32_t orr_cache_pool_take(orr_cache_pool *pool, uint32_t batch, uint8_t frequency);
/* The slot that the policy evicts, still evictable; ORR_CACHE_NO_SLOT: all are pinned. */
uint32_t orr_cache_pool_victim(const orr_cache_pool *pool);
/* An evictable slot becomes free. */
void orr_cache_pool_release(orr_cache_pool *pool, uint32_t slot);
/* A batch asks for the row of a slot: pinned, and more frequent by one. */
void orr_cache_pool_pin(orr_cache_pool *pool, uint32_t slot, uint32_t batch);
/* A batch has ended; the slot is evictable if no later batch has asked for it. */
void orr_cache_pool_unpin(orr_cache_pool *pool, uint32_t slot, uint32_t batch);
/* Halves the frequencies of the next n slots, which makes counts forget. */
void orr_cache_pool_age(orr_cache_pool *pool, uint32_t n);

static inline char *orr_cache_pool_row(const orr_cache_pool *pool, uint32_t slot)
{
    return pool->rows + (size_t)slot * pool->row_bytes;
}
static inline char *orr_cache_pool_state(const orr_cache_pool *pool, uint32_t slot)
{
    return pool->states + (size_t)slot * pool->state_bytes;
}
/* Chooses how fast counts forget, so that those at the edge of the cache (the victim's) are neither
 * so few that chance decides nor so many that 8 bits do not hold them: at each of the first levels
 * entries age twice as fast as at the one before, at later ones only every other batch, every
 * fourth and so on is counted. Called now and then, after counts have had time to follow. */
enum { ORR_CACHE_AGING_LEVELS = 4, ORR_CACHE_LEVELS = 16 };
void orr_cache_pool_adapt(orr_cache_pool *pool);

/* Row and state of a slot as a record, and back. */
static inline void orr_cache_pool_get(const orr_cache_pool *pool, uint32_t slot, char *ret_record)
{
    memcpy(ret_record, orr_cache_pool_row(pool, slot), pool->row_bytes);
    memcpy(ret_record + pool->row_bytes, orr_cache_pool_state(pool, slot), pool->state_bytes);
}
static inline void orr_cache_pool_put(orr_cache_pool *pool, uint32_t slot, const char *record)
{
    memcpy(orr_cache_pool_row(pool, slot), record, pool->row_bytes);
    memcpy(orr_cache_pool_state(pool, slot), record + pool->row_bytes, pool->state_bytes);
}

static inline orr_row_entry *orr_cache_pool_home(orr_cache_pool *pool, uint32_t slot)
{
    return pool->identity ? &pool->homes[slot] : &pool->slots[slot].home;
}

static inline bool orr_cache_bit(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}
static inline void orr_cache_bit_set(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << i % 64;
}
static inline void orr_cache_bit_clear(uint64_t *bits, uint32_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

#endif /* ORR_STORE_CACHE_POOL_H */
