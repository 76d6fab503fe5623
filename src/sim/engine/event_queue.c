/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/event_queue.h"

#include <string.h>

#include "base/alloc.h"

enum { CHILDREN = 4, LEAST_ROOM = 64 };

static bool before(const orr_queued_event *a, const orr_queued_event *b)
{
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    return a->node != b->node ? a->node < b->node : a->id < b->id;
}

bool orr_event_queue_reserve(orr_event_queue *q, uint32_t n_ids)
{
    if (n_ids <= q->room)
        return true;
    const uint64_t half_more = (uint64_t)q->room + q->room / 2;
    uint64_t room = half_more > n_ids ? half_more : n_ids;
    if (room < LEAST_ROOM)
        room = LEAST_ROOM;
    if (room > UINT32_MAX)
        room = UINT32_MAX;
    orr_queued_event *heap = orr_realloc(q->heap, room * sizeof *heap);
    if (heap == NULL)
        return false;
    q->heap = heap;
    uint32_t *place = orr_realloc(q->place, room * sizeof *place);
    if (place == NULL)
        return false;
    q->place = place;
    memset(place + q->room, 0xff, (room - q->room) * sizeof *place);
    q->room = (uint32_t)room;
    return true;
}

void orr_event_queue_done(orr_event_queue *q)
{
    orr_free(q->heap);
    orr_free(q->place);
    *q = (orr_event_queue){0};
}

static void set(orr_event_queue *q, uint32_t i, orr_queued_event event)
{
    q->heap[i] = event;
    q->place[event.id] = i;
}

static void rise(orr_event_queue *q, uint32_t i, orr_queued_event event)
{
    while (i > 0) {
        const uint32_t above = (i - 1) / CHILDREN;
        if (!before(&event, &q->heap[above]))
            break;
        set(q, i, q->heap[above]);
        i = above;
    }
    set(q, i, event);
}

static void sink(orr_event_queue *q, uint32_t i, orr_queued_event event)
{
    for (;;) {
        const uint64_t first = (uint64_t)i * CHILDREN + 1;
        uint64_t least = first;
        if (first >= q->n)
            break;
        for (uint64_t c = first + 1; c < first + CHILDREN && c < q->n; c++)
            if (before(&q->heap[c], &q->heap[least]))
                least = c;
        if (!before(&q->heap[least], &event))
            break;
        set(q, i, q->heap[least]);
        i = (uint32_t)least;
    }
    set(q, i, event);
}

void orr_event_queue_put(orr_event_queue *q, orr_queued_event event)
{
    const uint32_t i = q->place[event.id];
    if (i == UINT32_MAX)
        rise(q, q->n++, event);
    else if (before(&event, &q->heap[i]))
        rise(q, i, event);
    else
        sink(q, i, event);
}

bool orr_event_queue_pop(orr_event_queue *q, orr_queued_event *ret)
{
    if (q->n == 0)
        return false;
    *ret = q->heap[0];
    q->place[ret->id] = UINT32_MAX;
    if (--q->n > 0)
        sink(q, 0, q->heap[q->n]);
    return true;
}
