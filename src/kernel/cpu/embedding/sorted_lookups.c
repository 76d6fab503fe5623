/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/embedding/sorted_lookups.h"

#include <string.h>

#include "base/workers.h"

/* Lookups sorted by row: a partition into ranges of rows (counting sort over chunks, in parallel),
 * then an LSD radix sort within each range, small enough for L1 and L2. Every pass is stable. */

enum {
    RANGE_IDS = 8192,  /* ids of a range, about: its sort stays in the caches */
    RANGES = 4096,     /* at most */
    CHUNK_IDS = 32768, /* ids of a chunk that is counted and partitioned by one thread, at least */
    DIGIT = 10,        /* bits of a radix pass, at most */
    PASSES = 4,
    INSERTION_MAX = 48, /* most lookups for insertion sort */
};

static int bits_of(uint64_t x)
{
    return x == 0 ? 0 : 64 - __builtin_clzll(x);
}

static void shape_of(int64_t ids, int64_t rows, orr_sorted_lookups *ret)
{
    int64_t wanted = 1;
    while (wanted < RANGES && wanted * RANGE_IDS < ids)
        wanted *= 2;
    const int row_bits = bits_of((uint64_t)(rows > 0 ? rows - 1 : 0));
    const int range_bits = bits_of((uint64_t)wanted - 1);
    ret->shift = row_bits > range_bits ? row_bits - range_bits : 0;
    ret->ranges = rows > 0 ? ((rows - 1) >> ret->shift) + 1 : 1;
    ret->chunks = (ids + CHUNK_IDS - 1) / CHUNK_IDS;
    ret->chunks = ret->chunks < 1                   ? 1
                  : ret->chunks > ORR_LOOKUP_CHUNKS ? ORR_LOOKUP_CHUNKS
                                                    : ret->chunks;
    ret->chunk_ids = (ids + ret->chunks - 1) / ret->chunks;
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t orr_sorted_lookups_bytes(int64_t ids, int64_t rows)
{
    orr_sorted_lookups s;
    shape_of(ids, rows, &s);
    return 2 * whole_lines((size_t)ids * sizeof(orr_lookup)) +
           whole_lines((size_t)(s.ranges + 1) * sizeof(uint32_t)) +
           (size_t)(s.ranges * s.chunks) * sizeof(uint32_t);
}

int64_t orr_sorted_lookups_ranges(int64_t ids, int64_t rows)
{
    orr_sorted_lookups s;
    shape_of(ids, rows, &s);
    return s.ranges;
}

static void take_room(orr_sorted_lookups *s, void *room)
{
    char *at = room;
    s->lookup = (void *)at;
    at += whole_lines((size_t)s->ids->n * sizeof(orr_lookup));
    s->other = (void *)at;
    at += whole_lines((size_t)s->ids->n * sizeof(orr_lookup));
    s->begin = (void *)at;
    at += whole_lines((size_t)(s->ranges + 1) * sizeof(uint32_t));
    s->place = (void *)at;
}

static int64_t end_of(const orr_sorted_lookups *s, int64_t chunk)
{
    const int64_t end = (chunk + 1) * s->chunk_ids;
    return end < s->ids->n ? end : s->ids->n;
}

/* orr_indices_at() of the usual ids without a call: 64 bits, dense. */
static inline int64_t id_at(const orr_sorted_lookups *s, int64_t i)
{
    if (s->slots != NULL)
        return s->slots[i];
    return s->wide != NULL ? s->wide[i] : orr_indices_at(s->ids, i);
}

static void count_chunk(void *ctx, size_t chunk, int thread)
{
    (void)thread;
    orr_sorted_lookups *s = ctx;
    uint32_t *count = s->place + (int64_t)chunk * s->ranges;
    memset(count, 0, (size_t)s->ranges * sizeof *count);
    for (int64_t i = (int64_t)chunk * s->chunk_ids; i < end_of(s, (int64_t)chunk); i++) {
        const int64_t id = id_at(s, i);
        if ((uint64_t)id < (uint64_t)s->rows)
            count[id >> s->shift]++;
        else
            orr_invalid_id_note(&s->stray, i);
    }
}

/* Exclusive prefix sums: counts become positions, ranges one after another, within each the chunks
 * in order. */
static void place_chunks(orr_sorted_lookups *s)
{
    uint32_t at = 0;
    for (int64_t r = 0; r < s->ranges; r++) {
        s->begin[r] = at;
        for (int64_t c = 0; c < s->chunks; c++) {
            uint32_t *place = &s->place[c * s->ranges + r];
            const uint32_t count = *place;
            *place = at;
            at += count;
        }
    }
    s->begin[s->ranges] = at;
}

/* Of which sample each chunk's first lookup is. */
static void place_samples(orr_sorted_lookups *s)
{
    int64_t sample = -1, end = 0;
    for (int64_t c = 0; c < s->chunks; c++) {
        const int64_t first = c * s->chunk_ids;
        if (s->lengths == NULL && s->each > 0) {
            sample = first / s->each;
            end = (sample + 1) * s->each;
        }
        while (s->lengths != NULL && end <= first && first < s->ids->n)
            end += s->lengths[++sample];
        s->sample[c] = sample;
        s->end[c] = end;
    }
}

static void deal_chunk(void *ctx, size_t chunk, int thread)
{
    (void)thread;
    const orr_sorted_lookups *s = ctx;
    uint32_t *place = s->place + (int64_t)chunk * s->ranges;
    const int64_t within = ((int64_t)1 << s->shift) - 1, last = end_of(s, (int64_t)chunk);
    int64_t sample = s->sample[chunk], end = s->end[chunk];
    for (int64_t i = (int64_t)chunk * s->chunk_ids; i < last; i++) {
        const int64_t id = id_at(s, i);
        while (i >= end)
            end += s->lengths != NULL ? s->lengths[sample + 1] : s->each, sample++;
        if ((uint64_t)id < (uint64_t)s->rows)
            s->lookup[place[id >> s->shift]++] =
                (orr_lookup){(uint32_t)(id & within), (uint32_t)sample};
    }
}

orr_status orr_sorted_lookups_partition(orr_sorted_lookups *s, void *room, orr_workers *workers,
                                        orr_error *err)
{
    s->stray.at = -1;
    s->wide = s->ids->wide && s->ids->dense ? s->ids->of->data : NULL;
    shape_of(s->ids->n, s->rows, s);
    if (s->ids->n > UINT32_MAX || s->shift > 32)
        return orr_fail(err, ORR_UNSUPPORTED, "%lld lookups of %lld rows in one update",
                        (long long)s->ids->n, (long long)s->rows);
    take_room(s, room);
    place_samples(s);
    orr_workers_run(workers, (size_t)s->chunks, count_chunk, s);
    place_chunks(s);
    orr_workers_run(workers, (size_t)s->chunks, deal_chunk, s);
    return ORR_OK;
}

/* Insertion sort, stable like the rest: equal rows stay in order. */
static void insertion_sort(orr_lookup *lookup, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const orr_lookup moved = lookup[i];
        int64_t j = i;
        for (; j > 0 && lookup[j - 1].row > moved.row; j--)
            lookup[j] = lookup[j - 1];
        lookup[j] = moved;
    }
}

typedef struct digits {
    int bits, passes;
    uint32_t place[PASSES][1 << DIGIT];
} digits;

/* Counts the digits of all passes in one look at the lookups; `passes` is a compile-time
 * constant. */
static inline __attribute__((always_inline)) void count_digits(const orr_lookup *lookup, int64_t n,
                                                               digits *d, const int passes)
{
    const int bits = d->bits;
    const uint32_t mask = (1u << bits) - 1;
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < passes; p++)
            d->place[p][lookup[i].row >> p * bits & mask]++;
}

/* Positions of every digit of every pass. */
static void place_digits(const orr_lookup *lookup, int64_t n, digits *d)
{
    const uint32_t mask = (1u << d->bits) - 1;
    memset(d->place, 0, sizeof d->place / PASSES * (size_t)(d->passes <= 2 ? d->passes : PASSES));
    if (d->passes == 1)
        count_digits(lookup, n, d, 1);
    else if (d->passes == 2)
        count_digits(lookup, n, d, 2);
    else
        count_digits(lookup, n, d, PASSES);
    for (int p = 0; p < d->passes; p++)
        for (uint32_t at = 0, k = 0; k <= mask; k++) {
            const uint32_t count = d->place[p][k];
            d->place[p][k] = at;
            at += count;
        }
}

static void sort_digit(const orr_lookup *from, int64_t n, digits *d, int pass, orr_lookup *to)
{
    const uint32_t mask = (1u << d->bits) - 1;
    for (int64_t i = 0; i < n; i++)
        to[d->place[pass][from[i].row >> pass * d->bits & mask]++] = from[i];
}

/* Radix passes over n lookups of a range; 0: insertion sort. */
static int passes_of(const orr_sorted_lookups *s, int64_t n)
{
    return n <= INSERTION_MAX || s->shift == 0 ? 0 : (s->shift + DIGIT - 1) / DIGIT;
}

const orr_lookup *orr_sorted_lookups_of_range(const orr_sorted_lookups *s, int64_t range,
                                              int64_t *ret_n)
{
    const int64_t first = s->begin[range], n = s->begin[range + 1] - first;
    *ret_n = n;
    return (passes_of(s, n) % 2 == 0 ? s->lookup : s->other) + first;
}

const orr_lookup *orr_sorted_lookups_sort_range(const orr_sorted_lookups *s, int64_t range,
                                                int64_t *ret_n)
{
    const int64_t first = s->begin[range], n = s->begin[range + 1] - first;
    orr_lookup *a = s->lookup + first, *b = s->other + first;
    digits d;
    *ret_n = n;
    d.passes = passes_of(s, n);
    if (d.passes == 0) {
        insertion_sort(a, n);
        return a;
    }
    d.bits = (s->shift + d.passes - 1) / d.passes;
    place_digits(a, n, &d);
    for (int p = 0; p < d.passes; p++) {
        sort_digit(a, n, &d, p, b);
        orr_lookup *sorted = b;
        b = a;
        a = sorted;
    }
    return a;
}
