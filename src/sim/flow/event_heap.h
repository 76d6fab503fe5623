/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_EVENT_HEAP_H
#define ORR_SIM_FLOW_EVENT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

/* A queue of events by (time, order), each of which has a row number through which its time can
 * be changed. Four children a node: fewer misses than two on the way down. Only
 * orr_flow_heap_reserve() allocates. */
typedef struct orr_flow_event {
    int64_t at_ns;
    uint64_t order;
    uint32_t row;
} orr_flow_event;
typedef struct orr_flow_heap {
    orr_array(orr_flow_event) events;
    orr_array(uint32_t) place; /* of each row in `events`, or UINT32_MAX */
} orr_flow_heap;

/* Rows 0 .. n_rows - 1 may be put; false when out of memory. */
bool orr_flow_heap_reserve(orr_flow_heap *heap, size_t n_rows);
void orr_flow_heap_done(orr_flow_heap *heap);
/* Put the row, or move it to another time. */
void orr_flow_heap_put(orr_flow_heap *heap, orr_flow_event event);
/* False: empty. */
bool orr_flow_heap_take(orr_flow_heap *heap, int64_t until_ns, orr_flow_event *ret);
/* INT64_MAX when empty. */
int64_t orr_flow_heap_next(const orr_flow_heap *heap);

#endif /* ORR_SIM_FLOW_EVENT_HEAP_H */
