/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_EVENT_QUEUE_H
#define ORR_SIM_ENGINE_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* Queue of events by (time, rank, node): a heap of four children a node that knows where each
 * entry is, so that an event can be moved. An entry is known by its id, a small number; each is in
 * the queue once at most. Allocates only while the largest id or the number of entries grows. */
typedef struct orr_queued_event {
    int64_t at_ns;
    uint32_t rank, node;
    uint32_t id;
} orr_queued_event;

typedef struct orr_event_queue {
    orr_queued_event *heap;
    uint32_t n, room;
    uint32_t *place; /* shape (room): where in the heap; UINT32_MAX: not in it */
} orr_event_queue;

/* Start with {0}. Room for ids below n_ids; false: out of memory. */
bool orr_event_queue_reserve(orr_event_queue *queue, uint32_t n_ids);
void orr_event_queue_done(orr_event_queue *queue);

/* Put the event in, or move it if its id is there. The id must have room. */
void orr_event_queue_put(orr_event_queue *queue, orr_queued_event event);
/* The first, taken out; false: empty. */
bool orr_event_queue_pop(orr_event_queue *queue, orr_queued_event *ret);
static inline const orr_queued_event *orr_event_queue_first(const orr_event_queue *queue)
{
    return queue->n > 0 ? &queue->heap[0] : 0;
}

#endif /* ORR_SIM_ENGINE_EVENT_QUEUE_H */
