/* SPDX-License-Identifier: Apache-2.0 */
#include "store/serve/pooled.h"

#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"

enum {
    WAYS = 8,
    UNIT = 16, /* bytes that entries are aligned to */
    SEGMENTS = 256,
    SEGMENT_MIN = 4096,
    SEGMENT_MAX = 1 << 20,
    BYTES_A_CELL = 128,
    ROWS_A_STAMP = 8,
    STAMPS_MAX = 1 << 20,
    SPARE = 4, /* segments that are free or soon will be */
};
#define FULL (UINT64_C(1) << 63)

typedef struct pooled_entry {
    uint64_t hash, begun;
    uint32_t table, n, columns, bytes;
    int64_t rows[]; /* shape (n), then the sum, shape (columns) */
} pooled_entry;

static uint64_t power_of_two(uint64_t n, uint64_t most)
{
    uint64_t power = 1;
    while (power < n && power < most)
        power *= 2;
    return power;
}

orr_status orr_pooled_init(orr_pooled_cache *cache, uint64_t bytes, uint64_t rows,
                           orr_epochs *epochs, orr_error *err)
{
    *cache = (orr_pooled_cache){.epochs = epochs};
    uint64_t segment = bytes / SEGMENTS / UNIT * UNIT;
    segment = segment < SEGMENT_MIN ? SEGMENT_MIN : segment > SEGMENT_MAX ? SEGMENT_MAX : segment;
    if (bytes / segment == 0)
        return ORR_OK;
    if (bytes / UNIT > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "a cache of more than 64 GiB of pooled embeddings");
    pthread_mutex_init(&cache->lock, NULL);
    cache->segment_bytes = (uint32_t)segment;
    cache->n_segments = (uint32_t)(bytes / segment);
    cache->buckets = power_of_two(bytes / BYTES_A_CELL / WAYS, UINT64_C(1) << 33);
    cache->n_stamps = power_of_two(rows / ROWS_A_STAMP, STAMPS_MAX);
    cache->memory = orr_malloc_aligned((size_t)(segment * cache->n_segments));
    cache->segments = orr_calloc(cache->n_segments, sizeof *cache->segments);
    cache->list = orr_calloc(3 * (size_t)cache->n_segments, sizeof *cache->list);
    cache->cells = orr_calloc((size_t)cache->buckets, WAYS * sizeof *cache->cells);
    cache->stamps = orr_calloc((size_t)cache->n_stamps, sizeof *cache->stamps);
    atomic_init(&cache->updates, 0);
    for (uint32_t i = 0; i < cache->n_segments && cache->list != NULL; i++)
        cache->list[cache->n_free++] = i;
    if (cache->memory == NULL || cache->segments == NULL || cache->list == NULL ||
        cache->cells == NULL || cache->stamps == NULL)
        return orr_fail_memory(err); /* orr_pooled_done() frees the rest */
    return ORR_OK;
}

void orr_pooled_done(orr_pooled_cache *cache)
{
    if (cache->segment_bytes > 0)
        pthread_mutex_destroy(&cache->lock);
    orr_free(cache->memory);
    orr_free(cache->segments);
    orr_free(cache->list);
    orr_free((void *)cache->cells);
    orr_free((void *)cache->stamps);
}

void orr_pooled_hash(orr_pooled_key *key)
{
    key->hash = XXH3_64bits_withSeed(key->rows, key->n * sizeof *key->rows, key->table);
}

static uint64_t tag_of(uint64_t hash)
{
    return hash >> 33 << 32;
}

static _Atomic uint64_t *bucket_of(const orr_pooled_cache *cache, uint64_t hash)
{
    return cache->cells + (hash & (cache->buckets - 1)) * WAYS;
}

static const pooled_entry *entry_in(const orr_pooled_cache *cache, uint64_t cell)
{
    return (const pooled_entry *)(const void *)(cache->memory + (uint64_t)(uint32_t)cell * UNIT);
}

static _Atomic uint64_t *stamp_of(const orr_pooled_cache *cache, uint32_t table, int64_t row)
{
    uint64_t x = ((uint64_t)table << 48 | (uint64_t)row) * UINT64_C(0x9e3779b97f4a7c15);
    return &cache->stamps[(x ^ x >> 32) & (cache->n_stamps - 1)];
}

static bool is_current(const orr_pooled_cache *cache, const pooled_entry *e)
{
    if (e->begun == atomic_load(&cache->updates))
        return true;
    for (uint32_t i = 0; i < e->n; i++)
        if (atomic_load(stamp_of(cache, e->table, e->rows[i])) > e->begun)
            return false;
    return true;
}

static bool is_of(const pooled_entry *e, const orr_pooled_key *key)
{
    return e->hash == key->hash && e->table == key->table && e->n == key->n &&
           memcmp(e->rows, key->rows, key->n * sizeof *key->rows) == 0;
}

/* Leaves the tag of a bag that was seen for the first time: in an empty cell, else in one of
 * another tag, else in place of an entry, which is forgotten. */
static void leave_tag(_Atomic uint64_t *bucket, uint64_t hash)
{
    unsigned at = (unsigned)(hash >> 30) % WAYS;
    uint64_t cell = atomic_load(&bucket[at]);
    for (unsigned i = 1; i < WAYS && cell != 0; i++) {
        const unsigned way = (at + i) % WAYS;
        const uint64_t other = atomic_load(&bucket[way]);
        if (other == 0 || ((cell & FULL) != 0 && (other & FULL) == 0)) {
            at = way;
            cell = other;
        }
    }
    atomic_compare_exchange_strong(&bucket[at], &cell, tag_of(hash) | 1);
}

const float *orr_pooled_find(orr_pooled_cache *cache, const orr_pooled_key *key, bool *ret_wanted)
{
    _Atomic uint64_t *bucket = bucket_of(cache, key->hash);
    *ret_wanted = false;
    for (int i = 0; i < WAYS; i++) {
        uint64_t cell = atomic_load(&bucket[i]);
        if (cell == 0 || (cell & ~FULL) >> 32 != tag_of(key->hash) >> 32)
            continue;
        *ret_wanted = true;
        if ((cell & FULL) == 0)
            continue;
        const pooled_entry *e = entry_in(cache, cell);
        if (!is_of(e, key))
            continue;
        if (is_current(cache, e))
            return (const float *)(const void *)(e->rows + e->n);
        atomic_compare_exchange_strong(&bucket[i], &cell, tag_of(key->hash) | 1);
        return NULL;
    }
    if (!*ret_wanted)
        leave_tag(bucket, key->hash);
    return NULL;
}

/* Takes what is in the oldest closed segment out of the buckets. Lock. */
static void forget_oldest(orr_pooled_cache *cache)
{
    const uint32_t n = cache->n_segments, segment = cache->list[n + cache->closed_at];
    cache->closed_at = (cache->closed_at + 1) % n;
    cache->n_closed--;
    const uint64_t begin = (uint64_t)segment * cache->segment_bytes;
    for (uint64_t at = begin; at < begin + cache->segments[segment].used;) {
        const pooled_entry *e = entry_in(cache, at / UNIT);
        _Atomic uint64_t *bucket = bucket_of(cache, e->hash);
        for (int i = 0; i < WAYS; i++) {
            uint64_t full = FULL | tag_of(e->hash) | at / UNIT;
            atomic_compare_exchange_strong(&bucket[i], &full, 0);
        }
        at += e->bytes;
    }
    cache->segments[segment].retired = orr_epoch_stamp(cache->epochs);
    cache->list[2 * n + (cache->retired_at + cache->n_retired++) % n] = segment;
}

static void close_segment(orr_pooled_cache *cache, orr_pooled_writer *writer)
{
    if (writer->segment < 0)
        return;
    const uint32_t n = cache->n_segments;
    cache->segments[writer->segment].used = writer->used;
    cache->list[n + (cache->closed_at + cache->n_closed++) % n] = (uint32_t)writer->segment;
    writer->segment = -1;
}

/* The next segment to write to, if one is free and nobody else takes one now. */
static void next_segment(orr_pooled_cache *cache, orr_pooled_writer *writer)
{
    const uint32_t n = cache->n_segments;
    if (pthread_mutex_trylock(&cache->lock) != 0)
        return;
    close_segment(cache, writer);
    const uint64_t passed = orr_epochs_passed(cache->epochs);
    while (cache->n_retired > 0) {
        const uint32_t segment = cache->list[2 * n + cache->retired_at];
        if (cache->segments[segment].retired >= passed)
            break;
        cache->list[cache->n_free++] = segment;
        cache->retired_at = (cache->retired_at + 1) % n;
        cache->n_retired--;
    }
    if (cache->n_free > 0) {
        writer->segment = cache->list[--cache->n_free];
        writer->used = 0;
    }
    const uint32_t spare = n / 4 < SPARE ? n / 4 + 1 : SPARE;
    while (cache->n_closed > 0 && cache->n_free + cache->n_retired < spare)
        forget_oldest(cache);
    pthread_mutex_unlock(&cache->lock);
}

void orr_pooled_leave(orr_pooled_cache *cache, orr_pooled_writer *writer)
{
    if (cache->memory == NULL || writer->segment < 0)
        return;
    pthread_mutex_lock(&cache->lock);
    close_segment(cache, writer);
    pthread_mutex_unlock(&cache->lock);
}

static void publish(orr_pooled_cache *cache, uint64_t hash, uint64_t at)
{
    _Atomic uint64_t *bucket = bucket_of(cache, hash);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < WAYS; i++) {
            uint64_t cell = atomic_load(&bucket[i]);
            const bool own_tag = cell == (tag_of(hash) | 1);
            if ((own_tag || (round == 1 && (cell & FULL) == 0)) &&
                atomic_compare_exchange_strong(&bucket[i], &cell, FULL | tag_of(hash) | at / UNIT))
                return;
        }
}

void orr_pooled_insert(orr_pooled_cache *cache, orr_pooled_writer *writer,
                       const orr_pooled_key *key, uint64_t begun, const float *sum)
{
    const uint64_t bytes = (sizeof(pooled_entry) + (uint64_t)key->n * sizeof *key->rows +
                            (uint64_t)key->columns * sizeof *sum + UNIT - 1) /
                           UNIT * UNIT;
    for (uint32_t j = 0; j < key->columns; j++)
        if (sum[j] != sum[j])
            return;
    if (bytes > cache->segment_bytes / 2)
        return;
    if (writer->segment < 0 || writer->used + bytes > cache->segment_bytes)
        next_segment(cache, writer);
    if (writer->segment < 0 || writer->used + bytes > cache->segment_bytes)
        return;
    const uint64_t at = (uint64_t)writer->segment * cache->segment_bytes + writer->used;
    pooled_entry *e = (pooled_entry *)(void *)(cache->memory + at);
    *e = (pooled_entry){key->hash, begun, key->table, key->n, key->columns, (uint32_t)bytes};
    memcpy(e->rows, key->rows, key->n * sizeof *key->rows);
    memcpy(e->rows + key->n, sum, key->columns * sizeof *sum);
    writer->used += (uint32_t)bytes;
    publish(cache, key->hash, at);
}

void orr_pooled_updated(orr_pooled_cache *cache, uint32_t table, const int64_t *rows, int64_t n)
{
    if (cache->memory == NULL)
        return;
    const uint64_t update = atomic_load(&cache->updates) + 1;
    for (int64_t i = 0; i < n; i++)
        atomic_store(stamp_of(cache, table, rows[i]), update);
    atomic_store(&cache->updates, update);
}
