/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_HELD_OUT_H
#define TEST_HELD_OUT_H

#include <stdlib.h>
#include <string.h>

#include <orrery/experts.h>

#include "base/philox.h"

/* Placements made from some requests and measured on others, whose groups are told from their
 * prefill. Include cmocka before. */
typedef struct held_out {
    orr_arena *arena;
    const orr_routes *history, *told; /* requests to place by, and those held out */
    uint32_t groups;
    uint32_t *group_of; /* shape (requests): of both */
} held_out;

/* A fifth of the requests, drawn. */
static inline void draw_history(const orr_routes *routes, uint64_t seed, bool *keep)
{
    orr_random random = orr_random_of(seed, 0);
    const uint32_t n = routes->requests, held = (n + 2) / 5;
    for (uint32_t i = 0; i < n; i++)
        keep[i] = i >= held;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t other = (uint32_t)orr_random_below(&random, i);
        const bool moved = keep[i - 1];
        keep[i - 1] = keep[other];
        keep[other] = moved;
    }
}

/* The nearest groups of requests, by what their prefill chose. */
static inline void tell_groups(const held_out *h, const orr_expert_groups *groups)
{
    const orr_routes *r = h->told;
    const size_t cells = (size_t)r->layers * r->experts;
    uint32_t *counts = orr_arena_array(h->arena, uint32_t, cells * r->requests);
    bool *has = orr_arena_array(h->arena, bool, r->requests);
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    assert_true(counts != NULL && has != NULL);
    for (uint64_t t = 0; t < r->tokens; t++) {
        has[r->request[t]] = true;
        for (uint32_t l = 0; l < r->layers && r->phase[t] == ORR_ROUTE_PREFILL; l++) {
            orr_routes_choices(r, l, t, 1, choice);
            for (uint32_t k = 0; k < r->top_k; k++)
                counts[r->request[t] * cells + (size_t)l * r->experts + choice[k]]++;
        }
    }
    for (uint32_t i = 0; i < r->requests; i++)
        if (has[i])
            h->group_of[i] = orr_experts_group(groups, counts + i * cells, NULL);
}

/* Groups fitted on the requests that `keep` has, told for the others. The arena is the caller's. */
static inline held_out hold_out(const orr_routes *routes, const bool *keep, uint32_t groups,
                                uint64_t seed, orr_arena *arena)
{
    held_out ret = {.arena = arena, .groups = groups};
    orr_error err = {0};
    orr_expert_groups_options options;
    orr_expert_groups *fitted;
    bool *rest = orr_arena_array(arena, bool, routes->requests);
    ret.group_of = orr_arena_array(arena, uint32_t, routes->requests);
    assert_true(rest != NULL && ret.group_of != NULL);
    for (uint32_t i = 0; i < routes->requests; i++)
        rest[i] = !keep[i];
    orr_expert_groups_options_init(&options);
    options.groups = groups;
    options.seed = seed;
    if (orr_routes_select(routes, keep, -1, arena, &ret.history, &err) != ORR_OK ||
        orr_routes_select(routes, rest, -1, arena, &ret.told, &err) != ORR_OK ||
        orr_expert_groups_fit(ret.history, &options, arena, &fitted, ret.group_of, &err) != ORR_OK)
        fail_msg("%s", err.text);
    tell_groups(&ret, fitted);
    return ret;
}

/* A rank a group, `spare` slots each in every layer; costs NULL: few rows to other ranks. */
static inline orr_expert_placement place_history(const held_out *h, orr_expert_policy policy,
                                                 uint32_t spare, const orr_expert_costs *costs)
{
    orr_expert_options o;
    orr_expert_result result;
    orr_error err = {0};
    orr_expert_options_init(&o);
    o.policy = (uint8_t)policy;
    o.routes = h->history;
    o.ranks = o.request_groups = h->groups;
    o.slots = h->history->experts + spare * h->groups;
    o.even_layers = true;
    o.group_of_request = h->group_of;
    o.costs = costs;
    if (orr_experts_place(&o, h->arena, &result, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return result.placement;
}

/* How a placement does with the requests held out. */
static inline orr_expert_quality told_quality(const held_out *h,
                                              const orr_expert_placement *placement,
                                              const orr_expert_costs *costs)
{
    orr_expert_options o;
    orr_expert_quality ret;
    orr_error err = {0};
    orr_expert_options_init(&o);
    o.routes = h->told;
    o.ranks = o.request_groups = h->groups;
    o.group_of_request = h->group_of;
    o.costs = costs;
    if (orr_experts_evaluate(placement, &o, h->arena, &ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return ret;
}

#endif /* TEST_HELD_OUT_H */
