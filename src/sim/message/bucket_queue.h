/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_MESSAGE_BUCKET_QUEUE_H
#define ORR_SIM_MESSAGE_BUCKET_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

/* Events in order of time; those of one time in the order in which they were pushed.
 *
 * Jobs are symmetric, so thousands of events share a time: a bucket for each distinct time, found
 * by a small cache and behind it a hash table, ordered by a heap. Pushing and taking an event is
 * then a write and a read of 16 bytes in a row. Nothing is allocated once the buckets have grown.
 */
typedef struct orr_message_event {
    uint64_t what; /* the caller's */
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
    uint32_t recent[ORR_QUEUE_RECENT]; /* buckets pushed to last, by time */
    bool failed;                       /* out of memory: events were lost */
} orr_bucket_queue;

bool orr_bucket_queue_init(orr_bucket_queue *queue); /* false: out of memory */
void orr_bucket_queue_done(orr_bucket_queue *queue);

/* The bucket of a time, made if there is none; NULL: out of memory. */
orr_time_bucket *orr_bucket_queue_bucket(orr_bucket_queue *queue, int64_t ns);
bool orr_bucket_grow(orr_time_bucket *bucket);

/* Which of the recent ones. */
static inline uint32_t orr_bucket_queue_slot(int64_t ns)
{
    return (uint32_t)(((uint64_t)ns * UINT64_C(0x9E3779B97F4A7C15)) >> 58);
}

/* `ns`: not before the time of the bucket taken last. */
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

/* Take the earliest bucket: its number, or UINT32_MAX when there is none. Events pushed for its
 * time while it is worked on join its end; then orr_bucket_queue_recycle() it. */
uint32_t orr_bucket_queue_take(orr_bucket_queue *queue);
void orr_bucket_queue_recycle(orr_bucket_queue *queue, uint32_t bucket);

#endif /* ORR_SIM_MESSAGE_BUCKET_QUEUE_H */
