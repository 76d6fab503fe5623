/* SPDX-License-Identifier: Apache-2.0 */

#include "base/alloc.h"
#include "sim/message/messages.h"

enum { FIRST = 64 };

static uint32_t slot_of(const orr_unexpected *early, orr_message_event key)
{
    uint64_t h = key.what * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ (h >> 29) ^ ((uint64_t)key.who << 32 | key.index)) * UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)(h >> 32) & early->mask;
}

/* `what` is stored plus one, so that no key is empty. */
static void put(orr_unexpected *early, orr_message_event key)
{
    uint32_t slot = slot_of(early, key);
    while (early->table[slot].what != 0)
        slot = (slot + 1) & early->mask;
    early->table[slot] = key;
}

bool orr_unexpected_init(orr_unexpected *early)
{
    *early = (orr_unexpected){.table = orr_calloc(FIRST, sizeof *early->table), .mask = FIRST - 1};
    return early->table != NULL;
}

void orr_unexpected_done(orr_unexpected *early)
{
    orr_free(early->table);
    early->table = NULL;
}

static bool grow(orr_unexpected *early)
{
    const orr_unexpected old = *early;
    orr_message_event *table = orr_calloc(2 * ((size_t)old.mask + 1), sizeof *table);
    if (table == NULL)
        return false;
    early->table = table;
    early->mask = 2 * old.mask + 1;
    for (uint32_t i = 0; i <= old.mask; i++)
        if (old.table[i].what != 0)
            put(early, old.table[i]);
    orr_free(old.table);
    return true;
}

bool orr_unexpected_add(orr_unexpected *early, orr_message_event key)
{
    if (2 * (early->used + 1) > early->mask && !grow(early))
        return false;
    key.what++;
    put(early, key);
    early->used++;
    return true;
}

bool orr_unexpected_take(orr_unexpected *early, orr_message_event key)
{
    key.what++;
    uint32_t slot = slot_of(early, key);
    for (;; slot = (slot + 1) & early->mask) {
        const orr_message_event *at = &early->table[slot];
        if (at->what == 0)
            return false;
        if (at->what == key.what && at->who == key.who && at->index == key.index)
            break;
    }
    uint32_t hole = slot;
    for (uint32_t next = (hole + 1) & early->mask; early->table[next].what != 0;
         next = (next + 1) & early->mask) {
        const uint32_t home = slot_of(early, early->table[next]);
        if (((next - home) & early->mask) >= ((next - hole) & early->mask)) {
            early->table[hole] = early->table[next];
            hole = next;
        }
    }
    early->table[hole].what = 0;
    early->used--;
    return true;
}
