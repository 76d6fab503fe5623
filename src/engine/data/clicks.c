/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/clicks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/dlrm.h"

orr_status orr_click_data_new(const char *name, const orr_dlrm *dlrm, uint64_t seed,
                              orr_click_data **ret, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_click_data *c = arena != NULL ? orr_arena_one(arena, orr_click_data) : NULL;
    if (c == NULL) {
        orr_arena_free(arena);
        return orr_fail_memory(err);
    }
    *c = (orr_click_data){.name = name, .dlrm = dlrm, .seed = seed, .arena = arena};
    *ret = c;
    return ORR_OK;
}

orr_status orr_click_data_open(const char *text, const orr_dlrm *dlrm, uint64_t seed,
                               orr_click_data **ret, orr_error *err)
{
    static const char prefix[] = "synthetic";
    const size_t n = sizeof prefix - 1;
    if (text == NULL)
        return orr_click_data_synthetic(NULL, dlrm, seed, ret, err);
    if (strncmp(text, prefix, n) == 0 && (text[n] == '\0' || text[n] == ':'))
        return orr_click_data_synthetic(text + n + (text[n] == ':'), dlrm, seed, ret, err);
    return orr_click_data_criteo(text, dlrm, ret, err);
}

void orr_click_data_free(orr_click_data *c)
{
    if (c == NULL)
        return;
    if (c->close != NULL)
        c->close(c->ctx);
    orr_arena_free(c->arena);
}

void orr_click_batch_done(orr_click_batch *batch)
{
    orr_array_done(&batch->dense);
    orr_array_done(&batch->labels);
    orr_array_done(&batch->lengths);
    orr_array_done(&batch->ids);
    orr_array_done(&batch->first);
}

/* Sets how many elements an array has; those from before are lost. */
#define resize(array, count) ((array)->n = 0, orr_array_reserve(array, count))

int32_t orr_click_bag_length(const orr_click_data *c, uint32_t table, uint64_t sample)
{
    enum { FOR_LENGTH = 0x40000000 };
    const orr_embedding *t = &c->dlrm->tables[table];
    uint32_t bits[4];
    if (t->length == ORR_BAG_LENGTH_FIXED)
        return (int32_t)(t->pooling + 0.5);
    orr_click_bits(c, sample, FOR_LENGTH + table, 0, bits);
    const double u = (bits[0] + 0.5) * 0x1p-32, v = (bits[1] + 0.5) * 0x1p-32;
    if (t->length == ORR_BAG_LENGTH_GEOMETRIC)
        return (int32_t)(log(u) / log(t->pooling / (1 + t->pooling)));
    return (int32_t)(2 * t->pooling * u + v); /* rounded at random, so that the mean is exact */
}

static orr_status put_lengths(const orr_click_data *c, uint64_t first, orr_click_batch *ret,
                              orr_error *err)
{
    const uint32_t tables = c->dlrm->n_tables;
    const size_t n = (size_t)ret->samples;
    if (!resize(&ret->lengths, n * tables + 1) || !resize(&ret->first, (size_t)tables + 1))
        return orr_fail_memory(err);
    int64_t at = 0;
    for (uint32_t t = 0; t < tables; t++) {
        ret->first.at[t] = at;
        for (size_t i = 0; i < n; i++)
            at += ret->lengths.at[t * n + i] =
                orr_click_bag_length(c, t, orr_click_number(c, first + i));
    }
    ret->first.at[tables] = at;
    ret->lengths.n = n * tables;
    ret->first.n = (size_t)tables + 1;
    return ORR_OK;
}

orr_status orr_click_data_read(const orr_click_data *c, uint64_t first, int64_t n,
                               orr_click_batch *ret, orr_error *err)
{
    ret->samples = n;
    ORR_TRY(put_lengths(c, first, ret, err));
    const size_t samples = (size_t)n, ids = (size_t)ret->first.at[c->dlrm->n_tables];
    if (!resize(&ret->dense, samples * c->dlrm->dense_features + 1) ||
        !resize(&ret->labels, samples + 1) || !resize(&ret->ids, ids + 1))
        return orr_fail_memory(err);
    ret->dense.n = samples * c->dlrm->dense_features;
    ret->labels.n = samples;
    ret->ids.n = ids;
    return c->read(c, first, ret, err);
}

void orr_click_reader_done(orr_click_reader *reader)
{
    for (int i = 0; i < ORR_TABLES_AHEAD; i++)
        orr_click_batch_done(&reader->batches[i]);
}

static uint32_t kept(const orr_click_reader *reader)
{
    return reader->kept > 0 ? reader->kept : ORR_TABLES_AHEAD;
}

orr_status orr_click_reader_read(void *ctx, uint64_t batch, orr_step_batch *ret, orr_error *err)
{
    orr_click_reader *r = ctx;
    orr_click_batch *at = &r->batches[batch % kept(r)];
    ORR_TRY(orr_click_data_read(r->clicks, batch * r->batch + r->first, r->samples, at, err));
    *ret = (orr_step_batch){.dense = at->dense.at,
                            .targets = at->labels.at,
                            .lookups = {.lengths = at->lengths.at, .ids = at->ids.at}};
    return ORR_OK;
}

int64_t orr_click_reader_bytes(const orr_click_reader *reader, const orr_dlrm *dlrm,
                               int64_t batches)
{
    double lookups = 0;
    for (uint32_t t = 0; t < dlrm->n_tables; t++)
        lookups += dlrm->tables[t].pooling;
    const double sample = lookups * sizeof(int64_t) + dlrm->n_tables * sizeof(int32_t) +
                          (dlrm->dense_features + 1) * sizeof(float);
    return (int64_t)(sample * (double)reader->samples) *
           (batches < kept(reader) ? batches : kept(reader));
}

static int by_score(const void *a_, const void *b_)
{
    const orr_scored *a = a_, *b = b_;
    return (a->score > b->score) - (a->score < b->score);
}

double orr_auc(orr_scored *samples, size_t n)
{
    double below = 0, right = 0, positives = 0;
    qsort(samples, n, sizeof *samples, by_score);
    for (size_t i = 0, end; i < n; i = end) {
        double hits = 0, misses = 0;
        for (end = i; end < n && samples[end].score == samples[i].score; end++)
            *(samples[end].label > 0 ? &hits : &misses) += 1;
        right += hits * (below + misses / 2);
        below += misses;
        positives += hits;
    }
    return positives > 0 && below > 0 ? right / (positives * below) : NAN;
}
