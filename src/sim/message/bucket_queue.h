/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_MESSAGE_BUCKET_QUEUE_H
#define ORR_SIM_MESSAGE_BUCKET_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

/* Bucket queue: a priority queue with a bucket for each distinct time (cf. calendar queues, Brown
 * 1988); events of one time keep the order in which they were pushed.
 *
 * Jobs are symmetric, so thousands of events share a time. A bucket is found through a small
 * cache and behind it a hash table, and a heap orders the buckets. Pushing and taking an event
 * is then a write and a read of 16 bytes in a row. Nothing is allocated once the buckets have
 * grown. */
typedef struct orr_message_event {
    uint64_t what; /* for the caller */
    uint32_t who, index;
} orr_message_event;

typedef struct orr_time_bucket {
    int64_t ns; /* -1: idle */
    orr_message_event *at;
    uint32_t n, room;
} orr_time_bucket;

typedef struct orr_time_bucket_key {
    int64_t ns;
    uint32_t bucket;
} orr_time_bucket_key;

enum { ORR_QUEUE_RECENT = 64 };
typedef struct orr_bucket_queue {
    orr_array(orr_time_bucket) buckets;
    orr_array(uint32_t) idle;
    orr_array(orr_time_bucket_key) heap;
    uint32_t *table; /* bucket + 1 by time, open addressing; 0: empty */
    uint32_t table_mask, used;
    uint32_t recent[ORR_QUEUE_RECENT]; /* buckets pushed to most recently, by time */
    bool failed;                       /* out of memory: events were lost */
} orr_bucket_queue;

bool orr_bucket_queue_init(orr_bucket_queue *queue); /* false: out of memory */
void orr_bucket_queue_done(orr_bucket_queue *queue);

/* The bucket of a time, made if there is none; NULL: out of memory. */
orr_time_bucket *orr_bucket_queue_bucket(orr_bucket_queue *queue, int64_t ns);
bool orr_bucket_grow(orr_time_bucket *bucket);

/* Slot of a time in the cache of recent buckets. */
static inline uint32_t orr_bucket_queue_slot(int64_t ns)
{
    return (uint32_t)(((uint64_t)ns * UINT64_C(0x9E3779B97F4A7C15)) >> 58);
}

/* Pushes an event. `ns`: not before the time of the bucket taken last. */
static inline void orr_bucket_queue_push(orr_bucket_queue *queue, int64_t ns,
                                         orr_message_event event)
{
    orr_time_bucket *bucket = &queue->buckets.at[queue->recent[orr_bucket_queue_slot(ns)]];
    if (__builtin_expect(bucket->ns != ns, 0))
        bucket = orr_bucket_queue_bucket(queue, ns);
    if (bucket == NULL || (bucket->n == bucket->room && !orr_bucket_grow(bucket))) {
        queue->failed = true;
        return;
    }
    bucket->at[bucket->n++] = event;
}

/* Takes the earliest bucket: its number, or UINT32_MAX when there is none. Events that are
 * pushed for its time meanwhile are appended to it; then give it back with
 * orr_bucket_queue_recycle(). */
uint32_t orr_bucket_queue_take(orr_bucket_queue *queue);
void orr_bucket_queue_recycle(orr_bucket_queue *queue, uint32_t bucket);

#endif /* ORR_SIM_MESSAGE_BUCKET_QUEUE_H */
