/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a generator; scores prompts. */
#include <orrery/engine.h>

#include <string.h>

#include "base/alloc.h"
#include "engine/generate/rebalance.h"
#include "engine/generate/sampling.h"
#include "engine/generate/writer.h"

enum { CONTEXT_DEFAULT = 8192, RECORDED_RUNS = 512, RECORDED_CALLS = 65536 };

static orr_status check_model(const orr_generator_options *o, orr_error *err)
{
    const orr_model *m = o->model;
    if (m->kind != ORR_MODEL_TRANSFORMER)
        return orr_fail(err, ORR_UNSUPPORTED, "%s does not generate text", m->name);
    if (m->incomplete)
        return orr_fail(err, ORR_UNSUPPORTED, "the shape of %s is not published", m->name);
    if (m->cross_layers > 0 || m->sinks || m->mla.kv_rank > 0)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: %s is simulated, but cannot be run yet", m->name,
                        m->cross_layers > 0 ? "cross-attention to pictures"
                        : m->sinks          ? "attention with sinks"
                                            : "a cache of latent vectors");
    if (o->record_experts && m->moe.experts == 0)
        return orr_fail(err, ORR_UNSUPPORTED, "%s has no experts to be recorded", m->name);
    return ORR_OK;
}

/* Takes KV caches and input and output buffers. */
static orr_status make_room(orr_generator *g, orr_error *err)
{
    const size_t rows = (size_t)orr_generator_rows(g);
    orr_backbone *body;
    g->ids = orr_generator_allocate(g, rows, sizeof *g->ids);
    g->first = orr_generator_allocate(g, rows, sizeof *g->first);
    g->positions = orr_generator_allocate(g, rows, sizeof *g->positions);
    g->request = orr_generator_allocate(g, g->options.batch, sizeof *g->request);
    g->logits =
        orr_generator_allocate(g, (size_t)ORR_LM_HEAD_ROWS * g->model.vocab, sizeof *g->logits);
    g->hidden = orr_generator_allocate(g, rows * g->model.hidden, sizeof(float));
    g->keys = orr_generator_allocate(g, g->n_places, sizeof *g->keys);
    g->values = orr_generator_allocate(g, g->n_places, sizeof *g->values);
    g->cache_bytes = orr_generator_allocate(g, g->n_places, sizeof *g->cache_bytes);
    if (g->ids == NULL || g->first == NULL || g->positions == NULL || g->request == NULL ||
        g->logits == NULL || g->hidden == NULL || g->keys == NULL || g->values == NULL ||
        g->cache_bytes == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_generator_backbone(g, 1, 1, 0, &body, err));
    for (size_t i = 0; i < body->caches.n; i++) {
        const orr_kv_cache_value *c = &body->caches.at[i];
        const size_t bytes = (size_t)orr_type_bytes(&body->served.tape.values[c->value].type);
        char *data = orr_generator_allocate(g, g->options.batch, bytes);
        if (data == NULL)
            return orr_fail_memory(err);
        g->cache_bytes[c->place] = bytes;
        *(c->values ? &g->values[c->place] : &g->keys[c->place]) = data;
    }
    return ORR_OK;
}

/* Checks memory before any is taken: caches, logits, and weights that are quantized at load. */
static orr_status check_memory(const orr_generator *g, orr_error *err)
{
    const int64_t there = g->backend->free_bytes(g->backend);
    const double needed =
        orr_model_kv_cache_bytes(&g->model, g->options.fp32 ? ORR_DTYPE_FP32 : ORR_DTYPE_BF16) *
        (double)g->capacity * g->options.batch;
    if (there >= 0 && needed > (double)there)
        return orr_fail(err, ORR_LIMIT, "%u caches of %lld tokens need %.1f GiB, %.1f GiB are free",
                        g->options.batch, (long long)g->capacity, needed / (1 << 30),
                        (double)there / (1 << 30));
    return ORR_OK;
}

static orr_status open_all(orr_generator *g, const orr_generator_rank *rank, orr_error *err)
{
    const int64_t most = g->model.context > 0 && g->model.context < CONTEXT_DEFAULT
                             ? g->model.context
                             : CONTEXT_DEFAULT;
    g->arena = orr_arena_new(0, 0);
    if (g->arena == NULL)
        return orr_fail_memory(err);
    if (g->options.batch == 0)
        g->options.batch = 1;
    g->capacity = g->options.context > 0 ? g->options.context : most;
    const orr_plan plan = {.precision = g->options.fp32 ? ORR_PRECISION_FP32 : ORR_PRECISION_BF16};
    g->plan = orr_plan_with_defaults(&plan);
    ORR_TRY(orr_backend_cpu(&g->backend, err));
    ORR_TRY(check_memory(g, err));
    ORR_TRY(orr_workers_new(g->options.threads, &g->workers, err));
    if (g->options.record != NULL)
        ORR_TRY(orr_recorder_new(RECORDED_RUNS, RECORDED_CALLS, &g->recorder, err));
    if (rank != NULL)
        ORR_TRY(orr_generator_experts_open(g, rank, err));
    if (g->options.record_experts)
        ORR_TRY(orr_generator_open_routes(g, err));
    ORR_TRY(orr_generator_bind_weights(g, err));
    if (rank != NULL && rank->rebalance != NULL)
        ORR_TRY(orr_rebalancer_new(g, rank->rebalance, &g->parallel->rebalancer, err));
    ORR_TRY(make_room(g, err));
    return g->parallel != NULL ? orr_generator_warm_experts(g, err) : ORR_OK;
}

orr_status orr_generator_open_rank(const orr_generator_options *options,
                                   const orr_generator_rank *rank, orr_generator **ret,
                                   orr_error *err)
{
    ORR_TRY(check_model(options, err));
    orr_generator *g = orr_calloc(1, sizeof *g);
    if (g == NULL)
        return orr_fail_memory(err);
    g->options = *options;
    g->model = *options->model;
    const orr_status status = open_all(g, rank, err);
    if (status != ORR_OK) {
        orr_generator_close(g);
        return status;
    }
    *ret = g;
    return ORR_OK;
}

orr_status orr_generator_open(const orr_generator_options *options, orr_generator **ret,
                              orr_error *err)
{
    return orr_generator_open_rank(options, NULL, ret, err);
}

void orr_generator_close(orr_generator *g)
{
    if (g == NULL)
        return;
    orr_generator_experts_close(g);
    for (int i = 0; i < ORR_BACKBONES; i++)
        orr_backbone_free(&g->bodies[i]);
    for (int i = 0; i < ORR_LM_HEADS; i++)
        orr_lm_head_free(&g->heads[i]);
    for (size_t i = 0; i < g->retired.n; i++)
        orr_cached_program_free(&g->retired.at[i]);
    orr_array_done(&g->retired);
    orr_recorder_free(g->recorder);
    orr_route_recorder_free(g->routes);
    orr_workers_free(g->workers);
    for (size_t i = 0; i < g->held.n; i++)
        orr_free(g->held.at[i]);
    orr_array_done(&g->held);
    orr_array_done(&g->weights);
    orr_arena_free(g->arena);
    orr_free(g);
}

/* Scores the rows of a chunk, a few at a time. */
typedef struct scoring {
    const orr_prompt *prompt;
    float *ret;
    bool logits;
} scoring;

static orr_status score_chunk(void *ctx, orr_generator *g, int64_t from, int64_t n, orr_error *err)
{
    const scoring *s = ctx;
    const int64_t vocab = g->model.vocab, last = (int64_t)s->prompt->n - 1;
    for (int64_t at = 0; at < n; at += ORR_LM_HEAD_ROWS) {
        const int64_t some = n - at < ORR_LM_HEAD_ROWS ? n - at : ORR_LM_HEAD_ROWS;
        ORR_TRY(orr_generator_logits(g, at, 1, some, err));
        if (s->logits)
            memcpy(s->ret + (from + at) * vocab, g->logits,
                   (size_t)(some * vocab) * sizeof *s->ret);
        for (int64_t i = 0; !s->logits && i < some && from + at + i < last; i++)
            s->ret[from + at + i] = (float)orr_log_probability(
                g->logits + i * vocab, vocab, s->prompt->tokens[from + at + i + 1]);
    }
    return ORR_OK;
}

orr_status orr_score(orr_generator *g, const orr_prompt *prompt, float *ret, orr_error *err)
{
    scoring s = {.prompt = prompt, .ret = ret};
    return orr_generator_prefill(g, 0, prompt, score_chunk, &s, err);
}

orr_status orr_logits(orr_generator *g, const orr_prompt *prompt, float *ret, orr_error *err)
{
    scoring s = {.prompt = prompt, .ret = ret, .logits = true};
    return orr_generator_prefill(g, 0, prompt, score_chunk, &s, err);
}
