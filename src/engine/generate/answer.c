/* SPDX-License-Identifier: Apache-2.0 */
/* Answers prompts by continuous batching: as many sequences at once as the cache has slots; when
 * one ends, the last slot's sequence moves into its slot, and the next prompt is admitted. */
#include <string.h>

#include <xxhash.h>

#include "base/clock.h"
#include "engine/generate/answer.h"
#include "engine/generate/rebalance.h"
#include "engine/generate/sampling.h"

/* What this rank does in a round: one pass of its backbone. */
typedef enum round_kind { ROUND_NOTHING, ROUND_PREFILL, ROUND_DECODE } round_kind;

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
static bool advance(orr_answering *a, orr_sequence *s, const float *logits)
{
    const orr_generator *g = a->g;
    const orr_answer_job *job = a->job;
    const orr_sampling *how = job->sampling;
    orr_generated *r = &job->ret[s->prompt];
    const uint32_t vocab =
        how->vocab > 0 && how->vocab < g->model.vocab ? how->vocab : g->model.vocab;
    const int32_t token = orr_sample_token(how, &s->random, logits, vocab, a->room);
    if (a->times.first_token_ns == 0)
        a->times.first_token_ns = now() - a->began_ns;
    r->logits_digest =
        XXH3_64bits_withSeed(logits, g->model.vocab * sizeof *logits, r->logits_digest);
    r->ended = is_stop(how, token);
    if (r->ended)
        return false;
    r->log_probability += orr_log_probability(logits, g->model.vocab, token);
    r->tokens[r->n++] = token;
    s->next = token;
    if (job->told != NULL && !job->told(job->ctx, s->prompt, token))
        a->over = true;
    const bool positioned = g->model.positions == 0 || s->cached < (int64_t)g->model.positions;
    return !a->over && (int64_t)r->n < how->most && s->cached < g->capacity && positioned;
}

/* The next prompt takes the next slot. */
static orr_status admit(orr_answering *a)
{
    const orr_answer_job *job = a->job;
    const uint32_t p = job->mine[a->taken++];
    if (job->holds != NULL)
        job->holds[p] = true;
    orr_generator_group_begin(a->g);
    a->slots[a->n] = (orr_sequence){.prompt = p, .random = orr_random_of(job->sampling->seed, p)};
    job->ret[p] = (orr_generated){
        .tokens = orr_arena_array(job->arena, int32_t, (size_t)job->sampling->most)};
    if (job->ret[p].tokens == NULL)
        return orr_fail_memory(a->err);
    if (job->prompts[p].n == 0)
        return orr_fail(a->err, ORR_INVALID, "prompt %u is empty", p);
    a->prefilling = true;
    return ORR_OK;
}

/* Prefills a chunk of the prompt in slot n; after the last one the sequence decodes. */
static orr_status prefill(orr_answering *a)
{
    orr_generator *g = a->g;
    const int64_t began = now();
    if (!a->prefilling)
        ORR_TRY(admit(a));
    orr_sequence *s = &a->slots[a->n];
    const orr_prompt *prompt = &a->job->prompts[s->prompt];
    const int64_t from = s->cached;
    ORR_TRY(orr_generator_prefill_chunk(g, a->n, s->prompt, prompt, &s->cached, a->err));
    if (s->cached == (int64_t)prompt->n) {
        ORR_TRY(orr_generator_logits(g, s->cached - 1 - from, 1, 1, a->err));
        a->prefilling = false;
        a->n += advance(a, s, g->logits);
        a->group = a->n > (uint32_t)(s - a->slots) ? orr_generator_group(g) : ORR_NONE;
    }
    a->times.prompt_tokens += s->cached - from;
    a->times.prompt_ns += now() - began;
    return ORR_OK;
}

void orr_answering_copy_slot(orr_answering *a, uint32_t to, uint32_t from)
{
    orr_generator *g = a->g;
    a->slots[to] = a->slots[from];
    for (uint32_t p = 0; p < g->n_places; p++) {
        const size_t bytes = g->cache_bytes[p];
        if (bytes == 0)
            continue;
        memcpy(g->keys[p] + to * bytes, g->keys[p] + from * bytes, bytes);
        memcpy(g->values[p] + to * bytes, g->values[p] + from * bytes, bytes);
    }
}

void orr_answering_release_slot(orr_answering *a, uint32_t slot)
{
    const uint32_t last = --a->n;
    if (slot != last)
        orr_answering_copy_slot(a, slot, last);
    if (a->prefilling)
        orr_answering_copy_slot(a, last, last + 1);
}

/* Decodes one token of every sequence. */
static orr_status decode(orr_answering *a)
{
    orr_generator *g = a->g;
    const uint32_t n = a->n;
    const int64_t began = now();
    for (uint32_t i = 0; i < n; i++) {
        g->ids[i] = a->slots[i].next;
        g->first[i] = a->slots[i].cached++;
        g->request[i] = a->slots[i].prompt;
    }
    const orr_forward_input feed = {.samples = n,
                                    .tokens = 1,
                                    .ids = g->ids,
                                    .first = g->first,
                                    .request = g->request,
                                    .phase = 'd'};
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
            orr_answering_release_slot(a, i);
    a->times.tokens += n;
    a->times.decode_ns += now() - began;
    return ORR_OK;
}

/* Prompts are prefilled as long as there are free slots. */
static round_kind next_round(const orr_answering *a)
{
    if (a->over)
        return ROUND_NOTHING;
    if (a->prefilling || (a->n < a->g->options.batch && a->taken < a->job->n_mine))
        return ROUND_PREFILL;
    return a->n > 0 ? ROUND_DECODE : ROUND_NOTHING;
}

/* Whether any rank has something to do, and none has been told to end: the same on all. */
static orr_status agree(orr_answering *a, round_kind kind, bool *ret_going)
{
    orr_rank_state state = {.works = kind != ROUND_NOTHING,
                            .over = a->over,
                            .prefills = kind == ROUND_PREFILL,
                            .group = a->group,
                            .active = a->n + a->prefilling};
    *ret_going = state.works;
    if (a->g->parallel == NULL)
        return ORR_OK;
    for (uint32_t i = 0; i < a->n; i++)
        state.tokens += (uint64_t)a->slots[i].cached;
    return orr_generator_agree(a->g, &state, ret_going, a->err);
}

static orr_status do_round(orr_answering *a, round_kind kind)
{
    switch (kind) {
    case ROUND_PREFILL:
        return prefill(a);
    case ROUND_DECODE:
        return decode(a);
    default:
        return orr_generator_forward(a->g, &(orr_forward_input){0}, a->err);
    }
}

/* On all ranks at once: requests change ranks, experts move. */
static orr_status between_rounds(orr_answering *a)
{
    orr_expert_parallel *x = a->g->parallel;
    if (x->groups != NULL)
        ORR_TRY(orr_answering_move(a));
    return x->rebalancer != NULL ? orr_rebalancer_round(x->rebalancer, a->g, a->err) : ORR_OK;
}

/* A recorded step is what admits prompts and decodes once; over ranks, one round. */
static orr_status answer_all(orr_answering *a)
{
    orr_recorder *recorder = a->g->recorder;
    bool going, begun = false;
    for (int64_t step = 0;;) {
        round_kind kind = next_round(a);
        ORR_TRY(agree(a, kind, &going));
        if (!going)
            break;
        if (a->g->parallel != NULL) {
            ORR_TRY(between_rounds(a));
            kind = next_round(a);
        }
        if (recorder != NULL && !begun)
            orr_recorder_step(recorder, step++);
        ORR_TRY(do_round(a, kind));
        begun = kind == ROUND_PREFILL && a->g->parallel == NULL && !a->over;
        if (recorder != NULL && !begun)
            orr_recorder_end(recorder);
    }
    if (recorder != NULL && begun)
        orr_recorder_end(recorder);
    return ORR_OK;
}

orr_status orr_generator_answer(orr_generator *g, const orr_answer_job *job,
                                orr_generation_times *ret_times, orr_error *err)
{
    orr_answering a = {.g = g,
                       .job = job,
                       .slots = orr_arena_array(job->arena, orr_sequence, g->options.batch),
                       .room = orr_arena_array(job->arena, orr_token_candidate, g->model.vocab),
                       .ended = orr_arena_array(job->arena, bool, g->options.batch),
                       .began_ns = now(),
                       .group = ORR_NONE,
                       .err = err};
    if (a.slots == NULL || a.room == NULL || a.ended == NULL)
        return orr_fail_memory(err);
    ORR_TRY(answer_all(&a));
    for (uint32_t i = a.taken; i < job->n_mine; i++)
        job->ret[job->mine[i]] = (orr_generated){0};
    g->requests += job->n;
    *ret_times = a.times;
    return g->recorder != NULL ? orr_generator_write_trace(g, err) : ORR_OK;
}

orr_status orr_generate(orr_generator *g, const orr_prompt *prompts, uint32_t n,
                        const orr_sampling *sampling,
                        bool (*told)(void *ctx, uint32_t prompt, int32_t token), void *ctx,
                        orr_arena *arena, orr_generated *ret, orr_generation_times *ret_times,
                        orr_error *err)
{
    orr_generation_times times;
    uint32_t *mine = orr_arena_array(arena, uint32_t, n);
    if (mine == NULL)
        return orr_fail_memory(err);
    for (uint32_t p = 0; p < n; p++)
        mine[p] = p;
    const orr_answer_job job = {.prompts = prompts,
                                .n = n,
                                .mine = mine,
                                .n_mine = n,
                                .sampling = sampling,
                                .told = told,
                                .ctx = ctx,
                                .arena = arena,
                                .ret = ret};
    ORR_TRY(orr_generator_answer(g, &job, &times, err));
    if (ret_times != NULL)
        *ret_times = times;
    return ORR_OK;
}
