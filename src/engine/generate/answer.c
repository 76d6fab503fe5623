/* SPDX-License-Identifier: Apache-2.0 */
/* Answers prompts by continuous batching: as many sequences at once as the cache has slots; when
 * one ends, the last slot's sequence moves into its slot, and the next prompt is admitted. */
#include <string.h>

#include "base/clock.h"
#include "engine/generate/generator.h"
#include "engine/generate/sampling.h"

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
