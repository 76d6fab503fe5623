/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/bucket_queue.h"

#include "base/alloc.h"

enum { FIRST_TABLE = 256, FIRST_ROOM = 16 };

static uint32_t hash_of(const orr_bucket_queue *queue, int64_t ns)
{
    return (uint32_t)(((uint64_t)ns * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & queue->table_mask;
}

bool orr_bucket_queue_init(orr_bucket_queue *queue)
{
    *queue = (orr_bucket_queue){.table_mask = FIRST_TABLE - 1};
    queue->table = orr_calloc(FIRST_TABLE, sizeof *queue->table);
    /* Bucket 0 is never used: every entry of the cache refers to it at first. */
    return queue->table != NULL && orr_array_push(&queue->buckets, (orr_time_bucket){.ns = -1});
}

void orr_bucket_queue_done(orr_bucket_queue *queue)
{
    for (size_t i = 0; i < queue->buckets.n; i++)
        orr_free(queue->buckets.at[i].at);
    orr_array_done(&queue->buckets);
    orr_array_done(&queue->idle);
    orr_array_done(&queue->heap);
    orr_free(queue->table);
    queue->table = NULL;
}

bool orr_bucket_grow(orr_time_bucket *bucket)
{
    const uint32_t room = bucket->room > 0 ? bucket->room + bucket->room / 2 : FIRST_ROOM;
    if (room < bucket->room)
        return false;
    orr_message_event *at = orr_realloc(bucket->at, room * sizeof *at);
    if (at == NULL)
        return false;
    bucket->at = at;
    bucket->room = room;
    return true;
}

static void table_put(orr_bucket_queue *queue, uint32_t bucket)
{
    uint32_t slot = hash_of(queue, queue->buckets.at[bucket].ns);
    while (queue->table[slot] != 0)
        slot = (slot + 1) & queue->table_mask;
    queue->table[slot] = bucket + 1;
}

/* Grows the hash table so that it stays at most half full. */
static bool table_reserve(orr_bucket_queue *queue)
{
    if (2 * (queue->used + 1) <= queue->table_mask)
        return true;
    const uint32_t old_mask = queue->table_mask;
    uint32_t *old = queue->table;
    uint32_t *table = orr_calloc(2 * ((size_t)old_mask + 1), sizeof *table);
    if (table == NULL)
        return false;
    queue->table = table;
    queue->table_mask = 2 * old_mask + 1;
    for (uint32_t i = 0; i <= old_mask; i++)
        if (old[i] != 0)
            table_put(queue, old[i] - 1);
    orr_free(old);
    return true;
}

/* Removes an entry without a tombstone: the entries after it move up. */
static void table_remove(orr_bucket_queue *queue, int64_t ns)
{
    const uint32_t mask = queue->table_mask;
    uint32_t hole = hash_of(queue, ns);
    while (queue->buckets.at[queue->table[hole] - 1].ns != ns)
        hole = (hole + 1) & mask;
    for (uint32_t next = (hole + 1) & mask; queue->table[next] != 0; next = (next + 1) & mask) {
        const uint32_t home = hash_of(queue, queue->buckets.at[queue->table[next] - 1].ns);
        if (((next - home) & mask) >= ((next - hole) & mask)) {
            queue->table[hole] = queue->table[next];
            hole = next;
        }
    }
    queue->table[hole] = 0;
    queue->used--;
}

static bool heap_push(orr_bucket_queue *queue, orr_time_bucket_key key)
{
    if (!orr_array_push(&queue->heap, key))
        return false;
    size_t i = queue->heap.n - 1;
    for (; i > 0 && queue->heap.at[(i - 1) / 2].ns > key.ns; i = (i - 1) / 2)
        queue->heap.at[i] = queue->heap.at[(i - 1) / 2];
    queue->heap.at[i] = key;
    return true;
}

static orr_time_bucket_key heap_pop(orr_bucket_queue *queue)
{
    const orr_time_bucket_key top = queue->heap.at[0], last = queue->heap.at[--queue->heap.n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < queue->heap.n; i = child) {
        if (child + 1 < queue->heap.n && queue->heap.at[child + 1].ns < queue->heap.at[child].ns)
            child++;
        if (queue->heap.at[child].ns >= last.ns)
            break;
        queue->heap.at[i] = queue->heap.at[child];
    }
    if (queue->heap.n > 0)
        queue->heap.at[i] = last;
    return top;
}

/* An idle bucket, or a new one; room to give it back is reserved now. 0: out of memory. */
static uint32_t bucket_new(orr_bucket_queue *queue)
{
    if (queue->idle.n > 0)
        return queue->idle.at[--queue->idle.n];
    if (queue->buckets.n == UINT32_MAX - 1 ||
        !orr_array_push(&queue->buckets, (orr_time_bucket){.ns = -1}))
        return 0;
    if (queue->idle.room < queue->buckets.n && !orr_array_reserve(&queue->idle, queue->buckets.n)) {
        queue->buckets.n--;
        return 0;
    }
    return (uint32_t)queue->buckets.n - 1;
}

orr_time_bucket *orr_bucket_queue_bucket(orr_bucket_queue *queue, int64_t ns)
{
    uint32_t *recent = &queue->recent[orr_bucket_queue_slot(ns)];
    for (uint32_t slot = hash_of(queue, ns); queue->table[slot] != 0;
         slot = (slot + 1) & queue->table_mask) {
        const uint32_t bucket = queue->table[slot] - 1;
        if (queue->buckets.at[bucket].ns == ns) {
            *recent = bucket;
            return &queue->buckets.at[bucket];
        }
    }
    if (!table_reserve(queue))
        return NULL;
    const uint32_t bucket = bucket_new(queue);
    if (bucket == 0)
        return NULL;
    if (!heap_push(queue, (orr_time_bucket_key){ns, bucket})) {
        queue->idle.at[queue->idle.n++] = bucket;
        return NULL;
    }
    queue->buckets.at[bucket].ns = ns;
    table_put(queue, bucket);
    queue->used++;
    *recent = bucket;
    return &queue->buckets.at[bucket];
}

uint32_t orr_bucket_queue_take(orr_bucket_queue *queue)
{
    return queue->heap.n > 0 ? heap_pop(queue).bucket : UINT32_MAX;
}

void orr_bucket_queue_recycle(orr_bucket_queue *queue, uint32_t bucket)
{
    orr_time_bucket *b = &queue->buckets.at[bucket];
    table_remove(queue, b->ns);
    b->ns = -1;
    b->n = 0;
    queue->idle.at[queue->idle.n++] = bucket;
}
