/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/hash_index.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"

#define FIRST_ROOM 64

orr_hash_index_probe orr_hash_index_find(const orr_hash_index *index, uint32_t hash)
{
    return (orr_hash_index_probe){.at = index->room ? hash & (index->room - 1) : 0, .hash = hash};
}

uint32_t orr_hash_index_next(const orr_hash_index *index, orr_hash_index_probe *probe)
{
    if (index->room == 0)
        return UINT32_MAX;
    for (;;) {
        const orr_hash_index_slot slot = index->slot[probe->at];
        if (slot.id == UINT32_MAX)
            return UINT32_MAX;
        probe->at = (probe->at + 1) & (index->room - 1);
        if (slot.hash == probe->hash)
            return slot.id;
    }
}

static void put(orr_hash_index_slot *slots, size_t room, orr_hash_index_slot entry)
{
    size_t at = entry.hash & (room - 1);
    while (slots[at].id != UINT32_MAX)
        at = (at + 1) & (room - 1);
    slots[at] = entry;
}

static bool grow(orr_hash_index *index)
{
    const size_t room = index->room ? 2 * index->room : FIRST_ROOM;
    size_t bytes;
    if (!orr_mul_size(room, sizeof *index->slot, &bytes))
        return false;
    orr_hash_index_slot *slots = orr_malloc(bytes);
    if (slots == NULL)
        return false;
    memset(slots, 0xff, bytes);
    for (size_t i = 0; i < index->room; i++)
        if (index->slot[i].id != UINT32_MAX)
            put(slots, room, index->slot[i]);
    orr_free(index->slot);
    index->slot = slots;
    index->room = room;
    return true;
}

bool orr_hash_index_add(orr_hash_index *index, uint32_t hash, uint32_t id)
{
    /* Two thirds full at most, so that a probe always meets an empty slot. */
    if (index->n >= index->room - index->room / 3 && !grow(index))
        return false;
    put(index->slot, index->room, (orr_hash_index_slot){.hash = hash, .id = id});
    index->n++;
    return true;
}

void orr_hash_index_done(orr_hash_index *index)
{
    orr_free(index->slot);
    *index = (orr_hash_index){0};
}

uint32_t orr_hash_bytes(const void *bytes, size_t len)
{
    const uint64_t hash = XXH3_64bits(bytes, len);
    return (uint32_t)(hash ^ (hash >> 32));
}
