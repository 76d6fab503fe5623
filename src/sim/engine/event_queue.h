/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_EVENT_QUEUE_H
#define ORR_SIM_ENGINE_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* Priority queue of events by (time, rank, node): an indexed 4-ary heap, so that an event can be
 * moved to another time. An entry is identified by its id, a small number, and is in the queue
 * at most once. Memory is allocated only when the largest id or the number of entries grows. */
typedef struct orr_queued_event {
    int64_t at_ns;
    uint32_t rank, node;
    uint32_t id;
} orr_queued_event;

typedef struct orr_event_queue {
    orr_queued_event *heap;
    uint32_t n, room;
    uint32_t *place; /* shape (room): position in the heap; UINT32_MAX: not in it */
} orr_event_queue;

/* Makes room for ids below n_ids; a queue starts as {0}. False: out of memory. */
bool orr_event_queue_reserve(orr_event_queue *queue, uint32_t n_ids);
void orr_event_queue_done(orr_event_queue *queue);

/* Inserts the event, or moves it if its id is in the queue. There must be room for the id. */
void orr_event_queue_put(orr_event_queue *queue, orr_queued_event event);
/* Removes the first event. False: the queue is empty. */
bool orr_event_queue_pop(orr_event_queue *queue, orr_queued_event *ret);
static inline const orr_queued_event *orr_event_queue_first(const orr_event_queue *queue)
{
    return queue->n > 0 ? &queue->heap[0] : 0;
}

#endif /* ORR_SIM_ENGINE_EVENT_QUEUE_H */
