/* SPDX-License-Identifier: Apache-2.0 */
/* Forward passes of a generator: prefill and decode programs fill the KV caches, and the LM head
 * gives logits of their rows. */
#include <stdio.h>
#include <string.h>

#include "engine/generate/rebalance.h"
#include "kernel/format/row.h"

static orr_status execute(orr_generator *g, orr_program *program, orr_error *err)
{
    orr_program_run run = {0};
    if (g->recorder != NULL)
        orr_recorder_run(g->recorder, program, &run.start_ns, &run.end_ns);
    return orr_program_execute(program, &run, err);
}

static void bind_caches(orr_generator *g, const orr_backbone *body, uint32_t slot)
{
    for (size_t i = 0; i < body->caches.n; i++) {
        const orr_kv_cache_value *c = &body->caches.at[i];
        char *base = c->values ? g->values[c->place] : g->keys[c->place];
        orr_program_bind(body->served.program, c->value, base + slot * g->cache_bytes[c->place]);
    }
}

/* Learned positions end with their table; the caller has checked the length. */
static void set_positions(orr_generator *g, const orr_forward_input *feed)
{
    for (int64_t b = 0; b < feed->samples; b++)
        for (int64_t t = 0; t < feed->tokens; t++)
            g->positions[b * feed->tokens + t] = feed->first[b] + t;
}

/* Which tokens the rows of a backbone are. */
static void set_requests(orr_generator *g, const orr_forward_input *feed)
{
    orr_expert_parallel *x = g->parallel;
    x->tokens = (uint32_t)(feed->samples * feed->tokens);
    for (uint32_t i = 0; i < x->tokens; i++) {
        const int64_t b = i / feed->tokens;
        x->request[i] = feed->request != NULL ? feed->request[b] : 0;
        x->position[i] = (uint32_t)(feed->first[b] + i % feed->tokens);
    }
}

orr_status orr_generator_forward(orr_generator *g, const orr_forward_input *feed, orr_error *err)
{
    orr_backbone *body;
    ORR_TRY(orr_generator_backbone(g, feed->samples, feed->tokens, feed->tiles, &body, err));
    orr_program *program = body->served.program;
    bind_caches(g, body, feed->slot);
    if (body->ids != ORR_NONE)
        orr_program_bind(program, body->ids, (void *)feed->ids);
    if (body->positions != ORR_NONE) {
        set_positions(g, feed);
        orr_program_bind(program, body->positions, g->positions);
    }
    if (body->pixels != ORR_NONE)
        orr_program_bind(program, body->pixels, (void *)feed->pixels);
    orr_program_set_positions(program, feed->first);
    if (g->parallel != NULL)
        set_requests(g, feed);
    ORR_TRY(orr_generator_run_backbone(g, body, err));
    if (feed->phase == 'p' && feed->samples > 0)
        orr_generator_group_count(g, body);
    if (g->parallel != NULL && g->parallel->rebalancer != NULL)
        orr_rebalancer_count(g->parallel->rebalancer, g, body);
    return g->options.record_experts ? orr_generator_log_experts(g, body, feed, err) : ORR_OK;
}

/* Gathers rows of hidden states that are apart into the head's contiguous input. */
static void gather_rows(orr_generator *g, int64_t row, int64_t step, int64_t rows, size_t bytes)
{
    char *hidden = g->hidden;
    if (step == 1 && row == 0)
        return;
    for (int64_t i = 0; i < rows; i++)
        memmove(hidden + (size_t)i * bytes, hidden + (size_t)(row + i * step) * bytes, bytes);
}

orr_status orr_generator_logits(orr_generator *g, int64_t row, int64_t step, int64_t rows,
                                orr_error *err)
{
    orr_lm_head *head;
    ORR_TRY(orr_generator_lm_head(g, rows, &head, err));
    const orr_tape *tape = &head->served.tape;
    const orr_type *type = &tape->values[head->in].type, *out = &tape->values[head->out].type;
    const size_t bytes = (size_t)(orr_type_bytes(type) / rows);
    if (step == 1)
        orr_program_bind(head->served.program, head->in, (char *)g->hidden + (size_t)row * bytes);
    else {
        gather_rows(g, row, step, rows, bytes);
        orr_program_bind(head->served.program, head->in, g->hidden);
    }
    ORR_TRY(execute(g, head->served.program, err));
    orr_dtype_to_fp32((orr_dtype)out->dtype, orr_program_data(head->served.program, head->out),
                      rows * g->model.vocab, g->logits);
    return orr_generator_check_logits(g, rows, err);
}

static orr_status check_tokens(const orr_generator *g, const orr_prompt *p, orr_error *err)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->tokens[i] < 0 || (uint32_t)p->tokens[i] >= g->model.vocab + g->model.extra_tokens)
            return orr_fail(err, ORR_INVALID, "token %d: the model has %u", p->tokens[i],
                            g->model.vocab);
    if ((int64_t)p->n > g->capacity)
        return orr_fail(err, ORR_INVALID, "a prompt of %zu tokens: there is room for %lld", p->n,
                        (long long)g->capacity);
    if (g->model.positions > 0 && p->n > g->model.positions)
        return orr_fail(err, ORR_INVALID, "a prompt of %zu tokens: the model has %u positions",
                        p->n, g->model.positions);
    if (p->pixels != NULL && g->model.vision.layers == 0)
        return orr_fail(err, ORR_INVALID, "%s does not see pictures", g->model.name);
    return ORR_OK;
}

/* A prompt with images is prefilled in one run, since all of them are inputs of it. */
orr_status orr_generator_prefill_chunk(orr_generator *g, uint32_t slot, uint32_t request,
                                       const orr_prompt *prompt, int64_t *cached, orr_error *err)
{
    const int64_t at = *cached, n = (int64_t)prompt->n,
                  tiles = prompt->pixels != NULL ? prompt->tiles : 0,
                  some = n - at < ORR_PREFILL_CHUNK_TOKENS ? n - at : ORR_PREFILL_CHUNK_TOKENS;
    if (at == 0)
        ORR_TRY(check_tokens(g, prompt, err));
    if (tiles > 0 && n > ORR_PREFILL_CHUNK_TOKENS)
        return orr_fail(err, ORR_LIMIT, "a prompt with pictures of %lld tokens: at most %d",
                        (long long)n, ORR_PREFILL_CHUNK_TOKENS);
    for (int64_t i = 0; i < some; i++)
        g->ids[i] = prompt->tokens[at + i];
    const orr_forward_input feed = {.slot = slot,
                                    .samples = 1,
                                    .tokens = some,
                                    .ids = g->ids,
                                    .first = &at,
                                    .request = &request,
                                    .pixels = prompt->pixels,
                                    .tiles = tiles,
                                    .phase = 'p'};
    ORR_TRY(orr_generator_forward(g, &feed, err));
    *cached = at + some;
    return ORR_OK;
}

orr_status orr_generator_prefill(orr_generator *g, uint32_t slot, const orr_prompt *prompt,
                                 orr_prefill_visit *each, void *ctx, orr_error *err)
{
    for (int64_t at = 0, from = 0; at < (int64_t)prompt->n; from = at) {
        ORR_TRY(orr_generator_prefill_chunk(g, slot, 0, prompt, &at, err));
        if (each != NULL)
            ORR_TRY(each(ctx, g, from, at - from, err));
    }
    return ORR_OK;
}

orr_status orr_generator_log_experts(orr_generator *g, const orr_backbone *body,
                                     const orr_forward_input *feed, orr_error *err)
{
    const size_t rows = (size_t)(feed->samples * feed->tokens);
    for (int64_t b = 0; b < feed->samples; b++)
        for (int64_t t = 0; t < feed->tokens; t++) {
            const orr_routes_row row = {
                .request = (uint32_t)g->requests + (feed->request != NULL ? feed->request[b] : 0),
                .position = (uint32_t)(feed->first[b] + t),
                .phase = feed->phase == 'p' ? ORR_ROUTE_PREFILL : ORR_ROUTE_DECODE,
                .rank = g->parallel != NULL ? (uint16_t)g->parallel->rank : UINT16_MAX};
            ORR_TRY(orr_route_recorder_token(g->routes, &row, err));
        }
    for (uint32_t l = 0; l < body->choices.n; l++) {
        const orr_expert_choice *c = &body->choices.at[l];
        const orr_type *type = &body->served.tape.values[c->indices].type;
        ORR_TRY(orr_route_recorder_layer(g->routes, l, rows, c->data, (orr_dtype)type->dtype, err));
    }
    return ORR_OK;
}
