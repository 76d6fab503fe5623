/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "store/store_state.h"

/* The lookups of a batch: one pass over ids, in pieces, between which the I/O thread and training
 * may have the lock. A lookup that the batch has made before touches its entry alone, which has
 * the batch's number. */
enum {
    PIECE = 512,   /* lookups */
    FAR = 24,      /* lookups ahead of which entries are prefetched */
    NEAR = 12,     /* and slots */
    TAG_BITS = 31, /* of a batch's number, in an entry */
};
#define NO_SLOT ((uint32_t)ORR_CACHE_NO_SLOT)

typedef struct announcement {
    orr_store *store;
    orr_store_shard_state *shard;
    orr_cache_pool *pool;
    uint32_t shard_number;
    orr_store_batch *batch;
    orr_row_entry tag; /* of the batch, where entries have it */
    const int64_t *ids;
    int64_t n;
    uint32_t *slots;
    uint64_t first;                  /* batch that had not ended when a piece began */
    orr_store_job *job;              /* rows that are to be read */
    orr_array(orr_store_item) drawn; /* rows with initial values */
} announcement;

/* A slot for a row that is not in memory. NO_SLOT with ORR_OK: all are pinned. */
static orr_status give_slot(announcement *a, uint8_t frequency, uint32_t *ret, orr_error *err)
{
    orr_cache_pool *pool = a->pool;
    const uint32_t batch = (uint32_t)a->batch->number;
    *ret = orr_cache_pool_take(pool, batch, frequency);
    if (*ret != NO_SLOT)
        return ORR_OK;
    const uint32_t victim = orr_cache_pool_victim(pool);
    if (victim == NO_SLOT)
        return ORR_OK;
    int64_t row;
    ORR_TRY(orr_store_write_back(a->store, pool, victim, err));
    const uint32_t shard = orr_store_owner(pool, victim, &row);
    orr_store_set_entry(&a->store->shards[shard].entries[row],
                        pool->slots[victim].home | (orr_row_entry)pool->slots[victim].frequency
                                                       << ORR_ROW_FREQUENCY_SHIFT);
    a->store->stats.evictions++;
    orr_cache_pool_release(pool, victim);
    *ret = orr_cache_pool_take(pool, batch, frequency);
    return ORR_OK;
}

/* A row that is not in memory gets a slot, and its numbers soon. */
static orr_status bring(announcement *a, int64_t row, orr_row_entry entry, uint32_t *ret,
                        orr_error *err)
{
    const uint8_t frequency = (uint8_t)(entry >> ORR_ROW_FREQUENCY_SHIFT);
    const orr_row_entry home = entry & ORR_ROW_HOME_MASK;
    uint32_t slot;
    ORR_TRY(give_slot(a, frequency, &slot, err));
    *ret = slot;
    if (slot == NO_SLOT)
        return ORR_OK;
    a->pool->slots[slot].home = home;
    a->pool->owner[slot] = (uint64_t)a->shard_number << ORR_STORE_OWNER_BITS | (uint64_t)row;
    const orr_store_item item = {.home = home, .row = row, .slot = slot};
    if (home != 0)
        a->job->items.at[a->job->items.n++] = item;
    else
        a->drawn.at[a->drawn.n++] = item;
    return ORR_OK;
}

static void prefetch(const announcement *a, int64_t i)
{
    if (i + FAR < a->n)
        __builtin_prefetch(&a->shard->entries[a->ids[i + FAR]], 1);
    if (i + NEAR >= a->n || a->pool->identity)
        return;
    const orr_row_entry entry = orr_store_entry(&a->shard->entries[a->ids[i + NEAR]]);
    if ((entry & ORR_ROW_RESIDENT) != 0 && entry >> ORR_ROW_SLOT_BITS != a->tag)
        __builtin_prefetch(&a->pool->slots[(uint32_t)entry], 1);
}

/* Lookups from *i to `end`; stops before one that finds no slot. There is room for all of them in
 * the lists. Lock. */
static orr_status look_up(announcement *a, int64_t *i, int64_t end, orr_error *err)
{
    for (; *i < end; ++*i) {
        const int64_t row = a->ids[*i];
        orr_row_entry *at = &a->shard->entries[row];
        const orr_row_entry entry = orr_store_entry(at);
        uint32_t slot = (uint32_t)entry;
        prefetch(a, *i);
        if (entry >> ORR_ROW_SLOT_BITS == a->tag) { /* asked for before in this batch */
            a->slots[*i] = slot;
            continue;
        }
        if (entry & ORR_ROW_RESIDENT) {
            if (!a->pool->identity)
                orr_cache_pool_pin(a->pool, slot, (uint32_t)a->batch->number);
        } else {
            ORR_TRY(bring(a, row, entry, &slot, err));
            if (slot == NO_SLOT)
                return ORR_OK;
        }
        orr_store_set_entry(at, a->tag << ORR_ROW_SLOT_BITS | slot);
        a->batch->slots.at[a->batch->slots.n++] = slot;
        a->slots[*i] = slot;
    }
    return ORR_OK;
}

/* Frequencies age: so many entries, and slots in proportion, that in the time in which all rows
 * have aged once all slots have, too. */
static void age(announcement *a, int64_t lookups)
{
    orr_store_shard_state *s = a->shard;
    if (a->pool->identity || a->pool->policy == ORR_CACHE_POLICY_LRU)
        return;
    const uint32_t level = a->pool->level, fast = ORR_CACHE_AGING_LEVELS - 1;
    const uint64_t each = UINT64_C(1) << (fast - (level < fast ? level : fast));
    s->aging += (uint64_t)lookups;
    uint64_t n = s->aging / each;
    s->aging %= each;
    a->pool->swept += n;
    /* Counts follow faster aging soon, and rarer counting only when all have aged. */
    if (a->pool->swept > a->pool->rows_served / (level < fast ? 8 : 2)) {
        a->pool->swept = 0;
        orr_cache_pool_adapt(a->pool);
    }
    a->pool->aging += n * a->pool->used;
    orr_cache_pool_age(a->pool, (uint32_t)(a->pool->aging / a->pool->rows_served));
    a->pool->aging %= a->pool->rows_served;
    for (; n > 0; n--) {
        orr_row_entry *at = &s->entries[s->sweep];
        const orr_row_entry entry = orr_store_entry(at);
        if ((entry & ORR_ROW_RESIDENT) == 0)
            orr_store_set_entry(
                at, (entry & ORR_ROW_HOME_MASK) |
                        (entry >> (ORR_ROW_FREQUENCY_SHIFT + 1) << ORR_ROW_FREQUENCY_SHIFT));
        s->sweep = s->sweep + 1 < s->facts->rows ? s->sweep + 1 : 0;
    }
}

static void draw(announcement *a)
{
    for (size_t i = 0; i < a->drawn.n; i++) {
        const orr_store_item *item = &a->drawn.at[i];
        a->store->options.initial(a->store->options.ctx, a->shard_number, item->row,
                                  a->store->record);
        orr_cache_pool_put(a->pool, item->slot, a->store->record);
    }
    a->drawn.n = 0;
}

/* All slots are pinned: waits for a batch to end, if an earlier one has not. */
static orr_status wait_slots(announcement *a, int64_t left, orr_error *err)
{
    orr_store *store = a->store;
    const uint64_t number = a->batch->number;
    pthread_mutex_lock(&store->signal);
    orr_status status = orr_store_check_fatal(store, err);
    if (status == ORR_OK && store->first == a->first &&
        (a->first >= number || !store->has_thread)) {
        const uint64_t bytes = orr_cache_slot_bytes(a->pool->row_bytes, a->pool->state_bytes);
        status = orr_fail(err, ORR_LIMIT,
                          "batch %llu: the cache has %u slots for rows of %u bytes, all of them "
                          "needed by batches that are announced; at most %llu slots (%llu bytes) "
                          "more would do",
                          (unsigned long long)number, a->pool->n,
                          a->pool->row_bytes + a->pool->state_bytes, (unsigned long long)left,
                          (unsigned long long)((uint64_t)left * bytes));
    }
    while (status == ORR_OK && store->first == a->first) {
        orr_store_wait_progress(store);
        status = orr_store_check_fatal(store, err);
    }
    pthread_mutex_unlock(&store->signal);
    return status;
}

/* The record of the batch, when all before it that share its place have ended. */
static orr_status begin_batch(orr_store *store, uint64_t batch, orr_store_batch **ret,
                              orr_error *err)
{
    pthread_mutex_lock(&store->signal);
    orr_status status = orr_store_check_fatal(store, err);
    if (status == ORR_OK &&
        (batch > store->next || batch + 1 < store->next || batch < store->first))
        status = orr_fail(err, ORR_INVALID, "batch %llu is announced after batch %llu",
                          (unsigned long long)batch, (unsigned long long)store->next - 1);
    while (status == ORR_OK && batch - store->first >= store->options.window) {
        if (!store->has_thread)
            status = orr_fail(err, ORR_LIMIT, "batch %llu: %u batches are announced already",
                              (unsigned long long)batch, store->options.window);
        else
            orr_store_wait_progress(store);
        if (status == ORR_OK)
            status = orr_store_check_fatal(store, err);
    }
    if (status == ORR_OK) {
        *ret = &store->batches[batch % store->options.window];
        if (batch == store->next) {
            (*ret)->number = batch;
            (*ret)->announced = true;
            store->next++;
        }
    }
    pthread_mutex_unlock(&store->signal);
    return status;
}

static orr_status check_ids(const announcement *a, orr_error *err)
{
    const uint64_t rows = (uint64_t)a->shard->facts->rows;
    bool all = true;
    for (int64_t i = 0; i < a->n; i++)
        all &= (uint64_t)a->ids[i] < rows;
    return all ? ORR_OK
               : orr_fail(err, ORR_INVALID, "table %s: an id that is not one of %llu rows",
                          a->shard->facts->table, (unsigned long long)rows);
}

/* All lookups, piece by piece. */
static orr_status look_up_all(announcement *a, orr_error *err)
{
    orr_store *store = a->store;
    for (int64_t i = 0; i < a->n;) {
        const int64_t end = a->n - i > PIECE ? i + PIECE : a->n, begin = i;
        const size_t read = a->job->items.n, slots = a->batch->slots.n;
        if (!orr_array_reserve(&a->batch->slots, PIECE) ||
            !orr_array_reserve(&a->job->items, PIECE) || !orr_array_reserve(&a->drawn, PIECE))
            return orr_fail_memory(err);
        a->first = __atomic_load_n(&store->first, __ATOMIC_ACQUIRE);
        orr_row_file_lock(store->file);
        const orr_status status = look_up(a, &i, end, err);
        const uint64_t missed = a->drawn.n + a->job->items.n - read;
        a->shard->lookups += (uint64_t)(i - begin);
        a->shard->hits += (uint64_t)(i - begin) - missed;
        a->shard->rows += a->batch->slots.n - slots;
        a->shard->row_hits += a->batch->slots.n - slots - missed;
        store->stats.drawn += a->drawn.n;
        age(a, i - begin);
        orr_row_file_unlock(store->file);
        draw(a);
        if (status == ORR_CANCELED)
            ORR_TRY(orr_store_wait_places(store, err));
        else if (status != ORR_OK)
            return status;
        else if (i < end)
            ORR_TRY(wait_slots(a, a->n - i, err));
    }
    return ORR_OK;
}

orr_status orr_store_announce(orr_store *store, uint64_t batch, uint32_t shard, const int64_t *ids,
                              int64_t n, uint32_t *ret_slots, orr_error *err)
{
    announcement a = {.store = store,
                      .shard = &store->shards[shard],
                      .pool = store->shards[shard].pool,
                      .shard_number = shard,
                      .tag = ORR_ROW_RESIDENT >> ORR_ROW_SLOT_BITS |
                             ((batch + 1) & ((UINT64_C(1) << TAG_BITS) - 1)),
                      .ids = ids,
                      .n = n,
                      .slots = ret_slots};
    ORR_TRY(check_ids(&a, err));
    ORR_TRY(begin_batch(store, batch, &a.batch, err));
    a.job = orr_calloc(1, sizeof *a.job);
    if (a.job == NULL || !orr_array_reserve(&a.batch->segments, 1)) {
        orr_free(a.job);
        return orr_fail_memory(err);
    }
    const orr_status status = look_up_all(&a, err);
    a.batch->segments.at[a.batch->segments.n++] =
        (orr_store_segment){.shard = shard, .end = a.batch->slots.n};
    a.job->pending = &a.batch->pending;
    a.job->shard = shard;
    /* Also after a failure: slots are pinned, and have their rows when the batch is forgotten. */
    orr_store_queue(store, a.job);
    orr_array_done(&a.drawn);
    return status;
}
