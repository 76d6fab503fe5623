/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/serving_rounds.h"

#include <stdlib.h>
#include <string.h>

#include "engine/generate/generator.h"

/* A prompt of the job, with all tokens that pass through the model. */
typedef struct request {
    uint64_t first; /* of its rows in `rows` */
    int64_t prompt, all;
} request;

typedef struct rank_rounds {
    uint32_t next;       /* prompt that is admitted next: every R-th is this rank's */
    uint32_t n;          /* sequences that decode */
    uint32_t *sequence;  /* shape (batch): prompts */
    uint32_t prefilling; /* a prompt; ORR_NONE */
    uint64_t *row;       /* shape (rows of a backbone) */
} rank_rounds;

struct orr_serving_rounds {
    const orr_serving_job *job;
    uint32_t ranks, batch;
    request *request;       /* shape (n) */
    uint64_t *rows;         /* shape (tokens): rows of the routes by prompt and position */
    uint32_t *prompt_of;    /* shape (requests of the routes) */
    int64_t *cached;        /* shape (n) */
    rank_rounds *rank;      /* shape (ranks) */
    orr_serving_pass *pass; /* shape (ranks) */
};

/* --- which rows are whose -----------------------------------------------------------------------
 */

/* Requests of a recording are named by the numbers of their prompts. */
static orr_status number_requests(orr_serving_rounds *r, orr_arena *arena, orr_error *err)
{
    const orr_routes *routes = r->job->routes;
    r->prompt_of = orr_arena_array(arena, uint32_t, routes->requests);
    if (r->prompt_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < routes->requests; i++) {
        char *end;
        const unsigned long number = strtoul(routes->request_name[i], &end, 10);
        if (end == routes->request_name[i] || *end != '\0' || number >= r->job->n)
            return orr_fail(err, ORR_INVALID,
                            "%s: request '%.40s': routes of these %u prompts have their numbers, "
                            "from 0 on",
                            routes->source, routes->request_name[i], r->job->n);
        r->prompt_of[i] = (uint32_t)number;
    }
    return ORR_OK;
}

static orr_status check_request(const orr_serving_rounds *r, uint32_t p, orr_error *err)
{
    const request *q = &r->request[p];
    if (q->prompt == (int64_t)r->job->prompts[p].n)
        return ORR_OK;
    return orr_fail(
        err, ORR_INVALID,
        "%s: %lld tokens of prompt %u, which has %zu: are these routes of other prompts?",
        r->job->routes->source, (long long)q->prompt, p, r->job->prompts[p].n);
}

static orr_status place_rows(orr_serving_rounds *r, orr_arena *arena, orr_error *err)
{
    const orr_routes *routes = r->job->routes;
    uint64_t first = 0;
    r->rows = orr_arena_array(arena, uint64_t, routes->tokens);
    if (r->rows == NULL)
        return orr_fail_memory(err);
    for (uint64_t t = 0; t < routes->tokens; t++) {
        request *q = &r->request[orr_serving_prompt(r, t)];
        q->prompt += routes->phase[t] == ORR_ROUTE_PREFILL;
        q->all++;
    }
    for (uint32_t p = 0; p < r->job->n; p++) {
        ORR_TRY(check_request(r, p, err));
        r->request[p].first = first;
        first += (uint64_t)r->request[p].all;
    }
    memset(r->rows, 0xff, routes->tokens * sizeof *r->rows);
    for (uint64_t t = 0; t < routes->tokens; t++) {
        const request *q = &r->request[orr_serving_prompt(r, t)];
        uint64_t *at = r->rows + q->first + routes->position[t];
        if (routes->position[t] >= q->all || *at != UINT64_MAX)
            return orr_fail(err, ORR_INVALID,
                            "%s: token %u of request %s stands there twice, or "
                            "tokens before it are missing",
                            routes->source, routes->position[t],
                            routes->request_name[routes->request[t]]);
        *at = t;
    }
    return ORR_OK;
}

uint32_t orr_serving_prompt(const orr_serving_rounds *r, uint64_t row)
{
    return r->prompt_of[r->job->routes->request[row]];
}

static orr_status make_room(orr_serving_rounds *r, orr_arena *arena, orr_error *err)
{
    const uint32_t n = r->job->n;
    const size_t rows = r->batch > ORR_PREFILL_CHUNK_TOKENS ? r->batch : ORR_PREFILL_CHUNK_TOKENS;
    r->request = orr_arena_array(arena, request, n);
    r->cached = orr_arena_array(arena, int64_t, n);
    r->rank = orr_arena_array(arena, rank_rounds, r->ranks);
    r->pass = orr_arena_array(arena, orr_serving_pass, r->ranks);
    if (r->request == NULL || r->cached == NULL || r->rank == NULL || r->pass == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < r->ranks; k++) {
        r->rank[k] = (rank_rounds){.next = k,
                                   .prefilling = ORR_NONE,
                                   .sequence = orr_arena_array(arena, uint32_t, r->batch + 1),
                                   .row = orr_arena_array(arena, uint64_t, rows)};
        if (r->rank[k].sequence == NULL || r->rank[k].row == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status orr_serving_rounds_open(const orr_serving_job *job, uint32_t ranks, orr_arena *arena,
                                   orr_serving_rounds **ret, orr_error *err)
{
    orr_serving_rounds *r = orr_arena_one(arena, orr_serving_rounds);
    if (r == NULL)
        return orr_fail_memory(err);
    *r = (orr_serving_rounds){
        .job = job, .ranks = ranks, .batch = job->options->batch > 0 ? job->options->batch : 1};
    ORR_TRY(make_room(r, arena, err));
    ORR_TRY(number_requests(r, arena, err));
    ORR_TRY(place_rows(r, arena, err));
    *ret = r;
    return ORR_OK;
}

/* --- rounds -------------------------------------------------------------------------------------
 */

/* The row of the next token of a prompt. */
static uint64_t take_row(orr_serving_rounds *r, uint32_t prompt)
{
    return r->rows[r->request[prompt].first + (uint64_t)r->cached[prompt]++];
}

static orr_serving_pass prefill(orr_serving_rounds *r, rank_rounds *k)
{
    if (k->prefilling == ORR_NONE) {
        k->prefilling = k->next;
        k->next += r->ranks;
    }
    const uint32_t p = k->prefilling;
    const request *q = &r->request[p];
    const int64_t left = q->prompt - r->cached[p];
    orr_serving_pass pass = {.samples = 1, .prefills = true, .cached = (double)r->cached[p]};
    pass.tokens =
        left < ORR_PREFILL_CHUNK_TOKENS ? (uint32_t)left : (uint32_t)ORR_PREFILL_CHUNK_TOKENS;
    for (uint32_t i = 0; i < pass.tokens; i++)
        k->row[i] = take_row(r, p);
    if (r->cached[p] == q->prompt) {
        pass.logits = 1;
        k->prefilling = ORR_NONE;
        if (q->all > q->prompt)
            k->sequence[k->n++] = p;
    }
    return pass;
}

static orr_serving_pass decode(orr_serving_rounds *r, rank_rounds *k)
{
    orr_serving_pass pass = {.samples = k->n, .tokens = 1, .logits = k->n};
    uint32_t left = 0;
    for (uint32_t i = 0; i < pass.samples; i++) {
        const uint32_t p = k->sequence[i];
        pass.cached += (double)r->cached[p] / pass.samples;
        k->row[i] = take_row(r, p);
        if (r->cached[p] < r->request[p].all)
            k->sequence[left++] = p;
    }
    k->n = left;
    return pass;
}

const orr_serving_pass *orr_serving_rounds_next(orr_serving_rounds *r)
{
    bool any = false;
    for (uint32_t i = 0; i < r->ranks; i++) {
        rank_rounds *k = &r->rank[i];
        const bool admits = k->n < r->batch && k->next < r->job->n;
        r->pass[i] = k->prefilling != ORR_NONE || admits ? prefill(r, k)
                     : k->n > 0                          ? decode(r, k)
                                                         : (orr_serving_pass){0};
        r->pass[i].row = k->row;
        any |= r->pass[i].samples > 0;
    }
    return any ? r->pass : NULL;
}
