/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/tables/tables_state.h"

/* Lookups are announced to row caches in the order of steps, by a thread of its own where steps are
 * prepared ahead: a cache that has no room waits until an earlier step has ended, and that must not
 * keep the step from ending. So the look-ahead is as long as the cache allows, and a step's rows
 * find room at the latest when it is the oldest. */

struct orr_tables_ahead {
    orr_tables *t;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool threaded, stop;
    bool paused, held; /* nothing is announced: until the next stage; until it is let go */
    orr_tables_set *failed;
    uint64_t next_batch;
    orr_tables_set *queue[ORR_TABLES_AHEAD]; /* sets that have not ended, in the order of steps */
    uint32_t n, announced; /* sets; the first ones, which have been announced or failed */
    int64_t stall_ns;      /* that steps waited to be announced */
};

static orr_store *store_of(const orr_tables_ahead *a, int tier)
{
    return a->t->shelves[tier].store;
}

static orr_status announce_all(orr_tables *t, orr_tables_set *set, orr_error *err)
{
    for (int tier = 0; tier < ORR_TIERS; tier++)
        for (uint32_t k = 0; k < t->shelves[tier].n; k++) {
            const orr_shard_lookups *l = &set->lookups[t->shelves[tier].shards[k]];
            ORR_TRY(orr_store_announce(t->shelves[tier].store, set->batch, k, l->ids, l->n,
                                       (uint32_t *)l->slots, err));
        }
    return ORR_OK;
}

/* In all caches or in none. */
static orr_status announce(orr_tables *t, orr_tables_set *set, orr_error *err)
{
    const orr_status status = announce_all(t, set, err);
    for (int tier = 0; tier < ORR_TIERS && status != ORR_OK; tier++)
        if (t->shelves[tier].store != NULL)
            orr_store_forget(t->shelves[tier].store, set->batch);
    return status;
}

/* Announces the first set of the queue that is not. The lock is held, and let go meanwhile. */
static void announce_next(orr_tables_ahead *a)
{
    orr_tables_set *set = a->queue[a->announced];
    set->state = ORR_TABLES_SET_ANNOUNCING;
    set->batch = a->next_batch++;
    pthread_mutex_unlock(&a->lock);
    const orr_status status = announce(a->t, set, &set->error);
    pthread_mutex_lock(&a->lock);
    set->state = status == ORR_OK ? ORR_TABLES_SET_ANNOUNCED : ORR_TABLES_SET_FAILED;
    set->error.status = status;
    a->failed = status == ORR_OK ? NULL : set;
    a->announced++;
    pthread_cond_broadcast(&a->changed);
}

static bool can_announce(const orr_tables_ahead *a)
{
    return !a->paused && !a->held && a->failed == NULL && a->announced < a->n;
}

static void *run(void *ctx)
{
    orr_tables_ahead *a = ctx;
    pthread_mutex_lock(&a->lock);
    while (!a->stop)
        if (can_announce(a))
            announce_next(a);
        else
            pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

orr_status orr_tables_ahead_open(orr_tables *t, orr_error *err)
{
    bool any = false;
    for (int tier = 0; tier < ORR_TIERS; tier++)
        any |= t->shelves[tier].store != NULL;
    if (!any)
        return ORR_OK;
    orr_tables_ahead *a = t->ahead = orr_calloc(1, sizeof *a);
    if (a == NULL)
        return orr_fail_memory(err);
    a->t = t;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    if (t->n_sets == 1)
        return ORR_OK;
    a->threaded = pthread_create(&a->thread, NULL, run, a) == 0;
    return a->threaded ? ORR_OK : orr_fail(err, ORR_LIMIT, "no thread to look ahead with");
}

void orr_tables_ahead_close(orr_tables *t)
{
    orr_tables_ahead *a = t->ahead;
    if (a == NULL)
        return;
    orr_tables_pause(t); /* what waits for room gets it */
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (a->threaded)
        pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    orr_free(a);
    t->ahead = NULL;
}

/* Ends a set that was announced in all caches, which wait for rows that are still being read. */
static void end_announced(orr_tables_ahead *a, const orr_tables_set *set, bool changed)
{
    for (int tier = 0; tier < ORR_TIERS; tier++)
        if (store_of(a, tier) != NULL)
            orr_store_end(store_of(a, tier), set->batch, changed);
}

static void take_out(orr_tables_ahead *a, orr_tables_set *set)
{
    uint32_t i = 0;
    while (a->queue[i] != set)
        i++;
    a->announced -= i < a->announced;
    for (a->n--; i < a->n; i++)
        a->queue[i] = a->queue[i + 1];
    set->state = ORR_TABLES_SET_IDLE;
}

void orr_tables_pause(orr_tables *t)
{
    orr_tables_ahead *a = t->ahead;
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->lock);
    a->paused = true;
    for (uint32_t i = 0; i < a->n; i++) {
        orr_tables_set *set = a->queue[i];
        while (set->state == ORR_TABLES_SET_ANNOUNCING)
            pthread_cond_wait(&a->changed, &a->lock);
        if (set->state == ORR_TABLES_SET_ANNOUNCED) {
            end_announced(a, set, false);
            set->state = ORR_TABLES_SET_QUEUED;
            a->announced--;
        }
    }
    pthread_mutex_unlock(&a->lock);
}

void orr_tables_hold(orr_tables *t, bool hold)
{
    if (t->ahead == NULL)
        return;
    pthread_mutex_lock(&t->ahead->lock);
    t->ahead->held = hold;
    pthread_cond_broadcast(&t->ahead->changed);
    pthread_mutex_unlock(&t->ahead->lock);
    if (hold)
        orr_tables_pause(t);
}

/* Slots of the lookups of all shards that stores have. */
static orr_status make_room(orr_tables *t, orr_tables_set *set, orr_error *err)
{
    size_t n = 0;
    for (int tier = 0; tier < ORR_TIERS; tier++)
        for (uint32_t k = 0; k < t->shelves[tier].n; k++)
            n += (size_t)set->lookups[t->shelves[tier].shards[k]].n;
    ORR_TRY(orr_tables_reserve(t, &set->slots, n * sizeof(uint32_t), err));
    uint32_t *at = set->slots.at;
    for (int tier = 0; tier < ORR_TIERS; tier++)
        for (uint32_t k = 0; k < t->shelves[tier].n; k++) {
            orr_shard_lookups *l = &set->lookups[t->shelves[tier].shards[k]];
            l->slots = at;
            at += l->n;
        }
    return ORR_OK;
}

/* The next stage goes on with what was paused. The lock is held. */
static void go_on(orr_tables_ahead *a)
{
    a->paused = false;
    pthread_cond_broadcast(&a->changed);
    while (!a->threaded && can_announce(a))
        announce_next(a);
}

orr_status orr_tables_fetch(orr_tables *t, uint32_t slot, orr_error *err)
{
    orr_tables_ahead *a = t->ahead;
    orr_tables_set *set = orr_tables_set_of(t, slot);
    if (a == NULL)
        return ORR_OK;
    ORR_TRY(make_room(t, set, err));
    pthread_mutex_lock(&a->lock);
    set->state = ORR_TABLES_SET_QUEUED;
    a->queue[a->n++] = set;
    go_on(a);
    pthread_mutex_unlock(&a->lock);
    return ORR_OK;
}

orr_status orr_tables_wait(orr_tables *t, orr_tables_set *set, orr_error *err)
{
    orr_tables_ahead *a = t->ahead;
    if (a == NULL)
        return ORR_OK;
    pthread_mutex_lock(&a->lock);
    go_on(a);
    const int64_t begin = orr_clock_now_ns(&orr_clock_monotonic);
    while (set->state != ORR_TABLES_SET_ANNOUNCED && a->failed == NULL)
        pthread_cond_wait(&a->changed, &a->lock);
    a->stall_ns += orr_clock_now_ns(&orr_clock_monotonic) - begin;
    const orr_tables_set *failed = set->state == ORR_TABLES_SET_ANNOUNCED ? NULL : a->failed;
    pthread_mutex_unlock(&a->lock);
    if (failed != NULL)
        return orr_fail(err, failed->error.status, "%s", failed->error.text);
    for (int tier = 0; tier < ORR_TIERS; tier++)
        if (store_of(a, tier) != NULL)
            ORR_TRY(orr_store_wait(store_of(a, tier), set->batch, err));
    return ORR_OK;
}

orr_status orr_tables_change(orr_tables *t, const orr_tables_set *set, orr_error *err)
{
    for (int tier = 0; tier < ORR_TIERS; tier++)
        if (t->shelves[tier].store != NULL)
            ORR_TRY(orr_store_change(t->shelves[tier].store, set->batch, err));
    return ORR_OK;
}

orr_store_stats orr_tables_tier_stats(const orr_tables *t, orr_tier tier)
{
    orr_store_stats stats = orr_store_stats_of(t->shelves[tier].store);
    pthread_mutex_lock(&t->ahead->lock);
    stats.stall_ns += t->ahead->stall_ns;
    pthread_mutex_unlock(&t->ahead->lock);
    return stats;
}

void orr_tables_end(orr_tables *t, orr_tables_set *set, bool changed)
{
    orr_tables_ahead *a = t->ahead;
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->lock);
    while (set->state == ORR_TABLES_SET_ANNOUNCING)
        pthread_cond_wait(&a->changed, &a->lock);
    if (set->state == ORR_TABLES_SET_ANNOUNCED)
        end_announced(a, set, changed);
    if (set->state != ORR_TABLES_SET_IDLE)
        take_out(a, set);
    pthread_mutex_unlock(&a->lock);
}
