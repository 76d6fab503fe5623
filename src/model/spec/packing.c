/* SPDX-License-Identifier: Apache-2.0 */
#include "model/spec/packing.h"

#include <pthread.h>
#include <string.h>

/* Pairs of a query and a key in samples packed of documents, counted slice by slice. */

enum {
    LEAST_MICRO_BATCHES = 64,
    MOST_SAMPLES = 4096,
    MOST_DOCUMENTS = 1 << 17,
    MOST_TOKENS = 1 << 26, /* of a sample; pairs of a micro-batch then fit into 64 bits */
    MOST_OF_MICRO_BATCH =
        1024 /* samples that are counted; among more, slices are as good as even */
};

typedef struct packer {
    const orr_packing *how;
    const orr_documents *from;
    uint64_t *pairs; /* shape (slices): of this micro-batch */
    uint32_t at;     /* of the stream: the next document */
    uint32_t rest;   /* tokens of the last document that are not packed yet */
    uint64_t drawn;
} packer;

/* Pairs of the first n queries of a document, each with the keys up to its own position: with a
 * window that slides, at most so many of them. */
static uint64_t pairs_of_first(const orr_packing *p, uint64_t n)
{
    const uint64_t window = p->sliding && p->window > 0 ? p->window : UINT64_MAX;
    return n <= window ? n * (n + 1) / 2 : window * (window + 1) / 2 + (n - window) * window;
}

static uint64_t part_begin(const orr_packing *p, uint64_t part)
{
    return p->seq * part / (2 * (uint64_t)p->slices);
}

/* The part of the context that a token stands in. */
static uint64_t part_of(const orr_packing *p, uint64_t token)
{
    uint64_t part = token * 2 * p->slices / p->seq;
    while (part_begin(p, part + 1) <= token)
        part++;
    return part;
}

/* Counts tokens begin .. end - 1 of a sample, which see one another. */
static void count_segment(packer *k, uint64_t begin, uint64_t end)
{
    const uint64_t last = 2 * (uint64_t)k->how->slices - 1;
    uint64_t from = begin;
    for (uint64_t part = part_of(k->how, begin); from < end; part++) {
        const uint64_t to = part_begin(k->how, part + 1) < end ? part_begin(k->how, part + 1) : end;
        k->pairs[part <= last - part ? part : last - part] +=
            pairs_of_first(k->how, to - begin) - pairs_of_first(k->how, from - begin);
        from = to;
    }
}

/* A document, or as much of it as the sample holds; chunks of the context cut it further. */
static void count_document(packer *k, uint64_t begin, uint64_t end)
{
    const uint64_t chunk = k->how->sliding ? 0 : k->how->window;
    while (chunk > 0 && begin < end) {
        const uint64_t next = (begin / chunk + 1) * chunk;
        count_segment(k, begin, next < end ? next : end);
        begin = next < end ? next : end;
    }
    if (begin < end)
        count_segment(k, begin, end);
}

static void count_sample(packer *k)
{
    for (uint32_t at = 0; at < k->how->seq;) {
        if (k->rest == 0) {
            k->rest = k->from->stream[k->at];
            k->at = (k->at + 1) % k->from->n;
            k->drawn++;
        }
        const uint32_t room = k->how->seq - at, n = k->rest < room ? k->rest : room;
        count_document(k, at, at + n);
        k->rest -= n;
        at += n;
    }
}

typedef struct slices_sum {
    unsigned __int128 all;
    uint64_t most;
} slices_sum;
static slices_sum sum_slices(const packer *k)
{
    slices_sum sum = {0};
    for (uint32_t i = 0; i < k->how->slices; i++) {
        sum.all += k->pairs[i];
        sum.most = k->pairs[i] > sum.most ? k->pairs[i] : sum.most;
    }
    return sum;
}

static orr_status count(const orr_documents *documents, const orr_packing *packing,
                        orr_arena *arena, orr_packed_pairs *ret, orr_error *err)
{
    if (packing->seq > MOST_TOKENS)
        return orr_fail(err, ORR_LIMIT, "documents in samples of %u tokens: at most %d",
                        packing->seq, MOST_TOKENS);
    const uint32_t of_one =
        packing->samples < MOST_OF_MICRO_BATCH ? packing->samples : MOST_OF_MICRO_BATCH;
    packer k = {.how = packing, .from = documents};
    unsigned __int128 all = 0, most = 0;
    uint64_t n = 0;
    k.pairs = orr_arena_array(arena, uint64_t, packing->slices);
    if (k.pairs == NULL)
        return orr_fail_memory(err);
    count_document(&k, 0, packing->seq);
    const slices_sum one = sum_slices(&k);
    while (n < LEAST_MICRO_BATCHES || (n * of_one < MOST_SAMPLES && k.drawn < MOST_DOCUMENTS)) {
        memset(k.pairs, 0, packing->slices * sizeof *k.pairs);
        for (uint32_t i = 0; i < of_one; i++)
            count_sample(&k);
        const slices_sum sum = sum_slices(&k);
        all += sum.all;
        most += sum.most;
        n++;
    }
    const double samples = (double)n * of_one;
    const double seen = (double)all / ((double)one.all * samples);
    const double slowest = (double)most / ((double)one.most * samples);
    *ret = (orr_packed_pairs){seen, slowest > seen ? slowest / seen : 1};
    return ORR_OK;
}

/* --- the cache -------------------------------------------------------------------------------- */

enum { KNOWN_MOST = 128 };
struct orr_packings {
    pthread_mutex_t lock;
    struct {
        orr_packing of;
        orr_packed_pairs pairs;
    } known[KNOWN_MOST]; /* the oldest is replaced */
    uint32_t n;
};

struct orr_packings *orr_packings_new(orr_arena *arena)
{
    struct orr_packings *p = orr_arena_one(arena, struct orr_packings);
    if (p != NULL)
        p->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    return p;
}

static bool is_same(const orr_packing *a, const orr_packing *b)
{
    return a->seq == b->seq && a->slices == b->slices && a->samples == b->samples &&
           a->window == b->window && a->sliding == b->sliding;
}

static bool find(struct orr_packings *p, const orr_packing *packing, orr_packed_pairs *ret)
{
    bool found = false;
    (void)pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->n && i < KNOWN_MOST && !found; i++)
        if (is_same(&p->known[i].of, packing)) {
            *ret = p->known[i].pairs;
            found = true;
        }
    (void)pthread_mutex_unlock(&p->lock);
    return found;
}

static void add(struct orr_packings *p, const orr_packing *packing, const orr_packed_pairs *pairs)
{
    (void)pthread_mutex_lock(&p->lock);
    p->known[p->n % KNOWN_MOST].of = *packing;
    p->known[p->n++ % KNOWN_MOST].pairs = *pairs;
    (void)pthread_mutex_unlock(&p->lock);
}

orr_status orr_packed_pairs_of(const orr_documents *documents, const orr_packing *packing,
                               orr_arena *arena, orr_packed_pairs *ret, orr_error *err)
{
    *ret = (orr_packed_pairs){1, 1};
    if (documents == NULL || packing->seq == 0 ||
        (documents->packings != NULL && find(documents->packings, packing, ret)))
        return ORR_OK;
    ORR_TRY(count(documents, packing, arena, ret, err));
    if (documents->packings != NULL)
        add(documents->packings, packing, ret);
    return ORR_OK;
}
