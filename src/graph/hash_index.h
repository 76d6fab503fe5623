/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_HASH_INDEX_H
#define ORR_GRAPH_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Hash index: finds the elements of somebody's array by the hash of their
 * content. It holds ids and hashes only; whether an element is the one sought is
 * for the caller to compare. Zero-initialised is empty. Threads: none while adding.
 *
 *   orr_hash_index_probe probe = orr_hash_index_find(&index, hash);
 *   for (uint32_t id; (id = orr_hash_index_next(&index, &probe)) != UINT32_MAX;)
 *       if (is_it(id)) return id;
 *   ... append the element, then orr_hash_index_add(&index, hash, its_id)
 */
typedef struct orr_hash_index_slot {
    uint32_t hash, id; /* id UINT32_MAX: empty */
} orr_hash_index_slot;

typedef struct orr_hash_index {
    orr_hash_index_slot *slot; /* shape (room), room a power of two */
    size_t n, room;
} orr_hash_index;

typedef struct orr_hash_index_probe {
    size_t at;
    uint32_t hash;
} orr_hash_index_probe;

orr_hash_index_probe orr_hash_index_find(const orr_hash_index *index, uint32_t hash);
/* Next id of that hash, or UINT32_MAX. */
uint32_t orr_hash_index_next(const orr_hash_index *index, orr_hash_index_probe *probe);
/* False when out of memory; the index is unchanged. */
bool orr_hash_index_add(orr_hash_index *index, uint32_t hash, uint32_t id);
void orr_hash_index_done(orr_hash_index *index);

uint32_t orr_hash_bytes(const void *bytes, size_t len);

#endif /* ORR_GRAPH_HASH_INDEX_H */
