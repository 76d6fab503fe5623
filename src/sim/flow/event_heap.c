/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/flow/event_heap.h"

enum { CHILDREN = 4 };
#define NOWHERE UINT32_MAX

bool orr_flow_heap_reserve(orr_flow_heap *heap, size_t n_rows)
{
    if (heap->place.n < n_rows && !orr_array_reserve(&heap->place, n_rows - heap->place.n))
        return false;
    if (heap->events.n < n_rows && !orr_array_reserve(&heap->events, n_rows - heap->events.n))
        return false;
    while (heap->place.n < n_rows)
        heap->place.at[heap->place.n++] = NOWHERE;
    return true;
}

void orr_flow_heap_done(orr_flow_heap *heap)
{
    orr_array_done(&heap->events);
    orr_array_done(&heap->place);
}

static bool before(const orr_flow_event *a, const orr_flow_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void lay(orr_flow_heap *heap, size_t i, orr_flow_event event)
{
    heap->events.at[i] = event;
    heap->place.at[event.row] = (uint32_t)i;
}

static void up(orr_flow_heap *heap, size_t i, orr_flow_event event)
{
    while (i > 0 && before(&event, &heap->events.at[(i - 1) / CHILDREN])) {
        lay(heap, i, heap->events.at[(i - 1) / CHILDREN]);
        i = (i - 1) / CHILDREN;
    }
    lay(heap, i, event);
}

static void down(orr_flow_heap *heap, size_t i, orr_flow_event event)
{
    const orr_flow_event *at = heap->events.at;
    for (size_t first; (first = CHILDREN * i + 1) < heap->events.n;) {
        size_t least = first;
        for (size_t c = first + 1; c < first + CHILDREN && c < heap->events.n; c++)
            if (before(&at[c], &at[least]))
                least = c;
        if (!before(&at[least], &event))
            break;
        lay(heap, i, at[least]);
        i = least;
    }
    lay(heap, i, event);
}

void orr_flow_heap_put(orr_flow_heap *heap, orr_flow_event event)
{
    const uint32_t place = heap->place.at[event.row];
    if (place == NOWHERE)
        up(heap, heap->events.n++, event);
    else if (before(&event, &heap->events.at[place]))
        up(heap, place, event);
    else
        down(heap, place, event);
}

bool orr_flow_heap_take(orr_flow_heap *heap, int64_t until_ns, orr_flow_event *ret)
{
    if (heap->events.n == 0 || heap->events.at[0].at_ns > until_ns)
        return false;
    *ret = heap->events.at[0];
    heap->place.at[ret->row] = NOWHERE;
    const orr_flow_event last = heap->events.at[--heap->events.n];
    if (heap->events.n > 0)
        down(heap, 0, last);
    return true;
}

int64_t orr_flow_heap_next(const orr_flow_heap *heap)
{
    return heap->events.n > 0 ? heap->events.at[0].at_ns : INT64_MAX;
}
