/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate/memo.h"

#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"

struct orr_memo_slot {
    uint64_t hash;
    void *value; /* NULL: empty */
    orr_memo_key key;
};

static orr_memo_slot *slot_of(const orr_memo *memo, const orr_memo_key *key, uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & (memo->room - 1);; i = (i + 1) & (memo->room - 1)) {
        orr_memo_slot *slot = &memo->slots[i];
        if (slot->value == NULL ||
            (slot->hash == hash && memcmp(&slot->key, key, sizeof *key) == 0))
            return slot;
    }
}

void *orr_memo_find(const orr_memo *memo, const orr_memo_key *key)
{
    return memo->room > 0 ? slot_of(memo, key, XXH3_64bits(key, sizeof *key))->value : NULL;
}

static bool grow(orr_memo *memo)
{
    orr_memo larger = {.room = memo->room > 0 ? 2 * memo->room : 64};
    larger.slots = orr_calloc(larger.room, sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (uint32_t i = 0; i < memo->room; i++)
        if (memo->slots[i].value != NULL)
            *slot_of(&larger, &memo->slots[i].key, memo->slots[i].hash) = memo->slots[i];
    larger.n = memo->n;
    orr_free(memo->slots);
    *memo = larger;
    return true;
}

bool orr_memo_add(orr_memo *memo, const orr_memo_key *key, void *value)
{
    if (2 * (memo->n + 1) > memo->room && !grow(memo))
        return false;
    const uint64_t hash = XXH3_64bits(key, sizeof *key);
    *slot_of(memo, key, hash) = (orr_memo_slot){hash, value, *key};
    memo->n++;
    return true;
}

void orr_memo_done(orr_memo *memo)
{
    orr_free(memo->slots);
    *memo = (orr_memo){0};
}
