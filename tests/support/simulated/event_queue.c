/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simulated/event_queue.h"

enum { CHILDREN = 4, EVENT_BITS = 24 };
#define NONE UINT32_MAX

void orr_simnet_queue_init(orr_simnet_queue *queue)
{
    *queue = (orr_simnet_queue){.free = NONE};
}

void orr_simnet_queue_done(orr_simnet_queue *queue)
{
    orr_array_done(&queue->heap);
    orr_array_done(&queue->events);
}

bool orr_simnet_queue_new(orr_simnet_queue *queue, uint32_t *ret)
{
    if (queue->free != NONE) {
        *ret = queue->free;
        queue->free = queue->events.at[*ret].next;
        return true;
    }
    if (queue->events.n >> EVENT_BITS != 0 || !orr_array_reserve(&queue->events, 1))
        return false;
    *ret = (uint32_t)queue->events.n++;
    return true;
}

void orr_simnet_queue_free(orr_simnet_queue *queue, uint32_t event)
{
    queue->events.at[event].next = queue->free;
    queue->free = event;
}

/* Times are never negative, so both halves compare as one number, without a branch. */
static inline bool before(orr_simnet_queue_entry a, orr_simnet_queue_entry b)
{
    const unsigned __int128 x = (unsigned __int128)(uint64_t)a.at_ns << 64 | a.order;
    const unsigned __int128 y = (unsigned __int128)(uint64_t)b.at_ns << 64 | b.order;
    return x < y;
}

bool orr_simnet_queue_put(orr_simnet_queue *queue, int64_t at_ns, uint32_t event)
{
    if (!orr_array_reserve(&queue->heap, 1))
        return false;
    const orr_simnet_queue_entry entry = {.at_ns = at_ns < 0 ? 0 : at_ns,
                                          .order = queue->sequence++ << EVENT_BITS | event};
    orr_simnet_queue_entry *heap = queue->heap.at;
    size_t i = queue->heap.n++;
    for (; i > 0 && before(entry, heap[(i - 1) / CHILDREN]); i = (i - 1) / CHILDREN)
        heap[i] = heap[(i - 1) / CHILDREN];
    heap[i] = entry;
    return true;
}

static size_t least_child(const orr_simnet_queue_entry *heap, size_t n, size_t first)
{
    if (first + CHILDREN <= n) {
        const size_t a = first + before(heap[first + 1], heap[first]);
        const size_t b = first + 2 + before(heap[first + 3], heap[first + 2]);
        return before(heap[b], heap[a]) ? b : a;
    }
    size_t least = first;
    for (size_t c = first + 1; c < n; c++)
        if (before(heap[c], heap[least]))
            least = c;
    return least;
}

bool orr_simnet_queue_take(orr_simnet_queue *queue, int64_t until_ns, int64_t *ret_at_ns,
                           uint32_t *ret)
{
    orr_simnet_queue_entry *heap = queue->heap.at;
    if (queue->heap.n == 0 || heap[0].at_ns >= until_ns)
        return false;
    *ret_at_ns = heap[0].at_ns;
    *ret = orr_simnet_queue_entry_event(&heap[0]);
    const size_t n = --queue->heap.n;
    const orr_simnet_queue_entry last = heap[n];
    size_t i = 0;
    for (size_t first; (first = CHILDREN * i + 1) < n;) {
        const size_t least = least_child(heap, n, first);
        if (!before(heap[least], last))
            break;
        heap[i] = heap[least];
        i = least;
    }
    if (n > 0)
        heap[i] = last;
    return true;
}
