/* SPDX-License-Identifier: Apache-2.0 */
#include "store/serve/slots.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

enum { CANDIDATES = 6, AGING = 8, HUGE_PAGE = 2 << 20 };

orr_status orr_slot_pool_init(orr_slot_pool *pool, uint32_t slot_bytes, uint32_t n, orr_error *err)
{
    size_t bytes;
    *pool = (orr_slot_pool){.slot_bytes = slot_bytes, .n = n};
    atomic_init(&pool->fresh, 0);
    atomic_init(&pool->hand, 0);
    if (!orr_mul_size(slot_bytes, n, &bytes))
        return orr_fail_memory(err);
    pool->rows = orr_malloc_aligned(bytes + 64);
    pool->owner = orr_calloc((size_t)n + 1, sizeof *pool->owner);
    pool->home = orr_calloc((size_t)n + 1, sizeof *pool->home);
    if (pool->rows == NULL || pool->owner == NULL || pool->home == NULL)
        return orr_fail_memory(err);
    const uintptr_t begin = ((uintptr_t)pool->rows + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (begin + HUGE_PAGE <= (uintptr_t)pool->rows + bytes)
        (void)madvise((void *)begin, (uintptr_t)pool->rows + bytes - begin, MADV_HUGEPAGE);
    return ORR_OK;
}

void orr_slot_pool_done(orr_slot_pool *pool)
{
    orr_free(pool->rows);
    orr_free((void *)pool->owner);
    orr_free((void *)pool->home);
}

orr_status orr_slot_stock_init(orr_slot_stock *stock, uint32_t room, orr_error *err)
{
    *stock = (orr_slot_stock){.room = room};
    stock->free = orr_malloc((size_t)room * sizeof *stock->free + 1);
    stock->retired = orr_malloc((size_t)room * sizeof *stock->retired + 1);
    return stock->free == NULL || stock->retired == NULL ? orr_fail_memory(err) : ORR_OK;
}

void orr_slot_stock_done(orr_slot_stock *stock)
{
    orr_free(stock->free);
    orr_free(stock->retired);
}

void orr_slot_stock_recycle(orr_slot_stock *stock, orr_epochs *epochs)
{
    if (stock->n_retired == 0)
        return;
    const uint64_t passed = orr_epochs_passed(epochs);
    while (stock->n_retired > 0 && stock->retired[stock->first].stamp < passed) {
        stock->free[stock->n_free++] = stock->retired[stock->first].slot;
        stock->first = (stock->first + 1) % stock->room;
        stock->n_retired--;
    }
}

bool orr_slot_take(orr_slot_pool *pool, orr_slot_stock *stock, uint32_t *ret_slot)
{
    if (stock->n_free > 0) {
        *ret_slot = stock->free[--stock->n_free];
        return true;
    }
    if (atomic_load_explicit(&pool->fresh, memory_order_relaxed) >= pool->n)
        return false;
    *ret_slot = atomic_fetch_add_explicit(&pool->fresh, 1, memory_order_relaxed);
    if (*ret_slot < pool->n)
        return true;
    atomic_store_explicit(&pool->fresh, pool->n, memory_order_relaxed);
    return false;
}

void orr_slot_give_back(orr_slot_stock *stock, uint32_t slot)
{
    if (!orr_slot_stock_is_full(stock))
        stock->free[stock->n_free++] = slot;
}

void orr_slot_retire(orr_slot_stock *stock, uint32_t slot, orr_epochs *epochs)
{
    if (orr_slot_stock_is_full(stock))
        return;
    const uint32_t at = (stock->first + stock->n_retired++) % stock->room;
    stock->retired[at] = (struct orr_retired_slot){orr_epoch_stamp(epochs), slot};
}

static orr_shared_entry *entry_of(const orr_entry_tables *entries, uint64_t owner)
{
    return &entries->of[owner >> 48][owner & ((UINT64_C(1) << 48) - 1)];
}

/* The entry of the row in a slot; false: there is none now. */
static bool row_in(const orr_slot_pool *pool, const orr_entry_tables *entries, uint32_t slot,
                   orr_shared_entry **ret, uint64_t *ret_entry)
{
    const uint64_t owner = atomic_load_explicit(&pool->owner[slot], memory_order_relaxed);
    if (owner == 0)
        return false;
    *ret = entry_of(entries, owner - 1);
    *ret_entry = atomic_load(*ret);
    return (*ret_entry & ORR_ROW_RESIDENT) != 0 && orr_entry_slot(*ret_entry) == slot;
}

bool orr_slot_evict(orr_slot_pool *pool, orr_slot_stock *stock, orr_epochs *epochs,
                    const orr_entry_tables *entries, uint32_t frequency, uint32_t random)
{
    orr_shared_entry *victim = NULL;
    uint64_t as = 0;
    if (orr_slot_stock_is_full(stock) ||
        atomic_load_explicit(&pool->fresh, memory_order_relaxed) < pool->n)
        return false;
    const uint32_t hand = atomic_fetch_add_explicit(&pool->hand, CANDIDATES, memory_order_relaxed);
    for (uint32_t i = 0; i < CANDIDATES; i++) {
        orr_shared_entry *one;
        uint64_t entry;
        if (!row_in(pool, entries, (hand + i) % pool->n, &one, &entry))
            continue;
        const uint32_t count = orr_entry_frequency(entry);
        if (victim == NULL || count < orr_entry_frequency(as)) {
            victim = one;
            as = entry;
        }
        if (count > 0 && one != victim && (random >> i * 4) % AGING == 0)
            atomic_compare_exchange_strong(one, &entry,
                                           entry - (UINT64_C(1) << ORR_SLOT_FREQUENCY_SHIFT));
    }
    if (victim == NULL || orr_entry_frequency(as) > frequency)
        return false;
    /* A slot's home may change while its row is in it (cleaning); then its entry has, too. */
    const uint32_t slot = orr_entry_slot(as);
    const uint64_t home = atomic_load(&pool->home[slot]);
    if (!atomic_compare_exchange_strong(victim, &as,
                                        orr_entry_at_home(home, orr_entry_frequency(as))))
        return false;
    orr_slot_retire(stock, slot, epochs);
    return true;
}
