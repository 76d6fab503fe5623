/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/clicks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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

void orr_click_data_free(orr_click_data *c)
{
    if (c == NULL)
        return;
    if (c->close != NULL)
        c->close(c->ctx);
    orr_arena_free(c->arena);
}

/* Feeds click data to a step: where a micro-batch's inputs are on a rank. */
typedef struct feeder {
    const orr_click_data *clicks;
    const orr_dlrm *dlrm;
    orr_table_shard share;
    float *dense, *targets;
    int64_t *ids, *offsets;
    int64_t n_ids, own_first, own_n; /* samples of the micro-batch that belong to the rank */
    orr_click sample;
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
    const int64_t *from = f->sample.ids;
    for (uint32_t i = 0; i < f->share.first; i++)
        from += orr_dlrm_pooling(f->dlrm, i);
    for (uint32_t i = 0; i < f->share.count; i++) {
        const uint32_t table = f->share.first + i;
        f->offsets[row * f->share.count + i] = *at;
        if (i >= f->share.n)
            continue;
        const int64_t base = base_of(f, table);
        for (int64_t k = orr_dlrm_pooling(f->dlrm, table); k > 0; k--)
            f->ids[(*at)++] = base + *from++;
    }
}

static orr_status put_micro_batch(feeder *f, uint64_t first, int64_t samples, orr_error *err)
{
    int64_t at = 0;
    for (int64_t row = 0; row < samples; row++) {
        const uint64_t number = first + (uint64_t)row, n = f->clicks->n;
        const int64_t own = row - f->own_first;
        ORR_TRY(f->clicks->fill(f->clicks, n > 0 ? number % n : number, &f->sample, err));
        put_ids(f, row, &at);
        if (own < 0 || own >= f->own_n)
            continue;
        memcpy(f->dense + own * f->dlrm->dense_features, f->sample.dense,
               f->dlrm->dense_features * sizeof(float));
        f->targets[own] = f->sample.label;
    }
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
    int64_t lookups = 0;
    for (uint32_t i = 0; i < d->n_tables; i++)
        lookups += orr_dlrm_pooling(d, i);
    f.sample.dense = orr_calloc(d->dense_features + 1, sizeof(float));
    f.sample.ids = orr_calloc((size_t)lookups + 1, sizeof(int64_t));
    orr_status status =
        f.sample.dense != NULL && f.sample.ids != NULL ? ORR_OK : orr_fail_memory(err);
    const int64_t samples = (int64_t)plan->micro_batch * plan->dp;
    for (uint32_t m = 0; m < plan->micro_batches && status == ORR_OK; m++) {
        status = find_inputs(&f, step, m, err);
        f.own_first = replica * f.own_n;
        if (status == ORR_OK)
            status = put_micro_batch(&f, first + (uint64_t)m * (uint64_t)samples, samples, err);
        if (status == ORR_OK)
            memcpy(labels + m * f.own_n, f.targets, (size_t)f.own_n * sizeof *labels);
    }
    orr_free(f.sample.dense);
    orr_free(f.sample.ids);
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
