/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/statistics/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel_for.h"
#include "experts/statistics/passes.h"

/* --- figures over layers ---------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

orr_expert_spread orr_expert_spread_of(const orr_expert_statistics *statistics, const double *value,
                                       bool low_is_bad, bool concentrated, double *room)
{
    orr_expert_spread s = {NAN, NAN, NAN, ORR_NONE};
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t l = 0; l < statistics->layers; l++) {
        const orr_expert_layer_statistics *layer = &statistics->of_layer[l];
        if (isnan(value[l]) || (layer->concentrated && !concentrated))
            continue;
        if (n == 0 || (low_is_bad ? value[l] < s.worst : value[l] > s.worst)) {
            s.worst = value[l];
            s.worst_layer = layer->layer;
        }
        sum += value[l];
        room[n++] = value[l];
    }
    if (n == 0)
        return s;
    qsort(room, n, sizeof *room, by_value);
    s.mean = sum / n;
    const uint32_t rank = (uint32_t)ceil(0.95 * n); /* nearest rank */
    s.tail = room[low_is_bad ? n - rank : rank - 1];
    return s;
}

/* --- imbalance of neighbouring experts -------------------------------------------------------- */

double orr_expert_linear_imbalance_of(const double *load, uint32_t experts, uint32_t ranks)
{
    double most = 0, all = 0;
    for (uint32_t r = 0, e = 0; r < ranks; r++) {
        double sum = 0;
        for (uint32_t n = experts / ranks + (r < experts % ranks); n > 0; n--)
            sum += load[e++];
        most = fmax(most, sum);
        all += sum;
    }
    return most * ranks / all;
}

static orr_status make_imbalance(orr_expert_statistics *s, uint32_t ranks, orr_arena *arena,
                                 orr_error *err)
{
    enum { POWERS = 32 };
    orr_expert_linear_imbalance *rows =
        orr_arena_array(arena, orr_expert_linear_imbalance, POWERS + 1);
    double *value = orr_arena_array(arena, double, s->layers),
           *room = orr_arena_array(arena, double, s->layers);
    uint32_t n = 0;
    if (rows == NULL || value == NULL || room == NULL)
        return orr_fail_memory(err);
    for (uint32_t power = 2; power <= s->experts; power *= 2) {
        if (ranks > power / 2 && ranks < power && ranks > 1)
            rows[n++].ranks = ranks;
        rows[n++].ranks = power;
    }
    if (n > 0 && ranks > rows[n - 1].ranks && ranks <= s->experts)
        rows[n++].ranks = ranks;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t l = 0; l < s->layers; l++)
            value[l] = orr_expert_linear_imbalance_of(s->load + (size_t)l * s->experts, s->experts,
                                                      rows[i].ranks);
        rows[i].all = orr_expert_spread_of(s, value, false, true, room);
        rows[i].without = orr_expert_spread_of(s, value, false, false, room);
    }
    s->imbalance = rows;
    s->n_imbalance = n;
    return ORR_OK;
}

/* --- classes of tokens ------------------------------------------------------------------------ */

/* The class of every token (orr_expert_layer_pass), and the tokens of every kind. */
static orr_status make_classes(const orr_routes *r, uint32_t kinds, uint16_t *ret_class,
                               uint64_t *ret_tokens, orr_error *err)
{
    uint16_t *of_request = orr_calloc(r->requests, sizeof *of_request);
    uint32_t *seen = orr_calloc((size_t)kinds + 1, sizeof *seen);
    orr_status status = ORR_OK;
    if (of_request == NULL || seen == NULL)
        ORR_TRY_OUT(status, orr_fail_memory(err));
    for (uint32_t i = 0; i < r->requests; i++) {
        const uint32_t kind = r->kind[i] < kinds ? r->kind[i] : kinds;
        of_request[i] = (uint16_t)(4 * kind + 2 * (seen[kind]++ % 2));
    }
    for (uint64_t t = 0; t < r->tokens; t++) {
        ret_class[t] = (uint16_t)(of_request[r->request[t]] + (r->phase[t] == ORR_ROUTE_DECODE));
        if (r->kind[r->request[t]] < kinds)
            ret_tokens[r->kind[r->request[t]]]++;
    }
out:
    orr_free(of_request);
    orr_free(seen);
    return status;
}

/* --- kinds of requests ------------------------------------------------------------------------ */

static orr_status make_shift(orr_expert_statistics *s, const double *distance, orr_arena *arena,
                             orr_error *err)
{
    orr_expert_kind_shift *rows = orr_arena_array(arena, orr_expert_kind_shift, s->n_shift);
    double *value = orr_arena_array(arena, double, s->layers),
           *room = orr_arena_array(arena, double, s->layers);
    uint32_t at = 0;
    if (rows == NULL || value == NULL || room == NULL)
        return orr_fail_memory(err);
    for (uint32_t a = 0; a < s->kinds && s->n_shift > 0; a++)
        for (uint32_t b = a; b < s->kinds; b++, at++) {
            for (uint32_t l = 0; l < s->layers; l++)
                value[l] = distance[(size_t)l * s->n_shift + at];
            rows[at] = (orr_expert_kind_shift){
                .a = a,
                .b = b,
                .all = orr_expert_spread_of(s, value, false, true, room),
                .without = orr_expert_spread_of(s, value, false, false, room),
            };
        }
    s->shift = rows;
    return ORR_OK;
}

/* --- by layer --------------------------------------------------------------------------------- */

static orr_status measure_layers(const orr_routes *r, int threads, orr_arena *arena,
                                 orr_expert_statistics *s, orr_error *err)
{
    const uint32_t kinds = r->kinds < ORR_EXPERT_KINDS_MAX ? r->kinds : ORR_EXPERT_KINDS_MAX;
    orr_expert_layer_statistics *of_layer =
        orr_arena_array(arena, orr_expert_layer_statistics, r->layers);
    double *load = orr_arena_array(arena, double, (size_t)r->layers * r->experts);
    uint64_t *kind_tokens = orr_arena_array(arena, uint64_t, kinds);
    uint16_t *class = orr_calloc(r->tokens, sizeof *class);
    double *shift = NULL;
    orr_status status = ORR_OK;
    s->kinds = kinds;
    s->n_shift = kinds > 1 ? kinds * (kinds + 1) / 2 : 0;
    shift = orr_calloc((size_t)r->layers * s->n_shift + 1, sizeof *shift);
    if (of_layer == NULL || load == NULL || kind_tokens == NULL || class == NULL || shift == NULL)
        ORR_TRY_OUT(status, orr_fail_memory(err));
    ORR_TRY_OUT(status, make_classes(r, kinds, class, kind_tokens, err));
    orr_expert_layer_pass pass = {.routes = r,
                                  .experts = r->experts,
                                  .kinds = kinds,
                                  .class = class,
                                  .of_layer = of_layer,
                                  .load = load,
                                  .n_shift = s->n_shift,
                                  .shift = shift};
    ORR_TRY_OUT(status,
                orr_parallel_for(r->layers, threads, orr_expert_layer_pass_one, &pass, err));
    s->of_layer = of_layer;
    s->load = load;
    s->kind_tokens = kind_tokens;
    for (uint32_t l = 0; l < r->layers; l++)
        s->concentrated += of_layer[l].concentrated;
    status = make_shift(s, shift, arena, err);
out:
    orr_free(class);
    orr_free(shift);
    return status;
}

/* --- by request ------------------------------------------------------------------------------- */

/* Tokens by request, in their order: a counting sort. first: shape (requests + 1), zeroed. */
static void sort_tokens(const orr_routes *r, uint64_t *first, uint32_t *token)
{
    for (uint64_t t = 0; t < r->tokens; t++)
        first[r->request[t] + 1]++;
    for (uint32_t i = 0; i < r->requests; i++)
        first[i + 1] += first[i];
    for (uint64_t t = 0; t < r->tokens; t++)
        token[first[r->request[t]]++] = (uint32_t)t;
    memmove(first + 1, first, r->requests * sizeof *first);
    first[0] = 0;
}

static void count_phases(const orr_routes *r, const uint64_t *first, const uint32_t *token,
                         orr_expert_request_statistics *ret)
{
    for (uint32_t i = 0; i < r->requests; i++) {
        if (first[i] == first[i + 1])
            continue; /* left out by orr_routes_select() */
        ret->requests++;
        uint64_t decoded = 0;
        for (uint64_t at = first[i]; at < first[i + 1]; at++)
            decoded += r->phase[token[at]] == ORR_ROUTE_DECODE;
        ret->without_decode += decoded == 0;
        ret->without_prefill += decoded == first[i + 1] - first[i];
    }
}

/* The mean of what is not NAN; sorted, and how many, in *ret_n. */
static double mean_of(double *value, uint32_t n, uint32_t *ret_n)
{
    double sum = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(value[i])) {
            sum += value[i];
            value[left++] = value[i];
        }
    qsort(value, left, sizeof *value, by_value);
    *ret_n = left;
    return left > 0 ? sum / left : NAN;
}

/* About the golden section of n, so that what follows one another is far apart. */
static uint32_t stride_of(uint32_t n)
{
    uint32_t stride = (uint32_t)(0.618 * n);
    for (;; stride++) {
        uint32_t a = n, b = stride;
        while (b != 0) {
            const uint32_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return stride;
    }
}

static orr_status measure_requests(const orr_routes *r, int threads, orr_expert_statistics *s,
                                   orr_error *err)
{
    uint64_t *first = orr_calloc((size_t)r->requests + 1, sizeof *first);
    uint32_t *token = orr_calloc(r->tokens, sizeof *token), n;
    double *own = orr_calloc(r->requests, sizeof *own),
           *other = orr_calloc(r->requests, sizeof *other);
    orr_status status = ORR_OK;
    if (first == NULL || token == NULL || own == NULL || other == NULL)
        ORR_TRY_OUT(status, orr_fail_memory(err));
    sort_tokens(r, first, token);
    count_phases(r, first, token, &s->request);
    orr_expert_request_pass pass = {.routes = r,
                                    .experts = s->experts,
                                    .of_layer = s->of_layer,
                                    .first = first,
                                    .token = token,
                                    .stride = stride_of(r->requests),
                                    .own = own,
                                    .other = other};
    ORR_TRY_OUT(status, orr_parallel_for((r->requests + ORR_REQUEST_BLOCK - 1) / ORR_REQUEST_BLOCK,
                                         threads, orr_expert_request_pass_one, &pass, err));
    s->request.own = mean_of(own, r->requests, &n);
    s->request.own_low = n > 0 ? own[n - (uint32_t)ceil(0.95 * n)] : NAN;
    s->request.other = mean_of(other, r->requests, &n);
out:
    orr_free(first);
    orr_free(token);
    orr_free(own);
    orr_free(other);
    return status;
}

/* --- all -------------------------------------------------------------------------------------- */

orr_status orr_expert_statistics_of_routes(const orr_routes *routes, uint32_t ranks, int threads,
                                           orr_arena *arena, orr_expert_statistics *ret,
                                           orr_error *err)
{
    orr_expert_statistics s = {.tokens = routes->tokens,
                               .layers = routes->layers,
                               .experts = routes->experts,
                               .top_k = routes->top_k};
    if (routes->tokens >= UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%s: statistics are of fewer than 2^32 tokens",
                        routes->source);
    for (uint64_t t = 0; t < routes->tokens; t++)
        s.prefill_tokens += routes->phase[t] == ORR_ROUTE_PREFILL;
    ORR_TRY(measure_layers(routes, threads, arena, &s, err));
    ORR_TRY(measure_requests(routes, threads, &s, err));
    ORR_TRY(make_imbalance(&s, ranks, arena, err));
    *ret = s;
    return ORR_OK;
}

/* Loads of a window do not tell how many experts a token has: shares are of choices. */
static void measure_window_layer(const orr_expert_windows *w, uint32_t l, double *load,
                                 orr_expert_layer_statistics *ret)
{
    double sum = 0, entropy = 0;
    uint32_t top = 0;
    for (uint32_t i = 0; i < w->windows; i++)
        for (uint32_t e = 0; e < w->experts; e++)
            load[e] += w->load[((size_t)i * w->layers + l) * w->experts + e];
    for (uint32_t e = 0; e < w->experts; e++)
        sum += load[e];
    for (uint32_t e = 0; e < w->experts; e++) {
        load[e] /= sum;
        entropy -= load[e] > 0 ? load[e] * log(load[e]) : 0;
        ret->unused += load[e] == 0;
        top = load[e] > load[top] ? e : top;
    }
    ret->top_expert = top;
    ret->top_frac = load[top];
    ret->concentrated = load[top] > ORR_EXPERT_CONCENTRATED_FRAC;
    ret->effective_experts = exp(entropy);
}

orr_status orr_expert_statistics_of_windows(const orr_expert_windows *windows, uint32_t ranks,
                                            orr_arena *arena, orr_expert_statistics *ret,
                                            orr_error *err)
{
    const double none = NAN;
    orr_expert_layer_statistics *rows =
        orr_arena_array(arena, orr_expert_layer_statistics, windows->layers);
    double *load = orr_arena_array(arena, double, (size_t)windows->layers * windows->experts);
    if (rows == NULL || load == NULL)
        return orr_fail_memory(err);
    orr_expert_statistics s = {.layers = windows->layers,
                               .experts = windows->experts,
                               .of_layer = rows,
                               .load = load,
                               .request = {.own = none, .own_low = none, .other = none}};
    for (uint32_t l = 0; l < windows->layers; l++) {
        rows[l] = orr_expert_layer_unknown(windows->number[l]);
        measure_window_layer(windows, l, load + (size_t)l * windows->experts, &rows[l]);
        s.concentrated += rows[l].concentrated;
    }
    ORR_TRY(make_imbalance(&s, ranks, arena, err));
    *ret = s;
    return ORR_OK;
}
