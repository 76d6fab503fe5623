/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "experts/statistics/passes.h"

/* How well a request's prefill tells its decode, request by request: counts by layer and expert
 * fit a cache, which those of all requests at once would not. */
typedef struct request_counts {
    uint32_t *prefill, *decode;            /* shape (L, E), of one request */
    uint32_t *last_prefill, *first_decode; /* of the block's last and first complete ones */
    uint16_t *choice;
} request_counts;

static void free_counts(request_counts *c)
{
    orr_free(c->prefill);
    orr_free(c->decode);
    orr_free(c->last_prefill);
    orr_free(c->first_decode);
    orr_free(c->choice);
}

static bool make_counts(const orr_expert_request_pass *p, request_counts *ret)
{
    const size_t n = (size_t)p->routes->layers * p->experts;
    *ret = (request_counts){
        .prefill = orr_calloc(n, sizeof(uint32_t)),
        .decode = orr_calloc(n, sizeof(uint32_t)),
        .last_prefill = orr_calloc(n, sizeof(uint32_t)),
        .first_decode = orr_calloc(n, sizeof(uint32_t)),
        .choice = orr_calloc((size_t)ORR_ROUTES_CHUNK * p->routes->top_k, sizeof(uint16_t)),
    };
    return ret->prefill != NULL && ret->decode != NULL && ret->last_prefill != NULL &&
           ret->first_decode != NULL && ret->choice != NULL;
}

/* Neighbouring tokens of one phase are decoded together. */
static uint32_t run_length(const orr_expert_request_pass *p, uint64_t at, uint64_t end)
{
    const uint32_t *token = p->token + at;
    const uint8_t *phase = p->routes->phase;
    uint32_t n = 1;
    while (n < ORR_ROUTES_CHUNK && at + n < end && token[n] == token[0] + n &&
           phase[token[n]] == phase[token[0]])
        n++;
    return n;
}

/* Returns whether the request has both phases. */
static bool count_request(const orr_expert_request_pass *p, uint32_t request, request_counts *c)
{
    const orr_routes *r = p->routes;
    const size_t bytes = (size_t)r->layers * p->experts * sizeof(uint32_t);
    bool has[2] = {false, false};
    memset(c->prefill, 0, bytes);
    memset(c->decode, 0, bytes);
    for (uint64_t at = p->first[request]; at < p->first[request + 1];) {
        const uint32_t token = p->token[at], n = run_length(p, at, p->first[request + 1]);
        const bool decodes = r->phase[token] == ORR_ROUTE_DECODE;
        uint32_t *counts = decodes ? c->decode : c->prefill;
        has[decodes] = true;
        for (uint32_t l = 0; l < r->layers; l++, counts += p->experts) {
            orr_routes_choices(r, l, token, n, c->choice);
            for (size_t i = 0; i < (size_t)n * r->top_k; i++)
                counts[c->choice[i]]++;
        }
        at += n;
    }
    return has[0] && has[1];
}

/* Mean over layers; concentrated layers would correlate whatever the request. */
static double correlate(const orr_expert_request_pass *p, const uint32_t *prefill,
                        const uint32_t *decode)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t l = 0; l < p->routes->layers; l++) {
        if (p->of_layer[l].concentrated)
            continue;
        const size_t at = (size_t)l * p->experts;
        const double r = orr_expert_correlation(prefill + at, decode + at, p->experts);
        if (!isnan(r)) {
            sum += r;
            n++;
        }
    }
    return n > 0 ? sum / n : NAN;
}

static void swap(uint32_t **a, uint32_t **b)
{
    uint32_t *const held = *a;
    *a = *b;
    *b = held;
}

orr_status orr_expert_request_pass_one(void *pass, size_t block, orr_error *err)
{
    const orr_expert_request_pass *p = pass;
    const size_t begin = block * ORR_REQUEST_BLOCK, end = begin + ORR_REQUEST_BLOCK;
    const size_t bytes = (size_t)p->routes->layers * p->experts * sizeof(uint32_t);
    uint32_t first = ORR_NONE, last = ORR_NONE;
    request_counts c;
    if (!make_counts(p, &c)) {
        free_counts(&c);
        return orr_fail_memory(err);
    }
    for (size_t at = begin; at < end && at < p->routes->requests; at++) {
        const uint32_t i = (uint32_t)(at * p->stride % p->routes->requests);
        p->own[i] = p->other[i] = NAN;
        if (!count_request(p, i, &c))
            continue;
        p->own[i] = correlate(p, c.prefill, c.decode);
        if (last != ORR_NONE)
            p->other[last] = correlate(p, c.last_prefill, c.decode);
        else
            memcpy(c.first_decode, c.decode, bytes);
        first = first == ORR_NONE ? i : first;
        last = i;
        swap(&c.prefill, &c.last_prefill);
    }
    if (last != first)
        p->other[last] = correlate(p, c.last_prefill, c.first_decode);
    free_counts(&c);
    return ORR_OK;
}
