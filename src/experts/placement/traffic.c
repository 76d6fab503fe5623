/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/placement/traffic.h"

#include <string.h>

#include "base/alloc.h"

orr_status orr_routes_check(const orr_routes *routes, const orr_expert_placement *p, orr_error *err)
{
    if (routes->layers != p->layers)
        return orr_fail(err, ORR_INVALID, "routes of %u layers, and a placement of %u",
                        routes->layers, p->layers);
    for (uint32_t l = 0; l < p->layers; l++)
        if (routes->number[l] != p->number[l])
            return orr_fail(err, ORR_INVALID, "routes of layer %u where the placement has layer %u",
                            routes->number[l], p->number[l]);
    if (routes->experts > p->experts)
        return orr_fail(err, ORR_INVALID, "routes of %u experts, and a placement of %u",
                        routes->experts, p->experts);
    return ORR_OK;
}

orr_status orr_traffic_check(const orr_traffic *traffic, orr_error *err)
{
    const orr_expert_placement *p = traffic->placement;
    const orr_routes *routes = traffic->routes;
    ORR_TRY(orr_routes_check(routes, p, err));
    const uint32_t *rank = traffic->rank_of_request;
    if (rank == NULL && routes->rank == NULL)
        return orr_fail(err, ORR_INVALID, "the ranks that tokens are on are not known");
    for (uint32_t i = 0; rank != NULL && i < routes->requests; i++)
        if (rank[i] >= p->ranks)
            return orr_fail(err, ORR_INVALID, "request %u is on rank %u of %u", i, rank[i],
                            p->ranks);
    for (uint64_t t = 0; rank == NULL && t < routes->tokens; t++)
        if (routes->rank[t] >= p->ranks)
            return orr_fail(err, ORR_INVALID, "token %llu is on rank %u of %u",
                            (unsigned long long)t, routes->rank[t], p->ranks);
    return ORR_OK;
}

void orr_traffic_resolve(const orr_traffic *traffic, const orr_copy_index *index, uint64_t first,
                         uint32_t n, orr_traffic_block *ret)
{
    const orr_routes *routes = traffic->routes;
    const uint32_t k = routes->top_k;
    ret->n = n;
    orr_routes_choices(routes, index->layer, first, n, ret->choice);
    for (uint32_t t = 0; t < n; t++)
        ret->from[t] = traffic->rank_of_request != NULL
                           ? (uint16_t)traffic->rank_of_request[routes->request[first + t]]
                           : routes->rank[first + t];
    for (uint32_t i = 0; i < n * k; i++) {
        const uint32_t e = ret->choice[i], begin = index->begin[e];
        if (index->begin[e + 1] - begin == 1) {
            ret->to[i] = index->rank[begin];
            continue;
        }
        const orr_expert_token token = {.request = routes->request[first + i / k],
                                        .position = routes->position[first + i / k],
                                        .rank = ret->from[i / k]};
        const uint32_t at =
            orr_copy_index_choose(index, traffic->placement, &token, e, traffic->by_share);
        ret->to[i] = at == UINT32_MAX ? UINT16_MAX : index->rank[at];
    }
}

/* --- rows between ranks ----------------------------------------------------------------------- */

/* Adds a block's rows. last_sent: shape (R): 1 + the last token that was sent to a rank. */
static void add_block(const orr_traffic *traffic, const orr_traffic_block *block, uint64_t first,
                      uint64_t *last_sent, const orr_expert_traffic *ret)
{
    const uint32_t k = traffic->routes->top_k;
    const size_t ranks = traffic->placement->ranks;
    for (uint32_t t = 0; t < block->n; t++) {
        const size_t from = block->from[t];
        for (uint32_t c = 0; c < k; c++) {
            const size_t to = block->to[t * k + c];
            if (to == UINT16_MAX)
                continue;
            if (ret->rows != NULL)
                ret->rows[to]++;
            if (to == from)
                continue;
            if (ret->returned != NULL)
                ret->returned[to * ranks + from]++;
            if (ret->sent != NULL && last_sent[to] != first + t + 1)
                ret->sent[from * ranks + to]++;
            last_sent[to] = first + t + 1;
        }
    }
}

static orr_status count_layer(const orr_traffic *traffic, uint32_t layer, orr_arena *arena,
                              const orr_expert_traffic *ret, orr_error *err)
{
    const orr_routes *routes = traffic->routes;
    const uint64_t block_tokens = ORR_TRAFFIC_BLOCK / routes->top_k;
    const size_t ranks = traffic->placement->ranks;
    uint64_t *last_sent = orr_arena_array(arena, uint64_t, ranks);
    orr_traffic_block *block = orr_arena_one(arena, orr_traffic_block);
    orr_copy_index index;
    ORR_TRY(orr_copy_index_new(traffic->placement, arena, &index, err));
    ORR_TRY(orr_copy_index_weigh(&index, traffic->placement, arena, err));
    if (last_sent == NULL || block == NULL)
        return orr_fail_memory(err);
    orr_copy_index_set(&index, traffic->placement, layer);
    if (ret->sent != NULL)
        memset(ret->sent, 0, ranks * ranks * sizeof *ret->sent);
    if (ret->returned != NULL)
        memset(ret->returned, 0, ranks * ranks * sizeof *ret->returned);
    if (ret->rows != NULL)
        memset(ret->rows, 0, ranks * sizeof *ret->rows);
    for (uint64_t first = 0; first < routes->tokens; first += block_tokens) {
        const uint64_t left = routes->tokens - first;
        orr_traffic_resolve(traffic, &index, first,
                            (uint32_t)(left < block_tokens ? left : block_tokens), block);
        add_block(traffic, block, first, last_sent, ret);
    }
    return ORR_OK;
}

orr_status orr_experts_count_traffic(const orr_expert_placement *placement,
                                     const orr_routes *routes, uint32_t layer,
                                     const uint32_t *rank_of_request, bool by_share,
                                     orr_expert_traffic *ret, orr_error *err)
{
    const orr_traffic traffic = {.placement = placement,
                                 .routes = routes,
                                 .rank_of_request = rank_of_request,
                                 .by_share = by_share};
    ORR_TRY(orr_traffic_check(&traffic, err));
    if (layer >= placement->layers)
        return orr_fail(err, ORR_INVALID, "layer %u of %u", layer, placement->layers);
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    const orr_status status = count_layer(&traffic, layer, arena, ret, err);
    orr_arena_free(arena);
    return status;
}
