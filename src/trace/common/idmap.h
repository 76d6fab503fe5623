/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMMON_IDMAP_H
#define ORR_TRACE_COMMON_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Hash map (open addressing) from 64-bit ids of a recording to 32-bit numbers of ours (never
 * ORR_NONE): node ids, record-function ids, correlations, storages. Zero-initialized is empty.
 * Threads: none. */
typedef struct orr_idmap_slot {
    uint64_t key;
    uint32_t value; /* UINT32_MAX: empty */
} orr_idmap_slot;

typedef struct orr_idmap {
    orr_idmap_slot *slot; /* shape (room), room a power of two */
    size_t n, room;
} orr_idmap;

void orr_idmap_done(orr_idmap *map);
/* The value of that key, or UINT32_MAX. */
uint32_t orr_idmap_get(const orr_idmap *map, uint64_t key);
/* Add, or replace what is there. Errors: NO_MEMORY. */
orr_status orr_idmap_set(orr_idmap *map, uint64_t key, uint32_t value,
                         orr_error *err) ORR_MUST_CHECK;
/* Add if new; *ret_old is what was there before, or UINT32_MAX. Errors: NO_MEMORY. */
orr_status orr_idmap_add(orr_idmap *map, uint64_t key, uint32_t value, uint32_t *ret_old,
                         orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_COMMON_IDMAP_H */
