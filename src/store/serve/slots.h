/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_SERVE_SLOTS_H
#define ORR_STORE_SERVE_SLOTS_H

#include "store/file/row_file.h"
#include "store/serve/epochs.h"

/* The row cache of serving. A row's entry (store/file/row_file.h) has its home or its slot; all
 * changes of entries are compare-and-swap. A slot is written before an entry names it and never
 * again while a participant of the epochs may look at it, so that readers use rows where they lie.
 *
 * Entries while a row is in a slot: bits 0..31 slot, 32..39 frequency, 40..47 version (counts
 * changes of the home), 63 set. A frequency is the logarithm of how often a row was asked for
 * (R. Morris, "Counting large numbers of events in small registers", 1978): at c it grows with
 * probability 2^-c, so popular rows are hardly ever written to. */
typedef _Atomic uint64_t orr_shared_entry;
enum { ORR_FREQUENCY_MAX = 24, ORR_SLOT_FREQUENCY_SHIFT = 32, ORR_SLOT_VERSION_SHIFT = 40 };

static inline uint32_t orr_entry_slot(uint64_t entry)
{
    return (uint32_t)entry;
}
static inline uint32_t orr_entry_frequency(uint64_t entry)
{
    return (uint8_t)((entry & ORR_ROW_RESIDENT) != 0 ? entry >> ORR_SLOT_FREQUENCY_SHIFT
                                                     : entry >> ORR_ROW_FREQUENCY_SHIFT);
}
static inline uint64_t orr_entry_resident(uint32_t slot, uint32_t frequency)
{
    return ORR_ROW_RESIDENT | (uint64_t)frequency << ORR_SLOT_FREQUENCY_SHIFT | slot;
}
static inline uint64_t orr_entry_at_home(uint64_t home, uint32_t frequency)
{
    return (home & ORR_ROW_HOME_MASK) | (uint64_t)frequency << ORR_ROW_FREQUENCY_SHIFT;
}

/* Slots of one size. */
typedef struct orr_slot_pool {
    uint32_t slot_bytes, n;
    char *rows;                          /* shape (n, slot_bytes) */
    _Atomic uint64_t *owner;             /* shape (n): (shard << 48 | row) + 1; 0: no row yet */
    _Atomic uint64_t *home;              /* shape (n): of the row in it */
    _Alignas(64) _Atomic uint32_t fresh; /* slots that were given at least once */
    _Alignas(64) _Atomic uint32_t hand;  /* where victims are looked for */
} orr_slot_pool;
orr_status orr_slot_pool_init(orr_slot_pool *pool, uint32_t slot_bytes, uint32_t n,
                              orr_error *err) ORR_MUST_CHECK;
void orr_slot_pool_done(orr_slot_pool *pool);
static inline char *orr_slot_at(const orr_slot_pool *pool, uint32_t slot)
{
    return pool->rows + (uint64_t)slot * pool->slot_bytes;
}

/* Slots that one participant has to give: free ones, and those that may still be looked at. */
typedef struct orr_slot_stock {
    uint32_t *free, n_free, room;
    struct orr_retired_slot {
        uint64_t stamp;
        uint32_t slot;
    } * retired; /* a ring of `room` */
    uint32_t first, n_retired;
} orr_slot_stock;
/* `room`: slots that it may hold. */
orr_status orr_slot_stock_init(orr_slot_stock *stock, uint32_t room, orr_error *err) ORR_MUST_CHECK;
void orr_slot_stock_done(orr_slot_stock *stock);
/* Outside an epoch: retired slots that nobody looks at any more become free. */
void orr_slot_stock_recycle(orr_slot_stock *stock, orr_epochs *epochs);
static inline bool orr_slot_stock_is_full(const orr_slot_stock *stock)
{
    return stock->n_free + stock->n_retired >= stock->room;
}
/* A slot to write to; false: there is none now. */
bool orr_slot_take(orr_slot_pool *pool, orr_slot_stock *stock, uint32_t *ret_slot);
/* A slot that was taken and that no entry has named; or one that no entry names any more. A stock
 * that is full loses the slot, so it is asked before. */
void orr_slot_give_back(orr_slot_stock *stock, uint32_t slot);
void orr_slot_retire(orr_slot_stock *stock, uint32_t slot, orr_epochs *epochs);

static inline void orr_slot_own(orr_slot_pool *pool, uint32_t slot, uint32_t shard, int64_t row,
                                uint64_t home)
{
    atomic_store_explicit(&pool->owner[slot], ((uint64_t)shard << 48 | (uint64_t)row) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->home[slot], home & ORR_ROW_HOME_MASK, memory_order_relaxed);
}

/* Entries of all shards, by shard. */
typedef struct orr_entry_tables {
    orr_shared_entry *const *of; /* shape (shards) */
} orr_entry_tables;
/* In an epoch: takes the least often used of some slots from its row, if it was used no more often
 * than `frequency`, and retires it. `random`: any number. False: none. */
bool orr_slot_evict(orr_slot_pool *pool, orr_slot_stock *stock, orr_epochs *epochs,
                    const orr_entry_tables *entries, uint32_t frequency, uint32_t random);

/* A use of a row whose entry is as given: its frequency grows, by chance. */
static inline void orr_entry_used(orr_shared_entry *entry, uint64_t as, uint32_t random)
{
    const uint32_t count = orr_entry_frequency(as);
    const int shift =
        (as & ORR_ROW_RESIDENT) != 0 ? ORR_SLOT_FREQUENCY_SHIFT : (int)ORR_ROW_FREQUENCY_SHIFT;
    if (count < ORR_FREQUENCY_MAX && (random & ((1u << count) - 1)) == 0)
        atomic_compare_exchange_weak_explicit(entry, &as, as + (UINT64_C(1) << shift),
                                              memory_order_seq_cst, memory_order_relaxed);
}

#endif /* ORR_STORE_SERVE_SLOTS_H */
