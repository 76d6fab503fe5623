/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/common/idmap.h"

#include "base/alloc.h"

#define EMPTY UINT32_MAX

void orr_idmap_done(orr_idmap *map)
{
    orr_free(map->slot);
    *map = (orr_idmap){0};
}

/* Fibonacci hashing: ids are mostly consecutive, and a multiplication spreads them over the high
 * bits. */
static size_t slot_of(uint64_t key, size_t room)
{
    const uint64_t mixed = (key ^ key >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return (mixed ^ mixed >> 29) & (room - 1);
}

/* The slot of that key, or the empty one where it belongs. */
static orr_idmap_slot *find(orr_idmap_slot *slots, size_t room, uint64_t key)
{
    size_t at = slot_of(key, room);
    while (slots[at].value != EMPTY && slots[at].key != key)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static orr_status grow(orr_idmap *map, orr_error *err)
{
    const size_t room = map->room ? map->room * 2 : 64;
    size_t bytes;
    orr_idmap_slot *slots = orr_mul_size(room, sizeof *slots, &bytes) ? orr_malloc(bytes) : NULL;
    if (slots == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < room; i++)
        slots[i].value = EMPTY;
    for (size_t i = 0; i < map->room; i++)
        if (map->slot[i].value != EMPTY)
            *find(slots, room, map->slot[i].key) = map->slot[i];
    orr_free(map->slot);
    map->slot = slots;
    map->room = room;
    return ORR_OK;
}

uint32_t orr_idmap_get(const orr_idmap *map, uint64_t key)
{
    return map->n == 0 ? EMPTY : find(map->slot, map->room, key)->value;
}

/* The slot for that key, with room made for it. */
static orr_status place(orr_idmap *map, uint64_t key, orr_idmap_slot **ret, orr_error *err)
{
    if (map->n + map->n / 2 >= map->room)
        ORR_TRY(grow(map, err));
    *ret = find(map->slot, map->room, key);
    return ORR_OK;
}

orr_status orr_idmap_set(orr_idmap *map, uint64_t key, uint32_t value, orr_error *err)
{
    orr_idmap_slot *slot;
    ORR_TRY(place(map, key, &slot, err));
    map->n += slot->value == EMPTY;
    *slot = (orr_idmap_slot){key, value};
    return ORR_OK;
}

orr_status orr_idmap_add(orr_idmap *map, uint64_t key, uint32_t value, uint32_t *ret_old,
                         orr_error *err)
{
    orr_idmap_slot *slot;
    ORR_TRY(place(map, key, &slot, err));
    *ret_old = slot->value;
    if (slot->value == EMPTY) {
        *slot = (orr_idmap_slot){key, value};
        map->n++;
    }
    return ORR_OK;
}
