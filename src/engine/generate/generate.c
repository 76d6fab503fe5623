/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a generator, and answers prompts by continuous batching: as many sequences at once as the
 * cache has slots; when one ends, the last slot's sequence moves into its slot, and the next prompt
 * is admitted. */
#include <orrery/engine.h>

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
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
    const size_t rows =
        g->options.batch > ORR_PREFILL_CHUNK_TOKENS ? g->options.batch : ORR_PREFILL_CHUNK_TOKENS;
    orr_backbone *body;
    g->ids = orr_generator_allocate(g, rows, sizeof *g->ids);
    g->first = orr_generator_allocate(g, rows, sizeof *g->first);
    g->positions = orr_generator_allocate(g, rows, sizeof *g->positions);
    g->logits =
        orr_generator_allocate(g, (size_t)ORR_LM_HEAD_ROWS * g->model.vocab, sizeof *g->logits);
    g->hidden = orr_generator_allocate(g, rows * g->model.hidden, sizeof(float));
    g->keys = orr_generator_allocate(g, g->n_places, sizeof *g->keys);
    g->values = orr_generator_allocate(g, g->n_places, sizeof *g->values);
    g->cache_bytes = orr_generator_allocate(g, g->n_places, sizeof *g->cache_bytes);
    if (g->ids == NULL || g->first == NULL || g->positions == NULL || g->logits == NULL ||
        g->hidden == NULL || g->keys == NULL || g->values == NULL || g->cache_bytes == NULL)
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

static orr_status open_all(orr_generator *g, orr_error *err)
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
    ORR_TRY(orr_generator_bind_weights(g, err));
    return make_room(g, err);
}

orr_status orr_generator_open(const orr_generator_options *options, orr_generator **ret,
                              orr_error *err)
{
    ORR_TRY(check_model(options, err));
    orr_generator *g = orr_calloc(1, sizeof *g);
    if (g == NULL)
        return orr_fail_memory(err);
    g->options = *options;
    g->model = *options->model;
    const orr_status status = open_all(g, err);
    if (status != ORR_OK) {
        orr_generator_close(g);
        return status;
    }
    *ret = g;
    return ORR_OK;
}

void orr_generator_close(orr_generator *g)
{
    if (g == NULL)
        return;
    for (int i = 0; i < ORR_BACKBONES; i++)
        orr_backbone_free(&g->bodies[i]);
    for (int i = 0; i < ORR_LM_HEADS; i++)
        orr_lm_head_free(&g->heads[i]);
    for (size_t i = 0; i < g->retired.n; i++)
        orr_cached_program_free(&g->retired.at[i]);
    orr_array_done(&g->retired);
    orr_recorder_free(g->recorder);
    orr_workers_free(g->workers);
    for (size_t i = 0; i < g->held.n; i++)
        orr_free(g->held.at[i]);
    orr_array_done(&g->held);
    orr_array_done(&g->weights);
    orr_array_done(&g->experts);
    orr_arena_free(g->arena);
    orr_free(g);
}

/* A sequence in a slot of the cache. */
typedef struct sequence {
    uint32_t prompt;
    int64_t cached; /* tokens in the cache */
    int32_t next;   /* the next input token */
    orr_random random;
} sequence;

typedef struct answering {
    orr_generator *g;
    const orr_prompt *prompts;
    const orr_sampling *sampling;
    bool (*told)(void *ctx, uint32_t prompt, int32_t token);
    void *ctx;
    orr_arena *arena;
    orr_generated *ret;
    orr_generation_times times;
    sequence *slots;   /* shape (batch) */
    uint32_t n, taken; /* active slots are 0 .. n - 1; prompts begun */
    orr_token_candidate *room;
    bool *ended; /* shape (batch): ended in this round */
    bool over;
    int64_t began_ns;
    orr_error *err;
} answering;

static int64_t now(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

static bool is_stop(const orr_sampling *s, int32_t token)
{
    for (uint32_t i = 0; i < s->n_stop; i++)
        if (s->stop[i] == token)
            return true;
    return false;
}

/* Samples a sequence's next token from its logits; false: it has ended. */
static bool advance(answering *a, sequence *s, const float *logits)
{
    const orr_generator *g = a->g;
    orr_generated *r = &a->ret[s->prompt];
    const uint32_t vocab = a->sampling->vocab > 0 && a->sampling->vocab < g->model.vocab
                               ? a->sampling->vocab
                               : g->model.vocab;
    const int32_t token = orr_sample_token(a->sampling, &s->random, logits, vocab, a->room);
    if (a->times.first_token_ns == 0)
        a->times.first_token_ns = now() - a->began_ns;
    r->ended = is_stop(a->sampling, token);
    if (r->ended)
        return false;
    r->log_probability += orr_log_probability(logits, g->model.vocab, token);
    r->tokens[r->n++] = token;
    s->next = token;
    if (a->told != NULL && !a->told(a->ctx, s->prompt, token))
        a->over = true;
    const bool positioned = g->model.positions == 0 || s->cached < (int64_t)g->model.positions;
    return !a->over && (int64_t)r->n < a->sampling->most && s->cached < g->capacity && positioned;
}

/* Prefills the next prompt into the next slot. */
static orr_status admit(answering *a)
{
    orr_generator *g = a->g;
    const uint32_t p = a->taken++;
    const orr_prompt *prompt = &a->prompts[p];
    sequence *s = &a->slots[a->n];
    const int64_t began = now();
    *s = (sequence){
        .prompt = p, .cached = (int64_t)prompt->n, .random = orr_random_of(a->sampling->seed, p)};
    a->ret[p] =
        (orr_generated){.tokens = orr_arena_array(a->arena, int32_t, (size_t)a->sampling->most)};
    if (a->ret[p].tokens == NULL)
        return orr_fail_memory(a->err);
    if (prompt->n == 0)
        return orr_fail(a->err, ORR_INVALID, "prompt %u has no tokens", p + 1);
    ORR_TRY(orr_generator_prefill(g, a->n, prompt, NULL, NULL, a->err));
    ORR_TRY(
        orr_generator_logits(g, (int64_t)(prompt->n - 1) % ORR_PREFILL_CHUNK_TOKENS, 1, 1, a->err));
    a->times.prompt_tokens += (int64_t)prompt->n;
    a->times.prompt_ns += now() - began;
    a->n += advance(a, s, g->logits);
    return ORR_OK;
}

/* Moves the last slot's sequence into a slot that has ended. */
static void release_slot(answering *a, uint32_t slot)
{
    orr_generator *g = a->g;
    const uint32_t last = --a->n;
    if (slot == last)
        return;
    a->slots[slot] = a->slots[last];
    for (uint32_t p = 0; p < g->n_places; p++) {
        const size_t bytes = g->cache_bytes[p];
        if (bytes == 0)
            continue;
        memcpy(g->keys[p] + slot * bytes, g->keys[p] + last * bytes, bytes);
        memcpy(g->values[p] + slot * bytes, g->values[p] + last * bytes, bytes);
    }
}

/* Decodes one token of every sequence. */
static orr_status decode(answering *a)
{
    orr_generator *g = a->g;
    const uint32_t n = a->n;
    const int64_t began = now();
    for (uint32_t i = 0; i < n; i++) {
        g->ids[i] = a->slots[i].next;
        g->first[i] = a->slots[i].cached++;
    }
    const orr_forward_input feed = {
        .samples = n, .tokens = 1, .ids = g->ids, .first = g->first, .phase = 'd'};
    ORR_TRY(orr_generator_forward(g, &feed, a->err));
    for (uint32_t at = 0; at < n; at += ORR_LM_HEAD_ROWS) {
        const uint32_t some = n - at < ORR_LM_HEAD_ROWS ? n - at : ORR_LM_HEAD_ROWS;
        ORR_TRY(orr_generator_logits(g, at, 1, some, a->err));
        for (uint32_t i = 0; i < some; i++)
            a->ended[at + i] =
                !advance(a, &a->slots[at + i], g->logits + (size_t)i * g->model.vocab);
    }
    for (uint32_t i = n; i-- > 0;)
        if (a->ended[i])
            release_slot(a, i);
    a->times.tokens += n;
    a->times.decode_ns += now() - began;
    return ORR_OK;
}

orr_status orr_generate(orr_generator *g, const orr_prompt *prompts, uint32_t n,
                        const orr_sampling *sampling,
                        bool (*told)(void *ctx, uint32_t prompt, int32_t token), void *ctx,
                        orr_arena *arena, orr_generated *ret, orr_generation_times *ret_times,
                        orr_error *err)
{
    answering a = {.g = g,
                   .prompts = prompts,
                   .sampling = sampling,
                   .told = told,
                   .ctx = ctx,
                   .arena = arena,
                   .ret = ret,
                   .slots = orr_arena_array(arena, sequence, g->options.batch),
                   .room = orr_arena_array(arena, orr_token_candidate, g->model.vocab),
                   .ended = orr_arena_array(arena, bool, g->options.batch),
                   .began_ns = now(),
                   .err = err};
    if (a.slots == NULL || a.room == NULL || a.ended == NULL)
        return orr_fail_memory(err);
    for (int64_t step = 0; !a.over && (a.n > 0 || a.taken < n); step++) {
        if (g->recorder != NULL)
            orr_recorder_step(g->recorder, step);
        while (a.n < g->options.batch && a.taken < n && !a.over)
            ORR_TRY(admit(&a));
        if (a.n > 0 && !a.over)
            ORR_TRY(decode(&a));
        if (g->recorder != NULL)
            orr_recorder_end(g->recorder);
    }
    for (uint32_t p = a.taken; p < n; p++)
        ret[p] = (orr_generated){0};
    g->requests += n;
    if (ret_times != NULL)
        *ret_times = a.times;
    return g->recorder != NULL ? orr_generator_write_trace(g, err) : ORR_OK;
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
