/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/group/signature.h"

#include <math.h>
#include <string.h>

orr_status orr_request_tokens_make(const orr_routes *routes, int phase, orr_arena *arena,
                                   orr_request_tokens *ret, orr_error *err)
{
    uint64_t *begin = orr_arena_array(arena, uint64_t, (size_t)routes->requests + 2);
    if (begin == NULL)
        return orr_fail_memory(err);
    for (uint64_t t = 0; t < routes->tokens; t++)
        begin[routes->request[t] + 2] += phase < 0 || routes->phase[t] == phase;
    for (uint32_t i = 0; i < routes->requests; i++)
        begin[i + 2] += begin[i + 1];
    uint64_t *token = orr_arena_array(arena, uint64_t, begin[routes->requests + 1]);
    if (token == NULL)
        return orr_fail_memory(err);
    /* begin[i + 1] runs from the begin of request i to its end. */
    for (uint64_t t = 0; t < routes->tokens; t++)
        if (phase < 0 || routes->phase[t] == phase)
            token[begin[routes->request[t] + 1]++] = t;
    *ret = (orr_request_tokens){.begin = begin, .token = token};
    return ORR_OK;
}

void orr_signature_of_counts(const uint32_t *counts, uint32_t layers, uint32_t experts, float *ret)
{
    for (uint32_t l = 0; l < layers; l++, counts += experts, ret += experts) {
        uint64_t sum = 0;
        for (uint32_t e = 0; e < experts; e++)
            sum += counts[e];
        const float scale = sum > 0 ? 1.0F / ((float)sum * (float)layers) : 0;
        for (uint32_t e = 0; e < experts; e++)
            ret[e] = sqrtf((float)counts[e] * scale);
    }
}

void orr_signature_of_request(const orr_routes *routes, const orr_request_tokens *tokens,
                              uint32_t request, uint32_t *counts, float *ret)
{
    const uint64_t begin = tokens->begin[request], end = tokens->begin[request + 1];
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    for (uint32_t l = 0; l < routes->layers; l++)
        for (uint64_t i = begin; i < end; i++) {
            orr_routes_choices(routes, l, tokens->token[i], 1, choice);
            for (uint32_t k = 0; k < routes->top_k; k++)
                counts[(size_t)l * routes->experts + choice[k]]++;
        }
    orr_signature_of_counts(counts, routes->layers, routes->experts, ret);
    memset(counts, 0, (size_t)routes->layers * routes->experts * sizeof *counts);
}

enum { LANES = 16 };

float orr_signature_dot(const float *a, const float *b, size_t n)
{
    float lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (size_t j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}
