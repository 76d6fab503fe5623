/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_state.h"

/* Commits while training goes on. What is dirty when a commit begins is owed to it: the I/O thread
 * gives owed slots to the row file piece by piece, who evicts a slot or changes a row gives that
 * one before, and when none is left the row file makes its record. */

orr_status orr_store_write_back(orr_store *store, orr_cache_pool *pool, uint32_t slot,
                                orr_error *err)
{
    const bool owed = orr_cache_bit(pool->owed, slot), dirty = orr_cache_bit(pool->dirty, slot);
    int64_t row;
    if (!owed && !dirty)
        return ORR_OK;
    const uint32_t shard = orr_store_owner(pool, slot, &row);
    const orr_status status =
        orr_row_file_append(store->file, shard, row, orr_cache_pool_row(pool, slot),
                            pool->state_bytes > 0 ? orr_cache_pool_state(pool, slot) : NULL, owed,
                            orr_cache_pool_home(pool, slot), err);
    if (status != ORR_OK)
        return status == ORR_LIMIT && orr_row_file_cleaning(store->file) ? ORR_CANCELED : status;
    orr_cache_bit_clear(owed ? pool->owed : pool->dirty, slot);
    store->stats.written_back++;
    return ORR_OK;
}

/* At most `most` slots of a pool from the cursor on. */
static orr_status write_some(orr_store *store, uint32_t most, orr_error *err)
{
    orr_cache_pool *pool = &store->pools[store->owed_pool];
    const uint32_t words = pool->n / 64 + 1;
    for (uint32_t n = 0, looked = 0; store->owed_word < words && n < most; store->owed_word++) {
        if (++looked > 4096) /* a word of none costs little, but the lock is held */
            return ORR_OK;
        for (uint64_t left = pool->owed[store->owed_word]; left != 0; left &= left - 1, n++) {
            const uint32_t slot = store->owed_word * 64 + (uint32_t)__builtin_ctzll(left);
            ORR_TRY(orr_store_write_back(store, pool, slot, err));
        }
    }
    if (store->owed_word == words) {
        store->owed_word = 0;
        store->owed_pool++;
    }
    return ORR_OK;
}

orr_status orr_store_write_owed(orr_store *store, bool *ret_done, orr_error *err)
{
    enum { PIECE = 256 }; /* rows that are copied before others may have the lock */
    orr_status status = ORR_OK;
    orr_row_file_lock(store->file);
    if (store->writing && store->owed_pool < store->n_pools)
        status = write_some(store, PIECE, err);
    if (status == ORR_CANCELED)
        status = ORR_OK; /* in the next turn */
    if (store->owed_pool == store->n_pools)
        store->writing = false;
    *ret_done = !store->writing;
    orr_row_file_unlock(store->file);
    return status;
}

/* Slots of a batch, from `*at` on, that are owed; stops at the first that cannot be written. */
static orr_status write_batch(orr_store *store, const orr_store_batch *b, size_t *at,
                              orr_error *err)
{
    for (size_t i = 0; i < b->segments.n && store->writing; i++) {
        orr_cache_pool *pool = store->shards[b->segments.at[i].shard].pool;
        for (; *at < b->segments.at[i].end; ++*at)
            if (orr_cache_bit(pool->owed, b->slots.at[*at]))
                ORR_TRY(orr_store_write_back(store, pool, b->slots.at[*at], err));
    }
    return ORR_OK;
}

orr_status orr_store_change(orr_store *store, uint64_t batch, orr_error *err)
{
    const orr_store_batch *b = orr_store_batch_of(store, batch);
    size_t at = 0;
    if (b == NULL)
        return ORR_OK; /* it has no rows */
    for (;;) {
        orr_row_file_lock(store->file);
        const orr_status status = write_batch(store, b, &at, err);
        orr_row_file_unlock(store->file);
        if (status != ORR_CANCELED)
            return status;
        ORR_TRY(orr_store_wait_places(store, err));
    }
}

/* What has failed, told; `signal` is held. */
static orr_status commit_failure(const orr_store *store, orr_error *err)
{
    if (store->commit_error.status == ORR_OK)
        return ORR_OK;
    if (err != NULL)
        *err = store->commit_error;
    return store->commit_error.status;
}

orr_status orr_store_committed(orr_store *store, int64_t *ret_step, orr_error *err)
{
    pthread_mutex_lock(&store->signal);
    orr_status status = ORR_OK;
    while (status == ORR_OK && store->committing) {
        orr_store_wait_progress(store);
        status = orr_store_check_fatal(store, err);
    }
    if (status == ORR_OK)
        status = commit_failure(store, err);
    if (status == ORR_OK)
        status = orr_store_check_fatal(store, err);
    pthread_mutex_unlock(&store->signal);
    if (status == ORR_OK && ret_step != NULL)
        *ret_step = orr_row_file_step(store->file);
    return status;
}

orr_status orr_store_commit(orr_store *store, int64_t step, orr_error *err)
{
    ORR_TRY(orr_store_committed(store, NULL, err)); /* the one before */
    orr_row_file_lock(store->file);
    const orr_status status = orr_row_file_begin_commit(store->file, step, err);
    for (uint32_t i = 0; status == ORR_OK && i < store->n_pools; i++) {
        uint64_t *const none = store->pools[i].owed; /* all have been written */
        store->pools[i].owed = store->pools[i].dirty;
        store->pools[i].dirty = none;
    }
    if (status == ORR_OK) {
        store->owed_pool = store->owed_word = 0;
        store->writing = true;
    }
    orr_row_file_unlock(store->file);
    ORR_TRY(status);
    pthread_mutex_lock(&store->signal);
    store->committing = true;
    store->step = step;
    store->kick = true;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->signal);
    return ORR_OK;
}

void orr_store_settle(orr_store *store, int64_t step)
{
    orr_row_file_lock(store->file);
    orr_row_file_settle(store->file, step);
    orr_row_file_unlock(store->file);
    orr_store_kick(store);
}
