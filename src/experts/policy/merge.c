/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/merge.h"

#include <string.h>

orr_status orr_merge_new(const orr_flows *f, const orr_layer_costs *costs, orr_arena *arena,
                         orr_merge *ret, orr_error *err)
{
    const size_t pairs = (size_t)f->experts * f->experts;
    orr_merge m = {.n = f->sampled,
                   .k = f->top_k,
                   .experts = f->experts,
                   .rows = (double)f->routes->tokens / costs->scale / f->sampled};
    m.expert = orr_arena_array(arena, uint16_t, (size_t)f->sampled * f->top_k);
    m.count = orr_arena_array(arena, uint32_t, pairs);
    m.chosen = orr_arena_array(arena, float, f->experts);
    m.pair = orr_arena_array(arena, float, pairs);
    if (m.expert == NULL || m.count == NULL || m.chosen == NULL || m.pair == NULL)
        return orr_fail_memory(err);
    *ret = m;
    return ORR_OK;
}

void orr_merge_load(orr_merge *m, const orr_flows *f, uint32_t layer)
{
    const size_t experts = m->experts;
    memset(m->count, 0, experts * experts * sizeof *m->count);
    for (uint32_t t = 0; t < m->n; t++) {
        uint16_t *expert = m->expert + (size_t)t * m->k;
        orr_routes_choices(f->routes, layer, f->token[t], 1, expert);
        for (uint32_t i = 0; i < m->k; i++)
            for (uint32_t j = 0; j <= i; j++)
                m->count[expert[i] * experts + expert[j]]++;
    }
    for (size_t e = 0; e < experts; e++) {
        m->chosen[e] = (float)m->count[e * experts + e];
        m->pair[e * experts + e] = 0;
        for (size_t other = 0; other < e; other++)
            m->pair[e * experts + other] = m->pair[other * experts + e] =
                (float)(m->count[e * experts + other] + m->count[other * experts + e]);
    }
}

double orr_merge_saving(const orr_merge *m, const uint16_t *rank_of)
{
    enum { TOKENS = 1024 };
    const uint32_t step = m->n > TOKENS ? m->n / TOKENS : 1;
    double pairs = 0, saved = 0;
    for (uint32_t t = 0; t < m->n; t += step) {
        const uint16_t *expert = m->expert + (size_t)t * m->k;
        for (uint32_t i = 1; i < m->k; i++) {
            uint32_t met = 0;
            for (uint32_t j = 0; j < i; j++)
                met += rank_of[expert[j]] == rank_of[expert[i]];
            pairs += met;
            saved += met > 0;
        }
    }
    return pairs > 0 ? saved / pairs : 1;
}

void orr_merge_place(const orr_merge *m, orr_layer *layer)
{
    for (uint32_t e = 0; e < m->experts; e++) {
        const float *pair = m->pair + (size_t)e * m->experts;
        const float one = m->chosen[e] > 0 ? 1 / m->chosen[e] : 0;
        float *apart = layer->apart + (size_t)e * layer->ranks;
        for (uint32_t r = 0; r < layer->ranks; r++)
            apart[r] = 1;
        for (uint32_t other = 0; other < m->experts; other++)
            for (uint32_t i = 0; i < layer->copies[other]; i++)
                apart[layer->copy[(size_t)other * layer->ranks + i]] *=
                    1 - pair[other] * one / (float)layer->copies[other];
    }
}
