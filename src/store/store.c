/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "store/store_state.h"

static orr_row_entry slot_home(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry)
{
    const orr_store *store = ctx;
    (void)row;
    return *orr_cache_pool_home(store->shards[shard].pool, (uint32_t)entry);
}

static void set_slot_home(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry,
                          orr_row_entry home)
{
    const orr_store *store = ctx;
    (void)row;
    *orr_cache_pool_home(store->shards[shard].pool, (uint32_t)entry) = home;
}

/* --- pools ----------------------------------------------------------------------------------- */

/* A pool before it has memory. */
typedef struct demand {
    uint32_t row_bytes, state_bytes;
    uint32_t shard;  /* that is resident; or UINT32_MAX */
    uint64_t rows;   /* of its shards */
    double expected; /* rows in the cache */
    uint64_t slots;
} demand;

static uint64_t bytes_of(const demand *d)
{
    return orr_cache_slot_bytes(d->row_bytes, d->state_bytes);
}

/* Which pool each shard has; returns how many pools. */
static uint32_t assign_pools(const orr_store_options *o, const orr_row_file_facts *facts,
                             demand *pools, uint32_t *pool_of)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < facts->n_shards; i++) {
        const orr_row_shard *s = &facts->shards[i];
        const bool resident = o->resident != NULL && o->resident[i];
        uint32_t p = 0;
        while (p < n &&
               (resident || pools[p].shard != UINT32_MAX || pools[p].row_bytes != s->row_bytes ||
                pools[p].state_bytes != s->state_bytes))
            p++;
        if (p == n)
            pools[n++] = (demand){.row_bytes = s->row_bytes,
                                  .state_bytes = s->state_bytes,
                                  .shard = resident ? i : UINT32_MAX};
        pools[p].rows += (uint64_t)s->rows;
        pools[p].expected += o->cached_rows != NULL ? o->cached_rows[i] : (double)s->rows;
        pool_of[i] = p;
    }
    return n;
}

/* Divides the cache by expected rows. No pool has more slots than rows; what it leaves goes to
 * others, so pools that are full are taken out until none is. */
static orr_status divide(const orr_store_options *o, demand *pools, uint32_t n, orr_error *err)
{
    double left = (double)o->cache_bytes, weight = 0;
    uint64_t least = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (pools[i].shard != UINT32_MAX) {
            pools[i].slots = pools[i].rows;
            continue;
        }
        if (!(pools[i].expected > 1)) /* also what is no number */
            pools[i].expected = 1;
        weight += pools[i].expected * (double)bytes_of(&pools[i]);
        least += bytes_of(&pools[i]);
    }
    if (least > o->cache_bytes)
        return orr_fail(err, ORR_LIMIT, "a row cache of %llu bytes needs at least %llu",
                        (unsigned long long)o->cache_bytes, (unsigned long long)least);
    for (bool full = true; full;) {
        full = false;
        for (uint32_t i = 0; i < n; i++)
            if (pools[i].slots == 0 && left * pools[i].expected >= (double)pools[i].rows * weight) {
                pools[i].slots = pools[i].rows;
                left -= (double)pools[i].rows * (double)bytes_of(&pools[i]);
                weight -= pools[i].expected * (double)bytes_of(&pools[i]);
                full = true;
            }
    }
    for (uint32_t i = 0; i < n; i++)
        if (pools[i].slots == 0) {
            const double slots = left * pools[i].expected / weight;
            pools[i].slots = slots > 1 ? (uint64_t)slots : 1;
        }
    return ORR_OK;
}

static orr_status init_pools(orr_store *store, const demand *pools, uint32_t n, orr_error *err)
{
    const orr_store_options *o = &store->options;
    for (uint32_t i = 0; i < n; i++) {
        const demand *d = &pools[i];
        const uint64_t most = UINT32_MAX - 2 * ORR_CACHE_FREQUENCIES;
        if (d->shard != UINT32_MAX && d->slots > most)
            return orr_fail(err, ORR_LIMIT, "%llu rows of one shard cannot be kept in memory",
                            (unsigned long long)d->slots);
        ORR_TRY(orr_cache_pool_init(&store->pools[i], d->row_bytes, d->state_bytes,
                                    (uint32_t)(d->slots < most ? d->slots : most),
                                    d->shard != UINT32_MAX, o->policy, o->huge_pages, err));
        store->n_pools++;
        store->pools[i].shard = d->shard;
        store->pools[i].rows_served = d->rows;
    }
    return ORR_OK;
}

static orr_status make_pools(orr_store *store, const orr_row_file_facts *facts, orr_error *err)
{
    orr_status status = ORR_OK;
    const uint32_t n = facts->n_shards;
    demand *pools = orr_calloc((size_t)n + 1, sizeof *pools);
    uint32_t *pool_of = orr_calloc((size_t)n + 1, sizeof *pool_of);
    store->pools = orr_calloc((size_t)n + 1, sizeof *store->pools);
    store->shards = orr_calloc((size_t)n + 1, sizeof *store->shards);
    if (pools == NULL || pool_of == NULL || store->pools == NULL || store->shards == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    const uint32_t n_pools = assign_pools(&store->options, facts, pools, pool_of);
    ORR_TRY_OUT(status, divide(&store->options, pools, n_pools, err));
    ORR_TRY_OUT(status, init_pools(store, pools, n_pools, err));
    store->n_shards = n;
    for (uint32_t i = 0; i < n; i++)
        store->shards[i].pool = &store->pools[pool_of[i]];
out:
    orr_free(pools);
    orr_free(pool_of);
    return status;
}

/* --- opening and closing --------------------------------------------------------------------- */

static orr_status check_options(const orr_store_options *o, orr_error *err)
{
    if (o->policy >= ORR_CACHE_POLICIES || o->window == 0 || o->initial == NULL)
        return orr_fail(err, ORR_INVALID, "a store with policy %u, a window of %u batches",
                        (unsigned)o->policy, o->window);
    return ORR_OK;
}

/* What needs no file. */
static orr_status make_store(orr_block_device *device, const orr_store_options *options,
                             orr_store **ret, orr_error *err)
{
    ORR_TRY(check_options(options, err));
    orr_store *store = orr_calloc(1, sizeof *store);
    if (store == NULL)
        return orr_fail_memory(err);
    store->options = *options;
    store->device = device;
    store->batches = orr_calloc(options->window, sizeof *store->batches);
    *ret = store;
    return store->batches != NULL ? ORR_OK : orr_fail_memory(err);
}

static void free_store(orr_store *store)
{
    if (store == NULL)
        return;
    if (store->file != NULL)
        orr_store_io_close(store);
    for (uint32_t i = 0; i < store->options.window && store->batches != NULL; i++) {
        orr_array_done(&store->batches[i].segments);
        orr_array_done(&store->batches[i].slots);
    }
    orr_row_file_close(store->file);
    for (uint32_t i = 0; i < store->n_pools; i++)
        orr_cache_pool_done(&store->pools[i]);
    orr_free(store->batches);
    orr_free(store->pools);
    orr_free(store->shards);
    orr_free(store);
}

static orr_status start(orr_store *store, orr_error *err)
{
    const orr_row_file_facts *facts = orr_row_file_facts_of(store->file);
    ORR_TRY(make_pools(store, facts, err));
    for (uint32_t i = 0; i < store->n_shards; i++) {
        store->shards[i].facts = &facts->shards[i];
        store->shards[i].entries = orr_row_file_entries(store->file, i);
    }
    ORR_TRY(orr_store_io_open(store, err));
    for (uint32_t i = 0; i < store->n_shards; i++)
        if (store->shards[i].pool->identity)
            ORR_TRY(orr_store_load(store, i, err));
    return ORR_OK;
}

static orr_row_file_options file_options(orr_store *store)
{
    return (orr_row_file_options){.writes = store->options.writes,
                                  .durable = store->options.durable,
                                  .home = slot_home,
                                  .set_home = set_slot_home,
                                  .ctx = store};
}

static void keep_open(orr_block_device *device)
{
    (void)device;
}

/* Makes the rest of a store whose file has been opened, or has not (`status`). Where that fails the
 * device is the caller's again, so the file may not close it. */
static orr_status finish_open(orr_store *store, orr_status status, orr_store **ret, orr_error *err)
{
    if (status == ORR_OK)
        status = start(store, err);
    if (status == ORR_OK) {
        store->options.resident = NULL; /* the caller's */
        store->options.cached_rows = NULL;
        *ret = store;
    } else if (store != NULL) {
        orr_block_device *device = store->device;
        void (*const close)(orr_block_device *) = device->close;
        device->close = keep_open;
        free_store(store);
        device->close = close;
    }
    return status;
}

orr_status orr_store_create(orr_block_device *device, const orr_row_file_facts *facts,
                            const orr_store_options *options, orr_store **ret, orr_error *err)
{
    orr_store *store = NULL;
    orr_status status = make_store(device, options, &store, err);
    if (status == ORR_OK) {
        const orr_row_file_options o = file_options(store);
        status = orr_row_file_create(device, facts, &o, &store->file, err);
    }
    return finish_open(store, status, ret, err);
}

orr_status orr_store_open(orr_block_device *device, const orr_row_file_facts *facts, int64_t step,
                          const orr_store_options *options, orr_store **ret, orr_error *err)
{
    orr_store *store = NULL;
    orr_status status = make_store(device, options, &store, err);
    if (status == ORR_OK) {
        const orr_row_file_options o = file_options(store);
        status = orr_row_file_open(device, facts, step, &o, &store->file, err);
    }
    return finish_open(store, status, ret, err);
}

void orr_store_close(orr_store *store)
{
    free_store(store);
}

/* --- what there is --------------------------------------------------------------------------- */

orr_store_slots orr_store_slots_of(const orr_store *store, uint32_t shard)
{
    const orr_cache_pool *pool = store->shards[shard].pool;
    return (orr_store_slots){.rows = pool->rows,
                             .states = pool->states,
                             .n = pool->n,
                             .row_bytes = pool->row_bytes,
                             .state_bytes = pool->state_bytes,
                             .owner = pool->owner,
                             .resident = pool->identity};
}

static void add_shard(const orr_store_shard_state *s, orr_store_stats *to)
{
    to->lookups += s->lookups;
    to->hits += s->hits;
    to->rows += s->rows;
    to->row_hits += s->row_hits;
}

orr_store_stats orr_store_stats_of(orr_store *store)
{
    orr_row_file_lock(store->file);
    orr_store_stats stats = store->stats;
    for (uint32_t i = 0; i < store->n_shards; i++)
        if (!orr_store_slots_of(store, i).resident)
            add_shard(&store->shards[i], &stats);
    for (uint32_t i = 0; i < store->n_pools; i++)
        if (!store->pools[i].identity) {
            stats.cache_slots += store->pools[i].n;
            stats.cache_used += store->pools[i].used;
        }
    orr_row_file_unlock(store->file);
    stats.file = orr_row_file_stats_of(store->file);
    pthread_mutex_lock(&store->signal);
    stats.demand_misses = store->demand_misses;
    stats.stall_ns = store->stall_ns;
    pthread_mutex_unlock(&store->signal);
    return stats;
}

orr_store_stats orr_store_shard_stats(orr_store *store, uint32_t shard)
{
    orr_store_stats stats = {0};
    orr_row_file_lock(store->file);
    add_shard(&store->shards[shard], &stats);
    orr_row_file_unlock(store->file);
    return stats;
}
