/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/merge.h"

#include <string.h>

orr_status orr_merge_new(const orr_flows *f, const orr_layer_costs *costs, orr_arena *arena,
                         orr_merge *ret, orr_error *err)
{
    const size_t choices = (size_t)f->sampled * f->top_k, cells = (size_t)f->experts * f->ranks;
    orr_merge m = {.n = f->sampled,
                   .k = f->top_k,
                   .from = f->from,
                   .rows = (double)f->routes->tokens / costs->scale / f->sampled};
    m.expert = orr_arena_array(arena, uint16_t, choices);
    m.to = orr_arena_array(arena, uint16_t, choices);
    m.begin = orr_arena_array(arena, uint32_t, f->experts + 2);
    m.token = orr_arena_array(arena, uint32_t, choices);
    m.remote = orr_arena_array(arena, float, cells);
    m.apart = orr_arena_array(arena, float, cells);
    if (m.expert == NULL || m.to == NULL || m.begin == NULL || m.token == NULL ||
        m.remote == NULL || m.apart == NULL)
        return orr_fail_memory(err);
    *ret = m;
    return ORR_OK;
}

void orr_merge_load(orr_merge *m, const orr_flows *f, uint32_t layer)
{
    memset(m->begin, 0, (f->experts + 2) * sizeof *m->begin);
    for (uint32_t t = 0; t < m->n; t++)
        orr_routes_choices(f->routes, layer, f->token[t], 1, m->expert + (size_t)t * m->k);
    for (size_t i = 0; i < (size_t)m->n * m->k; i++)
        m->begin[m->expert[i] + 2]++;
    for (uint32_t e = 0; e < f->experts; e++)
        m->begin[e + 2] += m->begin[e + 1];
    for (size_t i = 0; i < (size_t)m->n * m->k; i++)
        m->token[m->begin[m->expert[i] + 1]++] = (uint32_t)(i / m->k);
}

/* Choices of a token that go to a rank. */
static uint32_t choices_to(const orr_merge *m, uint32_t token, uint32_t rank)
{
    uint32_t ret = 0;
    for (uint32_t k = 0; k < m->k; k++)
        ret += m->to[(size_t)token * m->k + k] == rank;
    return ret;
}

/* Adds a token to the counts of its experts for one rank, `sign` times. */
static void count_token(orr_merge *m, uint32_t ranks, uint32_t token, uint32_t rank, float sign)
{
    if (m->from[token] == rank)
        return;
    const uint32_t n = choices_to(m, token, rank);
    if (n > 1)
        return;
    for (uint32_t k = 0; k < m->k; k++)
        if (n == 0 || m->to[(size_t)token * m->k + k] == rank)
            m->apart[(size_t)m->expert[(size_t)token * m->k + k] * ranks + rank] += sign;
}

/* Counts of all tokens: each is apart on all ranks, but on those that its other choices go to. */
static void count_sample(orr_merge *m, const orr_layer *layer)
{
    const size_t ranks = layer->ranks;
    for (uint32_t e = 0; e < layer->experts; e++) {
        const uint32_t n = m->begin[e + 1] - m->begin[e];
        for (size_t r = 0; r < ranks; r++)
            m->remote[e * ranks + r] = (float)n;
        for (uint32_t i = m->begin[e]; i < m->begin[e + 1]; i++)
            m->remote[e * ranks + m->from[m->token[i]]]--;
    }
    memcpy(m->apart, m->remote, layer->experts * ranks * sizeof *m->apart);
    for (uint32_t t = 0; t < m->n; t++)
        for (uint32_t k = 0; k < m->k; k++) {
            const uint16_t *to = m->to + (size_t)t * m->k;
            const uint16_t *expert = m->expert + (size_t)t * m->k;
            bool first = to[k] != m->from[t] && to[k] != UINT16_MAX;
            for (uint32_t j = 0; j < k; j++)
                first &= to[j] != to[k];
            if (!first)
                continue;
            const uint32_t n = choices_to(m, t, to[k]);
            for (uint32_t j = 0; j < m->k; j++)
                if (n > 1 || j != k)
                    m->apart[expert[j] * ranks + to[k]]--;
        }
}

static void set_apart(const orr_merge *m, orr_layer *layer, uint32_t expert, uint32_t rank)
{
    const size_t i = (size_t)expert * layer->ranks + rank;
    layer->apart[i] = m->remote[i] > 0 ? m->apart[i] / m->remote[i] : 1;
}

void orr_merge_place(orr_merge *m, orr_layer *layer)
{
    for (uint32_t t = 0; t < m->n; t++)
        for (uint32_t k = 0; k < m->k; k++) {
            const size_t e = m->expert[(size_t)t * m->k + k];
            const uint32_t copies = layer->copies[e];
            m->to[(size_t)t * m->k + k] = layer->has[e * layer->ranks + m->from[t]] ? m->from[t]
                                          : copies > 0 ? layer->copy[e * layer->ranks + t % copies]
                                                       : UINT16_MAX;
        }
    count_sample(m, layer);
    for (uint32_t e = 0; e < layer->experts; e++)
        for (uint32_t r = 0; r < layer->ranks; r++)
            set_apart(m, layer, e, r);
}

static double level_ns(const orr_layer *layer, uint32_t from, uint32_t to)
{
    return layer->costs
        ->dispatch_ns[from / layer->host_ranks == to / layer->host_ranks ? ORR_HOST : ORR_NETWORK];
}

/* Takes a token out of what ranks a and b count, or puts it in; returns its dispatches to them. */
static double recount(orr_merge *m, const orr_layer *layer, uint32_t token, uint32_t a, uint32_t b,
                      float sign)
{
    const uint32_t from = m->from[token];
    double ret = 0;
    count_token(m, layer->ranks, token, a, sign);
    count_token(m, layer->ranks, token, b, sign);
    if (from != a && choices_to(m, token, a) > 0)
        ret += level_ns(layer, from, a);
    if (from != b && choices_to(m, token, b) > 0)
        ret += level_ns(layer, from, b);
    return ret;
}

static void redirect(orr_merge *m, uint32_t token, uint32_t e, uint32_t b, uint32_t f, uint32_t a)
{
    for (uint32_t k = 0; k < m->k; k++) {
        const size_t i = (size_t)token * m->k + k;
        m->to[i] = m->expert[i] == e ? (uint16_t)b : m->expert[i] == f ? (uint16_t)a : m->to[i];
    }
}

static bool needs(const orr_merge *m, uint32_t token, uint32_t expert)
{
    for (uint32_t k = 0; k < m->k; k++)
        if (m->expert[(size_t)token * m->k + k] == expert)
            return true;
    return false;
}

double orr_merge_move(orr_merge *m, orr_layer *layer, uint32_t e, uint32_t b, uint32_t f,
                      uint32_t a)
{
    double change = 0;
    for (uint32_t i = m->begin[e]; i < m->begin[e + 1]; i++) {
        change -= recount(m, layer, m->token[i], a, b, -1);
        redirect(m, m->token[i], e, b, f, a);
        change += recount(m, layer, m->token[i], a, b, 1);
    }
    for (uint32_t i = f < layer->experts ? m->begin[f] : 0;
         f < layer->experts && i < m->begin[f + 1]; i++)
        if (!needs(m, m->token[i], e)) {
            change -= recount(m, layer, m->token[i], a, b, -1);
            redirect(m, m->token[i], e, b, f, a);
            change += recount(m, layer, m->token[i], a, b, 1);
        }
    for (uint32_t x = 0; x < layer->experts; x++) {
        set_apart(m, layer, x, a);
        set_apart(m, layer, x, b);
    }
    return change * m->rows;
}
