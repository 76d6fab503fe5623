/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/scorer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/serve/dense.h"
#include "engine/serve/mapped_tables.h"

struct orr_scorer {
    orr_model model;
    int64_t block;
    orr_dense *dense;
    orr_mapped_tables *tables;
};

struct orr_score_thread {
    orr_scorer *scorer;
    orr_dense_runner runner;
    orr_lookup_space space;
    orr_row_bags *bags; /* shape (tables) */
};

static orr_status open_weights(orr_scorer *s, const char *folder, orr_error *err)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/dense.safetensors", folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return orr_fail(err, ORR_INVALID, "%s: too long a path", folder);
    ORR_TRY(orr_dense_open(&s->model, path, &s->dense, err));
    return orr_mapped_tables_open(folder, s->model.dlrm.tables, s->model.dlrm.n_tables, true,
                                  &s->tables, err);
}

orr_status orr_scorer_open(const orr_scorer_options *options, orr_scorer **ret, orr_error *err)
{
    if (options->block < 0 || options->block > ORR_SCORER_BLOCK_MAX)
        return orr_fail(err, ORR_INVALID, "a block of %lld samples: at most %d",
                        (long long)options->block, ORR_SCORER_BLOCK_MAX);
    orr_scorer *s = orr_calloc(1, sizeof *s);
    if (s == NULL)
        return orr_fail_memory(err);
    s->model = *options->model;
    s->block = options->block > 0 ? options->block : ORR_SCORER_BLOCK;
    const orr_status status = open_weights(s, options->weights, err);
    if (status == ORR_OK)
        *ret = s;
    else
        orr_scorer_close(s);
    return status;
}

void orr_scorer_close(orr_scorer *s)
{
    if (s == NULL)
        return;
    orr_dense_close(s->dense);
    orr_mapped_tables_close(s->tables);
    orr_free(s);
}

const orr_dlrm *orr_scorer_model(const orr_scorer *scorer)
{
    return &scorer->model.dlrm;
}

orr_status orr_score_thread_open(orr_scorer *scorer, orr_score_thread **ret, orr_error *err)
{
    orr_score_thread *t = orr_calloc(1, sizeof *t);
    if (t == NULL)
        return orr_fail_memory(err);
    t->scorer = scorer;
    t->bags = orr_calloc((size_t)scorer->model.dlrm.n_tables + 1, sizeof *t->bags);
    orr_status status = t->bags != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_dense_runner_open(scorer->dense, scorer->block, &t->runner, err);
    if (status == ORR_OK)
        *ret = t;
    else
        orr_score_thread_close(t);
    return status;
}

void orr_score_thread_close(orr_score_thread *t)
{
    if (t == NULL)
        return;
    orr_dense_runner_close(&t->runner);
    orr_lookup_space_done(&t->space);
    orr_free(t->bags);
    orr_free(t);
}

orr_status orr_score_bags(orr_score_thread *t, const orr_row_bags *bags, uint32_t n, orr_error *err)
{
    return orr_mapped_tables_bags(t->scorer->tables, bags, n, &t->space, err);
}

float orr_score_probability(float logit)
{
    return (float)(1 / (1 + exp(-(double)logit)));
}

/* t->bags: those of the first samples of all tables. False: a length that cannot be. */
static bool begin(orr_score_thread *t, const orr_score_batch *batch)
{
    const orr_dlrm *d = &t->scorer->model.dlrm;
    const int64_t *ids = batch->ids;
    int64_t column = 0;
    for (uint32_t i = 0; i < d->n_tables; i++) {
        const int32_t *lengths = batch->lengths + i * batch->samples;
        t->bags[i] = (orr_row_bags){.table = i,
                                    .lengths = lengths,
                                    .ids = ids,
                                    .ret = t->runner.bags + column,
                                    .ret_stride = t->runner.columns};
        for (int64_t s = 0; s < batch->samples; s++) {
            if (lengths[s] < 0)
                return false;
            ids += lengths[s];
        }
        column += d->tables[i].columns;
    }
    return true;
}

/* On to the samples behind those that were scored. */
static void advance(orr_score_thread *t)
{
    for (uint32_t i = 0; i < t->scorer->model.dlrm.n_tables; i++) {
        orr_row_bags *b = &t->bags[i];
        for (int64_t s = 0; s < b->samples; s++)
            b->ids += b->lengths[s];
        b->lengths += b->samples;
    }
}

/* Errors count samples from `first` on. */
static void tell_first(int64_t first, orr_error *err)
{
    char where[64];
    if (first == 0 || err == NULL)
        return;
    snprintf(where, sizeof where, "samples from %lld on", (long long)first);
    orr_error_prefix(err, where);
}

orr_status orr_score_logits(orr_score_thread *t, const orr_score_batch *batch, float *ret,
                            orr_error *err)
{
    const orr_dlrm *d = &t->scorer->model.dlrm;
    if (!begin(t, batch))
        return orr_fail(err, ORR_INVALID, "a bag of less than no lookups");
    for (int64_t at = 0; at < batch->samples; at += t->bags[0].samples) {
        const int64_t left = batch->samples - at;
        const int64_t n = left < t->runner.most ? left : t->runner.most;
        if (at > 0)
            advance(t);
        for (uint32_t i = 0; i < d->n_tables; i++)
            t->bags[i].samples = n;
        const orr_status status = orr_score_bags(t, t->bags, d->n_tables, err);
        if (status != ORR_OK) {
            tell_first(at, err);
            return status;
        }
        memcpy(t->runner.features, batch->dense + at * d->dense_features,
               (size_t)(n * d->dense_features) * sizeof(float));
        ORR_TRY(orr_dense_run(&t->runner, n, err));
        memcpy(ret + at, t->runner.logits, (size_t)n * sizeof *ret);
    }
    return ORR_OK;
}
