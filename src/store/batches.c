/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "store/store_state.h"

/* What a batch goes through after it was announced: waited for, ended, or forgotten. */

/* Rows that could not be read may have been asked for by later batches, too. */
static bool has_broken(orr_store *store, const orr_store_batch *b)
{
    bool found = false;
    size_t slot = 0;
    orr_row_file_lock(store->file);
    for (size_t i = 0; i < b->segments.n && store->broken > 0; i++) {
        const orr_cache_pool *pool = store->shards[b->segments.at[i].shard].pool;
        for (; slot < b->segments.at[i].end; slot++)
            found |= !pool->identity && pool->slots[b->slots.at[slot]].broken;
    }
    orr_row_file_unlock(store->file);
    return found;
}

orr_status orr_store_wait(orr_store *store, uint64_t batch, orr_error *err)
{
    orr_store_batch *b = orr_store_batch_of(store, batch);
    if (b == NULL)
        return ORR_OK; /* it has no rows */
    pthread_mutex_lock(&store->signal);
    const uint64_t missing = b->pending.rows;
    const int64_t begin = missing > 0 ? orr_clock_now_ns(&orr_clock_monotonic) : 0;
    orr_status status = orr_store_wait_pending(store, &b->pending, err);
    store->demand_misses += missing;
    if (missing > 0)
        store->stall_ns += orr_clock_now_ns(&orr_clock_monotonic) - begin;
    pthread_mutex_unlock(&store->signal);
    if (status == ORR_OK && has_broken(store, b)) {
        pthread_mutex_lock(&store->signal);
        if (err != NULL)
            *err = store->read_error;
        status = store->read_error.status;
        pthread_mutex_unlock(&store->signal);
    }
    return status;
}

/* A row that could not be read is not in the cache. */
static void drop_broken(orr_store *store, orr_cache_pool *pool, uint32_t slot)
{
    int64_t row;
    const uint32_t shard = orr_store_owner(pool, slot, &row);
    orr_store_set_entry(&store->shards[shard].entries[row], pool->slots[slot].home);
    pool->slots[slot].broken = false;
    orr_cache_pool_release(pool, slot);
    store->broken--;
}

/* Slots from .. to of a segment are needed by the batch no more. */
static void end_slots(orr_store *store, orr_cache_pool *pool, const orr_store_batch *b, size_t from,
                      size_t to, bool changed)
{
    enum { AHEAD = 16 };
    for (size_t i = from; i < to; i++) {
        const uint32_t slot = b->slots.at[i];
        if (pool->identity) {
            if (changed)
                orr_cache_bit_set(pool->dirty, slot);
            continue;
        }
        if (i + AHEAD < to)
            __builtin_prefetch(&pool->slots[b->slots.at[i + AHEAD]], 1);
        const bool broken = pool->slots[slot].broken;
        if (changed && !broken)
            orr_cache_bit_set(pool->dirty, slot);
        orr_cache_pool_unpin(pool, slot, (uint32_t)b->number);
        if (broken && pool->slots[slot].state == ORR_CACHE_EVICTABLE)
            drop_broken(store, pool, slot);
    }
}

static void end_rows(orr_store *store, const orr_store_batch *b, bool changed)
{
    enum { PIECE = 4096 }; /* slots before others may have the lock */
    size_t at = 0;
    for (size_t i = 0; i < b->segments.n; i++) {
        orr_cache_pool *pool = store->shards[b->segments.at[i].shard].pool;
        for (const size_t end = b->segments.at[i].end; at < end;) {
            const size_t to = end - at > PIECE ? at + PIECE : end;
            orr_row_file_lock(store->file);
            end_slots(store, pool, b, at, to, changed);
            orr_row_file_unlock(store->file);
            at = to;
        }
    }
}

static void clear(orr_store_batch *b)
{
    b->announced = false;
    b->segments.n = b->slots.n = 0;
    b->pending = (orr_store_pending){0};
}

void orr_store_end(orr_store *store, uint64_t batch, bool changed)
{
    orr_store_batch *b = orr_store_batch_of(store, batch);
    if (b != NULL) {
        pthread_mutex_lock(&store->signal);
        orr_store_drain(store, &b->pending); /* who has waited does not here */
        pthread_mutex_unlock(&store->signal);
        end_rows(store, b, changed);
        clear(b);
    }
    pthread_mutex_lock(&store->signal);
    __atomic_store_n(&store->first, batch + 1, __ATOMIC_RELEASE);
    if (store->next < store->first)
        store->next = store->first;
    pthread_cond_broadcast(&store->progress);
    pthread_mutex_unlock(&store->signal);
}

/* Pins are those of batches first .. before - 1 again: a slot knows the last batch alone. */
static void pin_again(orr_store *store, uint64_t before)
{
    for (uint64_t batch = store->first; batch < before; batch++) {
        const orr_store_batch *b = orr_store_batch_of(store, batch);
        size_t slot = 0;
        for (size_t i = 0; b != NULL && i < b->segments.n; i++) {
            orr_store_shard_state *s = &store->shards[b->segments.at[i].shard];
            for (; slot < b->segments.at[i].end; slot++)
                if (!s->pool->identity)
                    s->pool->slots[b->slots.at[slot]].batch = (uint32_t)batch;
        }
    }
}

/* Entries say that no batch has asked; slots get a batch that is none. */
static void unpin_all(orr_store *store, const orr_store_batch *b)
{
    size_t i = 0;
    for (size_t k = 0; k < b->segments.n; k++) {
        const orr_store_shard_state *s = &store->shards[b->segments.at[k].shard];
        for (; i < b->segments.at[k].end; i++) {
            const uint32_t slot = b->slots.at[i];
            int64_t row;
            (void)orr_store_owner(s->pool, slot, &row);
            orr_store_set_entry(&s->entries[row], ORR_ROW_RESIDENT | slot);
            if (!s->pool->identity)
                s->pool->slots[slot].batch = (uint32_t)(b->number + ORR_STORE_NO_BATCH);
        }
    }
}

static void forget_slots(orr_store *store, const orr_store_batch *b)
{
    size_t i = 0;
    for (size_t k = 0; k < b->segments.n; k++) {
        orr_cache_pool *pool = store->shards[b->segments.at[k].shard].pool;
        for (; i < b->segments.at[k].end && !pool->identity; i++) {
            orr_cache_pool_unpin(pool, b->slots.at[i], (uint32_t)(b->number + ORR_STORE_NO_BATCH));
            if (pool->slots[b->slots.at[i]].broken &&
                pool->slots[b->slots.at[i]].state == ORR_CACHE_EVICTABLE)
                drop_broken(store, pool, b->slots.at[i]);
        }
        i = b->segments.at[k].end;
    }
}

void orr_store_forget(orr_store *store, uint64_t batch)
{
    pthread_mutex_lock(&store->signal);
    const uint64_t next = store->next;
    for (uint64_t i = batch; i < next; i++) {
        orr_store_batch *b = orr_store_batch_of(store, i);
        if (b != NULL) /* slots are not given away while they are read to */
            orr_store_drain(store, &b->pending);
    }
    pthread_mutex_unlock(&store->signal);
    orr_row_file_lock(store->file);
    for (uint64_t i = batch; i < next; i++)
        if (orr_store_batch_of(store, i) != NULL)
            unpin_all(store, orr_store_batch_of(store, i));
    pin_again(store, batch);
    for (uint64_t i = batch; i < next; i++)
        if (orr_store_batch_of(store, i) != NULL) {
            forget_slots(store, orr_store_batch_of(store, i));
            clear(orr_store_batch_of(store, i));
        }
    orr_row_file_unlock(store->file);
    pthread_mutex_lock(&store->signal);
    if (batch < store->next)
        store->next = batch;
    pthread_cond_broadcast(&store->progress);
    pthread_mutex_unlock(&store->signal);
}
