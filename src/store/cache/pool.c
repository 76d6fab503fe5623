/* SPDX-License-Identifier: Apache-2.0 */
#include "store/cache/pool.h"

#include <sys/mman.h>

#include "base/alloc.h"

#define NO_SLOT ((uint32_t)ORR_CACHE_NO_SLOT)

static size_t page_up(size_t bytes)
{
    enum { PAGE = 2 << 20 };
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Zeros, of which only pages that are written take memory. NUMA is left to the system: a page is on
 * the node of the thread that first writes to it. */
static char *map(size_t bytes, bool huge_pages)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (huge_pages)
        (void)madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

/* Heads of lists stand behind the slots and point to themselves while their list is empty. */
static void init_lists(orr_cache_pool *pool)
{
    for (uint32_t i = pool->n; i < pool->n + ORR_CACHE_FREQUENCIES; i++)
        pool->slots[i].prev = pool->slots[i].next = i;
}

orr_status orr_cache_pool_init(orr_cache_pool *pool, uint32_t row_bytes, uint32_t state_bytes,
                               uint32_t n, bool identity, orr_cache_policy policy, bool huge_pages,
                               orr_error *err)
{
    const size_t words = (size_t)n / 64 + 1;
    size_t row_map, state_map;
    if (!orr_mul_size(n, row_bytes, &row_map) || !orr_mul_size(n, state_bytes, &state_map) ||
        n >= UINT32_MAX - ORR_CACHE_FREQUENCIES)
        return orr_fail_memory(err);
    *pool = (orr_cache_pool){.row_bytes = row_bytes,
                             .state_bytes = state_bytes,
                             .identity = identity,
                             .policy = (uint8_t)policy,
                             .n = n,
                             .first_free = NO_SLOT,
                             .row_map = page_up(row_map + 1),
                             .state_map = page_up(state_map + 1),
                             .dirty = orr_calloc(words, sizeof(uint64_t)),
                             .owed = orr_calloc(words, sizeof(uint64_t))};
    pool->rows = map(pool->row_map, huge_pages);
    pool->states = map(pool->state_map, huge_pages);
    if (identity) {
        pool->homes = orr_calloc((size_t)n + 1, sizeof *pool->homes);
    } else {
        pool->slots = orr_calloc((size_t)n + ORR_CACHE_FREQUENCIES, sizeof *pool->slots);
        pool->owner = orr_calloc((size_t)n + 1, sizeof *pool->owner);
    }
    if (pool->rows == NULL || pool->states == NULL || pool->dirty == NULL || pool->owed == NULL ||
        (identity ? pool->homes == NULL : pool->slots == NULL || pool->owner == NULL)) {
        orr_cache_pool_done(pool);
        return orr_fail_memory(err);
    }
    if (!identity)
        init_lists(pool);
    return ORR_OK;
}

void orr_cache_pool_done(orr_cache_pool *pool)
{
    if (pool->rows != NULL)
        (void)munmap(pool->rows, pool->row_map);
    if (pool->states != NULL)
        (void)munmap(pool->states, pool->state_map);
    orr_free(pool->slots);
    orr_free(pool->owner);
    orr_free(pool->homes);
    orr_free(pool->dirty);
    orr_free(pool->owed);
    *pool = (orr_cache_pool){0};
}

/* The list that an evictable slot stands in. */
static uint32_t list_of(const orr_cache_pool *pool, const orr_cache_slot *slot)
{
    return pool->policy == ORR_CACHE_POLICY_LRU ? 0 : slot->frequency;
}

static void unlink_slot(orr_cache_pool *pool, orr_cache_slot *slot)
{
    pool->slots[slot->prev].next = slot->next;
    pool->slots[slot->next].prev = slot->prev;
    if (slot->prev == slot->next) { /* the head, which is alone now */
        const uint32_t list = list_of(pool, slot);
        pool->occupied[list / 64] &= ~(UINT64_C(1) << list % 64);
    }
}

static void link_last(orr_cache_pool *pool, uint32_t i)
{
    orr_cache_slot *slot = &pool->slots[i];
    const uint32_t list = list_of(pool, slot), head = pool->n + list;
    slot->state = ORR_CACHE_EVICTABLE;
    slot->next = head;
    slot->prev = pool->slots[head].prev;
    pool->slots[slot->prev].next = i;
    pool->slots[head].prev = i;
    pool->occupied[list / 64] |= UINT64_C(1) << list % 64;
}

/* A count and one more batch, or not. Linear congruential: a bit of chance is all that is asked. */
static uint8_t counted(orr_cache_pool *pool, uint8_t frequency)
{
    if (pool->level >= ORR_CACHE_AGING_LEVELS) {
        pool->random = pool->random * 1664525 + 1013904223;
        if (pool->random >> (32 - (pool->level - ORR_CACHE_AGING_LEVELS + 1)) != 0)
            return frequency;
    }
    return (uint8_t)(frequency + (frequency < 255));
}

uint32_t orr_cache_pool_take(orr_cache_pool *pool, uint32_t batch, uint8_t frequency)
{
    uint32_t i = pool->first_free;
    if (i != NO_SLOT)
        pool->first_free = pool->slots[i].next;
    else if (pool->used < pool->n)
        i = pool->used++;
    else
        return NO_SLOT;
    pool->slots[i] = (orr_cache_slot){
        .batch = batch, .state = ORR_CACHE_PINNED, .frequency = counted(pool, frequency)};
    return i;
}

uint32_t orr_cache_pool_victim(const orr_cache_pool *pool)
{
    for (uint32_t word = 0; word < ORR_CACHE_FREQUENCIES / 64; word++)
        if (pool->occupied[word] != 0) {
            const uint32_t list = word * 64 + (uint32_t)__builtin_ctzll(pool->occupied[word]);
            return pool->slots[pool->n + list].next;
        }
    return NO_SLOT;
}

void orr_cache_pool_release(orr_cache_pool *pool, uint32_t i)
{
    orr_cache_slot *slot = &pool->slots[i];
    if (slot->state == ORR_CACHE_EVICTABLE)
        unlink_slot(pool, slot);
    slot->state = ORR_CACHE_FREE;
    slot->next = pool->first_free;
    pool->first_free = i;
}

void orr_cache_pool_pin(orr_cache_pool *pool, uint32_t i, uint32_t batch)
{
    orr_cache_slot *slot = &pool->slots[i];
    if (slot->state == ORR_CACHE_EVICTABLE)
        unlink_slot(pool, slot);
    slot->state = ORR_CACHE_PINNED;
    slot->batch = batch;
    slot->frequency = counted(pool, slot->frequency);
}

void orr_cache_pool_unpin(orr_cache_pool *pool, uint32_t i, uint32_t batch)
{
    if (pool->slots[i].state == ORR_CACHE_PINNED && pool->slots[i].batch == batch)
        link_last(pool, i);
}

void orr_cache_pool_age(orr_cache_pool *pool, uint32_t n)
{
    for (; n > 0 && pool->used > 0; n--) {
        const uint32_t i = pool->sweep < pool->used ? pool->sweep : 0;
        orr_cache_slot *slot = &pool->slots[i];
        const bool listed =
            slot->state == ORR_CACHE_EVICTABLE && pool->policy != ORR_CACHE_POLICY_LRU;
        pool->sweep = i + 1;
        if (listed)
            unlink_slot(pool, slot);
        slot->frequency /= 2;
        if (listed)
            link_last(pool, i);
    }
}

void orr_cache_pool_adapt(orr_cache_pool *pool)
{
    enum { FEW = 12, MANY = 96 };
    const uint32_t victim = pool->used == pool->n ? orr_cache_pool_victim(pool) : NO_SLOT;
    if (victim == NO_SLOT)
        return;
    if (pool->slots[victim].frequency > MANY && pool->level + 1 < ORR_CACHE_LEVELS)
        pool->level++;
    else if (pool->slots[victim].frequency < FEW && pool->level > 0)
        pool->level--;
}
