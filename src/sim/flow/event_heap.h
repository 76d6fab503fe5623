/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_EVENT_HEAP_H
#define ORR_SIM_FLOW_EVENT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

/* Priority queue of events by (time, order): an indexed 4-ary heap, in which the event of a row
 * can be moved to another time. Four children a node cause fewer cache misses than two. Only
 * orr_flow_heap_reserve() allocates. */
typedef struct orr_flow_event {
    int64_t at_ns;
    uint64_t order;
    uint32_t row;
} orr_flow_event;
typedef struct orr_flow_heap {
    orr_array(orr_flow_event) events;
    orr_array(uint32_t) place; /* by row: index in `events`, or UINT32_MAX */
} orr_flow_heap;

/* Makes room for rows 0 .. n_rows - 1. False: out of memory. */
bool orr_flow_heap_reserve(orr_flow_heap *heap, size_t n_rows);
void orr_flow_heap_done(orr_flow_heap *heap);
/* Inserts the row's event, or moves it. */
void orr_flow_heap_put(orr_flow_heap *heap, orr_flow_event event);
/* Removes the first event, if it is not after until_ns. False: there is none. */
bool orr_flow_heap_take(orr_flow_heap *heap, int64_t until_ns, orr_flow_event *ret);
/* Time of the first event; INT64_MAX: empty. */
int64_t orr_flow_heap_next(const orr_flow_heap *heap);

#endif /* ORR_SIM_FLOW_EVENT_HEAP_H */
