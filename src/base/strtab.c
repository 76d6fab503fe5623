/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strtab.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/array.h"

/* A slot of the hash table: the number of a string + 1 (0: free) and the upper half of its hash,
 * so that a probe touches the text only where it is nearly certain to be equal. */
typedef struct slot {
    uint32_t id_plus_1;
    uint32_t hash_high;
} slot;

typedef struct entry {
    const char *text;
    uint32_t len;
    uint32_t hash_low; /* with hash_high: growing does not hash again */
    uint32_t hash_high;
} entry;

/* Texts live in chunks that never move; a long text gets a chunk to itself. */
enum { CHUNK_BYTES = 64 * 1024, LONG_TEXT_BYTES = CHUNK_BYTES / 4, FIRST_SLOTS = 256 };

struct orr_strtab {
    slot *slots;
    size_t mask; /* slots - 1 */
    orr_array(entry) entries;
    orr_array(char *) chunks;
    char *chunk_at;
    size_t chunk_left;
    size_t text_bytes; /* asked of malloc */
};

orr_strtab *orr_strtab_new(void)
{
    orr_strtab *tab = orr_calloc(1, sizeof *tab);
    if (tab == NULL)
        return NULL;
    tab->slots = orr_calloc(FIRST_SLOTS, sizeof *tab->slots);
    tab->mask = FIRST_SLOTS - 1;
    if (tab->slots == NULL || orr_strtab_add(tab, "", 0) != 0) {
        orr_strtab_free(tab);
        return NULL;
    }
    return tab;
}

void orr_strtab_free(orr_strtab *tab)
{
    if (tab == NULL)
        return;
    for (size_t i = 0; i < tab->chunks.n; i++)
        orr_free(tab->chunks.at[i]);
    orr_array_done(&tab->chunks);
    orr_array_done(&tab->entries);
    orr_free(tab->slots);
    orr_free(tab);
}

static inline uint64_t load64(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Most names are short: two loads that may overlap are quicker than a call. */
static inline bool same_text(const char *a, const char *b, size_t len)
{
    if (len >= 8 && len <= 16)
        return load64(a) == load64(b) && load64(a + len - 8) == load64(b + len - 8);
    return memcmp(a, b, len) == 0;
}

/* The slot where the text is, or the free one where it belongs. */
static slot *look_up(const orr_strtab *tab, uint64_t hash, const char *text, size_t len)
{
    const uint32_t high = (uint32_t)(hash >> 32);
    for (size_t i = (size_t)hash & tab->mask;; i = (i + 1) & tab->mask) {
        slot *s = &tab->slots[i];
        if (s->id_plus_1 == 0)
            return s;
        if (s->hash_high != high)
            continue;
        const entry *e = &tab->entries.at[s->id_plus_1 - 1];
        if (e->len == len && same_text(e->text, text, len))
            return s;
    }
}

static bool grow_slots(orr_strtab *tab)
{
    const size_t count = (tab->mask + 1) * 2;
    slot *slots = orr_calloc(count, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t id = 0; id < tab->entries.n; id++) {
        const entry *e = &tab->entries.at[id];
        size_t i = e->hash_low & (count - 1);
        while (slots[i].id_plus_1 != 0)
            i = (i + 1) & (count - 1);
        slots[i] = (slot){.id_plus_1 = (uint32_t)id + 1, .hash_high = e->hash_high};
    }
    orr_free(tab->slots);
    tab->slots = slots;
    tab->mask = count - 1;
    return true;
}

static char *new_chunk(orr_strtab *tab, size_t bytes)
{
    if (!orr_array_reserve(&tab->chunks, 1))
        return NULL;
    char *chunk = orr_malloc(bytes);
    if (chunk == NULL)
        return NULL;
    tab->chunks.at[tab->chunks.n++] = chunk;
    tab->text_bytes += bytes;
    return chunk;
}

static char *text_room(orr_strtab *tab, size_t bytes)
{
    if (bytes > LONG_TEXT_BYTES)
        return new_chunk(tab, bytes);
    if (tab->chunk_left < bytes) {
        char *chunk = new_chunk(tab, CHUNK_BYTES);
        if (chunk == NULL)
            return NULL;
        tab->chunk_at = chunk;
        tab->chunk_left = CHUNK_BYTES;
    }
    char *result = tab->chunk_at;
    tab->chunk_at += bytes;
    tab->chunk_left -= bytes;
    return result;
}

static uint32_t add_new(orr_strtab *tab, slot *free_slot, uint64_t hash, const char *text,
                        size_t len)
{
    static const uint64_t most_bytes = UINT64_C(1) << 40;
    if (len >= UINT32_MAX || tab->entries.n >= UINT32_MAX - 1 || tab->text_bytes + len > most_bytes)
        return UINT32_MAX;
    /* Linear probing stays short while at most half of the slots are taken. Beyond 2^32
     * slots the low half of the hash no longer tells them apart; strings end before. */
    if ((tab->entries.n + 1) * 2 > tab->mask + 1) {
        if (!grow_slots(tab))
            return UINT32_MAX;
        free_slot = look_up(tab, hash, text, len);
    }
    char *copy;
    if (!orr_array_reserve(&tab->entries, 1) || (copy = text_room(tab, len + 1)) == NULL)
        return UINT32_MAX;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    const uint32_t id = (uint32_t)tab->entries.n++;
    tab->entries.at[id] = (entry){.text = copy,
                                  .len = (uint32_t)len,
                                  .hash_low = (uint32_t)hash,
                                  .hash_high = (uint32_t)(hash >> 32)};
    *free_slot = (slot){.id_plus_1 = id + 1, .hash_high = (uint32_t)(hash >> 32)};
    return id;
}

uint32_t orr_strtab_add(orr_strtab *tab, const char *text, size_t len)
{
    if (len == 0 && tab->entries.n > 0)
        return 0;
    const uint64_t hash = XXH3_64bits(text, len);
    slot *s = look_up(tab, hash, text, len);
    return s->id_plus_1 != 0 ? s->id_plus_1 - 1 : add_new(tab, s, hash, text, len);
}

uint32_t orr_strtab_find(const orr_strtab *tab, const char *text, size_t len)
{
    return len == 0 ? 0 : look_up(tab, XXH3_64bits(text, len), text, len)->id_plus_1 - 1;
}

const char *orr_strtab_text(const orr_strtab *tab, uint32_t id)
{
    return tab->entries.at[id].text;
}

size_t orr_strtab_len(const orr_strtab *tab, uint32_t id)
{
    return tab->entries.at[id].len;
}

uint32_t orr_strtab_count(const orr_strtab *tab)
{
    return (uint32_t)tab->entries.n;
}

size_t orr_strtab_held_bytes(const orr_strtab *tab)
{
    return sizeof *tab + (tab->mask + 1) * sizeof *tab->slots +
           tab->entries.room * sizeof *tab->entries.at + tab->chunks.room * sizeof *tab->chunks.at +
           tab->text_bytes;
}
