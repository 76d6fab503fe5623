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

/* Feeds click data to a step: where a micro-batch's inputs are on a rank. */
typedef struct feeder {
    const orr_click_data *clicks;
    const orr_dlrm *dlrm;
    orr_table_shard share;
    float *dense, *targets;
    int64_t *ids, *offsets;
    int64_t n_ids, own_first, own_n; /* samples of the micro-batch that belong to the rank */
    orr_click_batch batch;
} feeder;

static int64_t base_of(const feeder *f, uint32_t table)
{
    int64_t rows = 0;
    for (uint32_t i = f->share.first; i < table; i++)
        rows += f->dlrm->tables[i].rows;
    return rows;
}

/* A sample's bags of the rank's tables; `at`: ids so far. */
static void put_ids(const feeder *f, int64_t row, int64_t *at)
{
    for (uint32_t i = 0; i < f->share.count; i++) {
        const uint32_t table = f->share.first + i;
        f->offsets[row * f->share.count + i] = *at;
        if (i >= f->share.n)
            continue;
        const int64_t base = base_of(f, table), n = orr_dlrm_pooling(f->dlrm, table);
        const int64_t *from = f->batch.ids.at + f->batch.first.at[table] + row * n;
        for (int64_t k = 0; k < n; k++)
            f->ids[(*at)++] = base + from[k];
    }
}

static orr_status put_micro_batch(feeder *f, uint64_t first, int64_t samples, orr_error *err)
{
    const uint32_t features = f->dlrm->dense_features;
    int64_t at = 0;
    ORR_TRY(orr_click_data_read(f->clicks, first, samples, &f->batch, err));
    for (int64_t row = 0; row < samples; row++)
        put_ids(f, row, &at);
    memcpy(f->dense, f->batch.dense.at + f->own_first * features,
           (size_t)f->own_n * features * sizeof(float));
    memcpy(f->targets, f->batch.labels.at + f->own_first, (size_t)f->own_n * sizeof(float));
    for (; at < f->n_ids; at++)
        f->ids[at] = f->share.rows - 1;
    return ORR_OK;
}

static orr_status find_inputs(feeder *f, orr_engine_step *step, uint32_t micro_batch,
                              orr_error *err)
{
    orr_type dense, ids;
    f->dense = orr_engine_step_input(step, "dense", micro_batch, &dense);
    f->targets = orr_engine_step_input(step, "targets", micro_batch, NULL);
    f->ids = orr_engine_step_input(step, "ids", micro_batch, &ids);
    f->offsets = orr_engine_step_input(step, "offsets", micro_batch, NULL);
    if (f->dense == NULL || f->targets == NULL || f->ids == NULL || f->offsets == NULL ||
        dense.dtype != ORR_DTYPE_FP32)
        return orr_fail(err, ORR_UNSUPPORTED, "no recommendation in fp32 is trained here");
    f->n_ids = ids.dim[0];
    f->own_n = dense.dim[0];
    return ORR_OK;
}

orr_status orr_click_data_feed(const orr_click_data *clicks, orr_engine_step *step,
                               const orr_plan *plan, uint32_t rank, uint64_t first, float *labels,
                               orr_error *err)
{
    const orr_dlrm *d = clicks->dlrm;
    const uint32_t replica = orr_plan_member(plan, ORR_AXIS_DP, rank);
    feeder f = {.clicks = clicks, .dlrm = d, .share = orr_table_shard_of(d, plan->dp, replica)};
    orr_status status = ORR_OK;
    const int64_t samples = (int64_t)plan->micro_batch * plan->dp;
    for (uint32_t m = 0; m < plan->micro_batches && status == ORR_OK; m++) {
        status = find_inputs(&f, step, m, err);
        f.own_first = replica * f.own_n;
        if (status == ORR_OK)
            status = put_micro_batch(&f, first + (uint64_t)m * (uint64_t)samples, samples, err);
        if (status == ORR_OK)
            memcpy(labels + m * f.own_n, f.targets, (size_t)f.own_n * sizeof *labels);
    }
    orr_click_batch_done(&f.batch);
    return status;
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
