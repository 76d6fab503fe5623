/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_ATTRS_H
#define ORR_GRAPH_ATTRS_H

#include <orrery/graph.h>

#include "base/array.h"
#include "graph/hash_index.h"

/* Attribute lists in one heap of bytes, each different list once. A list is known by
 * its number; number 0 is the empty one. A string costs 12 bytes, an int64 16.
 *
 *   list:      u32 bytes of the body, u32 hash, body; begins at a multiple of 8
 *   attribute: u32 name, u32 tag, [u32 doc], [u32 count, in lists], padding to the
 *              alignment of the values, values, padding to 4
 */
typedef struct orr_attr_heap {
    orr_array(uint8_t) bytes;
    orr_array(uint64_t) list; /* offset of list i + 1 in bytes */
    orr_hash_index index;
} orr_attr_heap;

/* Number of the list that holds these attributes, adding it if it is new. String ids
 * must be below n_strings. Errors: NO_MEMORY; LIMIT (a list over 2 GiB, or
 * 2^32 - 2 lists); INVALID (kind, count, string). The heap is unchanged then. */
orr_status orr_attr_heap_add(orr_attr_heap *heap, const orr_attr *attrs, uint32_t n_attrs,
                             uint32_t n_strings, uint32_t *ret_list, orr_error *err) ORR_MUST_CHECK;

orr_attr_iter orr_attr_heap_list(const orr_attr_heap *heap, uint32_t list);
/* No more lists will come: gives back what only adding needs. */
void orr_attr_heap_freeze(orr_attr_heap *heap);
void orr_attr_heap_done(orr_attr_heap *heap);
size_t orr_attr_heap_bytes(const orr_attr_heap *heap);

/* Bytes of one value of that kind. */
size_t orr_attr_value_bytes(orr_attr_kind kind);

#endif /* ORR_GRAPH_ATTRS_H */
