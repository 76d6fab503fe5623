/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/placement/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel_for.h"
#include "experts/placement/build.h"
#include "experts/placement/loads.h"
#include "experts/placement/traffic.h"

/* How a placement does: balance, rows and bytes over links, seconds. Layers are looked at on their
 * own and summed in their order. */

enum { HOST, NETWORK, LEVELS = ORR_EXPERT_LEVELS };

/* Rows that leave and enter a rank, within its host and beyond. */
typedef struct ports {
    uint64_t *out[LEVELS], *in[LEVELS]; /* shape (R) */
    uint64_t rows[LEVELS];              /* of all ranks */
} ports;

typedef struct evaluation {
    const orr_expert_placement *placement;
    const orr_expert_options *options;
    orr_traffic traffic; /* routes NULL: none are known */
    uint32_t live;       /* ranks that are not dead */
    uint64_t stride;     /* of so many blocks of tokens one is counted */
    uint32_t block_tokens;
    orr_layer_quality *layer; /* shape (L) */
} evaluation;

static orr_status ports_init(ports *p, uint32_t ranks, orr_arena *arena, orr_error *err)
{
    for (int level = 0; level < LEVELS; level++) {
        p->out[level] = orr_arena_array(arena, uint64_t, ranks);
        p->in[level] = orr_arena_array(arena, uint64_t, ranks);
        if (p->out[level] == NULL || p->in[level] == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* host: of each rank. */
static void ports_add(ports *p, uint32_t from, uint32_t to, const uint16_t *host)
{
    const int level = host[from] == host[to] ? HOST : NETWORK;
    p->out[level][from]++;
    p->in[level][to]++;
    p->rows[level]++;
}

/* Until the fullest port is through; those of the host and of the network work side by side. */
static double ports_ns(const ports *p, uint32_t ranks, const orr_expert_costs *costs,
                       double row_bytes)
{
    const double rate[LEVELS] = {costs->host_bytes_per_s, costs->network_bytes_per_s};
    double ret = 0;
    for (int level = 0; level < LEVELS; level++) {
        uint64_t most = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            most = p->out[level][r] > most ? p->out[level][r] : most;
            most = p->in[level][r] > most ? p->in[level][r] : most;
        }
        if (most > 0)
            ret = fmax(ret, (double)most * row_bytes / rate[level] * 1e9);
    }
    return ret;
}

/* --- a layer ---------------------------------------------------------------------------------- */

/* A layer's rows, counted. */
typedef struct layer_counts {
    ports sent, returned;
    double *rows;        /* shape (R) */
    uint64_t *last_sent; /* shape (R): 1 + the last token that came to a rank */
    uint16_t *host;      /* shape (R) */
    uint64_t tokens;
    orr_traffic_block *block;
    orr_copy_index index;
} layer_counts;

static orr_status counts_init(const evaluation *e, layer_counts *c, orr_arena *arena,
                              orr_error *err)
{
    const uint32_t ranks = e->placement->ranks;
    *c = (layer_counts){.rows = orr_arena_array(arena, double, ranks),
                        .last_sent = orr_arena_array(arena, uint64_t, ranks),
                        .host = orr_arena_array(arena, uint16_t, ranks),
                        .block = orr_arena_one(arena, orr_traffic_block)};
    if (c->rows == NULL || c->last_sent == NULL || c->host == NULL || c->block == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < ranks; r++)
        c->host[r] = (uint16_t)(r / e->placement->host_ranks);
    ORR_TRY(ports_init(&c->sent, ranks, arena, err));
    ORR_TRY(ports_init(&c->returned, ranks, arena, err));
    ORR_TRY(orr_copy_index_new(e->placement, arena, &c->index, err));
    return orr_copy_index_weigh(&c->index, e->placement, arena, err);
}

static void count_block(const evaluation *e, layer_counts *c, uint64_t first,
                        orr_layer_quality *ret)
{
    const uint32_t k = e->traffic.routes->top_k;
    for (uint32_t t = 0; t < c->block->n; t++) {
        const uint32_t from = c->block->from[t];
        for (uint32_t i = t * k; i < (t + 1) * k; i++) {
            const uint32_t to = c->block->to[i];
            if (to == UINT16_MAX)
                continue;
            const bool again = c->last_sent[to] == first + t + 1;
            c->last_sent[to] = first + t + 1;
            c->rows[to]++;
            ret->choices++;
            ret->distinct += !again;
            if (to == from)
                continue;
            ports_add(&c->returned, to, from, c->host);
            if (!again)
                ports_add(&c->sent, from, to, c->host);
        }
    }
}

/* Rows of all tokens, by those of the ones that were counted. */
static uint64_t scaled(uint64_t rows, double scale)
{
    return scale > 1 ? (uint64_t)llround((double)rows * scale) : rows;
}

/* The block of a stride that is counted, drawn by its number: one at a fixed place would see the
 * same part of every request where these are equally long. */
static uint64_t drawn_block(uint64_t number, uint64_t stride)
{
    const uint64_t mixed = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return number * stride + (mixed ^ mixed >> 32) % stride;
}

static void count_tokens(const evaluation *e, layer_counts *c, orr_layer_quality *ret)
{
    const uint64_t tokens = e->traffic.routes->tokens, strides = tokens / e->block_tokens;
    for (uint64_t i = 0; i * e->stride <= strides; i++) {
        const uint64_t first = drawn_block(i, e->stride) * e->block_tokens;
        const uint64_t left = first < tokens ? tokens - first : 0;
        const uint32_t n = (uint32_t)(left < e->block_tokens ? left : e->block_tokens);
        if (n == 0)
            continue;
        orr_traffic_resolve(&e->traffic, &c->index, first, n, c->block);
        count_block(e, c, first, ret);
        c->tokens += n;
    }
}

static orr_status count_layer(const evaluation *e, uint32_t layer, orr_arena *arena,
                              orr_layer_quality *ret, orr_error *err)
{
    const orr_expert_placement *p = e->placement;
    const orr_expert_costs *costs = e->options->costs;
    layer_counts c;
    ORR_TRY(counts_init(e, &c, arena, err));
    orr_copy_index_set(&c.index, p, layer);
    count_tokens(e, &c, ret);
    ret->served = orr_loads_imbalance(c.rows, p->ranks, e->live);
    if (costs != NULL && c.tokens > 0)
        ret->ns = (ports_ns(&c.sent, p->ranks, costs, costs->dispatch_bytes) +
                   ports_ns(&c.returned, p->ranks, costs, costs->combine_bytes) +
                   ret->served * (double)ret->choices / e->live * costs->row_ns) *
                  costs->tokens / (double)c.tokens;
    const double scale = (double)e->traffic.routes->tokens / (double)c.tokens;
    for (int level = 0; level < LEVELS; level++) {
        ret->sent[level] = scaled(c.sent.rows[level], scale);
        ret->returned[level] = scaled(c.returned.rows[level], scale);
    }
    ret->choices = scaled(ret->choices, scale);
    ret->distinct = scaled(ret->distinct, scale);
    return ORR_OK;
}

/* Slots that repeat an expert of their rank. seen: shape (E), zeroed. */
static uint32_t count_doubled(const orr_expert_placement *p, uint32_t layer, uint32_t *seen)
{
    uint32_t ret = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (uint32_t s = orr_placement_first(p, layer, r);
             s < orr_placement_first(p, layer, r + 1); s++) {
            ret += seen[p->expert[s]] == r + 1;
            seen[p->expert[s]] = r + 1;
        }
    return ret;
}

static orr_status evaluate_layer(void *ctx, size_t index, orr_error *err)
{
    evaluation *e = ctx;
    const orr_expert_placement *p = e->placement;
    const orr_expert_costs *costs = e->options->costs;
    orr_layer_quality *ret = &e->layer[index];
    orr_arena *arena = orr_arena_new(0, 0);
    double *load = arena != NULL ? orr_arena_array(arena, double, p->experts) : NULL;
    double *rank_load = load != NULL ? orr_arena_array(arena, double, p->ranks) : NULL;
    uint32_t *seen = rank_load != NULL ? orr_arena_array(arena, uint32_t, p->experts) : NULL;
    orr_status status = seen != NULL ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ret->doubled = count_doubled(p, (uint32_t)index, seen);
    orr_layer_load(e->options->windows, e->traffic.routes, (uint32_t)index, p->experts, load);
    orr_layer_rank_loads(p, (uint32_t)index, load, rank_load);
    ret->imbalance = orr_loads_imbalance(rank_load, p->ranks, e->live);
    if (e->traffic.routes != NULL)
        status = count_layer(e, (uint32_t)index, arena, ret, err);
    else if (costs != NULL)
        ret->ns = ret->imbalance * costs->tokens * fmax(costs->top_k, 1) / e->live * costs->row_ns;
out:
    orr_arena_free(arena);
    return status;
}

/* --- all layers ------------------------------------------------------------------------------- */

static orr_status check_costs(const orr_expert_costs *costs, orr_error *err)
{
    if (costs == NULL)
        return ORR_OK;
    const double positive[] = {costs->host_bytes_per_s, costs->network_bytes_per_s};
    const double counts[] = {costs->row_ns,       costs->dispatch_bytes, costs->combine_bytes,
                             costs->expert_bytes, costs->tokens,         costs->top_k};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (!(positive[i] > 0))
            return orr_fail(err, ORR_INVALID, "costs: links of %g bytes/s", positive[i]);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!(counts[i] >= 0) || !isfinite(counts[i]))
            return orr_fail(err, ORR_INVALID, "costs: %g is no time, number or size", counts[i]);
    return ORR_OK;
}

orr_status orr_evaluation_check(const orr_expert_placement *p, const orr_expert_options *options,
                                orr_error *err)
{
    if (options->routes == NULL && options->windows == NULL)
        return orr_fail(err, ORR_INVALID, "neither routes nor loads to evaluate a placement with");
    if (options->ranks != 0 && options->ranks != p->ranks)
        return orr_fail(err, ORR_INVALID, "a placement over %u ranks, and options of %u", p->ranks,
                        options->ranks);
    if (options->windows != NULL)
        ORR_TRY(orr_loads_check(options->windows, p, err));
    if (options->routes != NULL)
        ORR_TRY(orr_routes_check(options->routes, p, err));
    return check_costs(options->costs, err);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Layers of `skip` (NULL: none) are left out. */
static orr_status sum_layers(const evaluation *e, const bool *skip, orr_arena *arena,
                             orr_expert_quality *ret, orr_error *err)
{
    const double dispatch = e->options->costs != NULL ? e->options->costs->dispatch_bytes : 1;
    const double combine = e->options->costs != NULL ? e->options->costs->combine_bytes : 1;
    uint32_t n = 0, at = 0;
    for (uint32_t l = 0; l < e->placement->layers; l++)
        n += skip == NULL || !skip[l];
    if (n == 0)
        return orr_fail(err, ORR_INVALID, "no layers to sum over");
    double *sorted = orr_arena_array(arena, double, n);
    if (sorted == NULL)
        return orr_fail_memory(err);
    orr_expert_quality q = {.worst_layer = 0};
    orr_layer_quality all = {0};
    double worst = -1;
    for (uint32_t l = 0; l < e->placement->layers; l++) {
        const orr_layer_quality *layer = &e->layer[l];
        if (skip != NULL && skip[l])
            continue;
        sorted[at++] = layer->imbalance;
        q.imbalance_mean += layer->imbalance / n;
        q.served_mean += layer->served / n;
        q.served_worst = fmax(q.served_worst, layer->served);
        if (layer->imbalance > worst) {
            worst = layer->imbalance;
            q.worst_layer = l;
        }
        q.doubled_slots += layer->doubled;
        all.distinct += layer->distinct;
        all.choices += layer->choices;
        for (int level = 0; level < LEVELS; level++) {
            all.sent[level] += layer->sent[level];
            all.returned[level] += layer->returned[level];
        }
        q.step_ns += layer->ns;
    }
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    q.imbalance_worst = sorted[n - 1];
    q.imbalance_p95 = sorted[(uint32_t)ceil(0.95 * n) - 1];
    const double remote = (double)(all.sent[HOST] + all.sent[NETWORK]);
    for (int level = 0; level < LEVELS; level++) {
        q.dispatch_bytes[level] = (double)all.sent[level] * dispatch;
        q.combine_bytes[level] = (double)all.returned[level] * combine;
    }
    const orr_routes *routes = e->traffic.routes;
    q.remote_frac = routes == NULL ? NAN : all.distinct > 0 ? remote / (double)all.distinct : 0;
    q.dispatches = routes == NULL ? NAN : remote / (double)routes->tokens / n;
    q.network_frac = routes == NULL    ? NAN
                     : all.choices > 0 ? (double)all.returned[NETWORK] / (double)all.choices
                                       : 0;
    if (routes == NULL)
        q.served_mean = q.served_worst = NAN;
    *ret = q;
    return ORR_OK;
}

/* All tokens in large blocks; or one by one, as many as were asked for, evenly spread, so that each
 * request and with it each rank has its part of them: else the fullest port would be one of chance.
 */
static void choose_blocks(evaluation *e, double choices)
{
    const uint64_t most = e->options->most_choices;
    const bool all = most == 0 || choices <= (double)most;
    e->stride = all ? 1 : (uint64_t)ceil(choices / (double)most);
    e->block_tokens = all ? ORR_TRAFFIC_BLOCK / e->options->routes->top_k : 1;
}

orr_status orr_experts_evaluate_layers(const orr_expert_placement *placement,
                                       const orr_expert_options *options, const bool *skip,
                                       orr_arena *arena, orr_layer_quality *ret_layer,
                                       orr_expert_quality *ret, orr_error *err)
{
    static const double PARALLEL_CHOICES =
        4e6; /* below, threads take longer to start than to work */
    evaluation e = {.placement = placement,
                    .options = options,
                    .live = orr_placement_live_ranks(placement),
                    .traffic = {.placement = placement,
                                .routes = options->routes,
                                .by_share = options->by_share}};
    orr_expert_options dealt = *options;
    dealt.ranks = placement->ranks;
    ORR_TRY(orr_evaluation_check(placement, options, err));
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    orr_status status = ORR_OK;
    double choices = 0;
    e.layer = orr_arena_array(arena, orr_layer_quality, placement->layers);
    ORR_TRY_OUT(status, e.layer != NULL ? ORR_OK : orr_fail_memory(err));
    if (options->routes != NULL) {
        choices = (double)options->routes->tokens * options->routes->top_k * placement->layers;
        choose_blocks(&e, choices);
        ORR_TRY_OUT(status, orr_expert_requests_deal(options->routes, &dealt, arena,
                                                     &e.traffic.rank_of_request, err));
        ORR_TRY_OUT(status, orr_traffic_check(&e.traffic, err));
    }
    ORR_TRY_OUT(status, orr_parallel_for(placement->layers, choices < PARALLEL_CHOICES ? 1 : 0,
                                         evaluate_layer, &e, err));
    ORR_TRY_OUT(status, sum_layers(&e, skip, arena, ret, err));
    if (ret_layer != NULL)
        memcpy(ret_layer, e.layer, placement->layers * sizeof *ret_layer);
out:
    orr_arena_rewind(arena, mark);
    return status;
}

orr_status orr_experts_evaluate(const orr_expert_placement *placement,
                                const orr_expert_options *options, orr_arena *arena,
                                orr_expert_quality *ret, orr_error *err)
{
    return orr_experts_evaluate_layers(placement, options, NULL, arena, NULL, ret, err);
}
