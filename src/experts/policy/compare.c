/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/compare.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "experts/placement/build.h"
#include "experts/placement/traffic.h"

enum {
    PARTS = 5,
    GROUP_REQUESTS = 4, /* fewer requests of a group in a part say little */
    WHOLE = 1 << 21,    /* more choices are not walked for each placement, but */
    WALKED = 1 << 19,   /* about so many */
    LAYERS = 16         /* of so many layers */
};

typedef struct parts {
    const orr_routes *routes[PARTS];
    uint32_t n;
} parts;

/* --- parts of the requests -------------------------------------------------------------------- */

/* Deals the requests that have tokens to parts at random, equally many to each. part: shape
 * (requests); returns how many parts there are. */
static uint32_t deal_parts(const orr_routes *routes, uint32_t groups, uint64_t seed,
                           uint32_t *order, uint32_t *part)
{
    orr_random random = orr_random_of(seed, 0);
    uint32_t n = 0;
    for (uint64_t t = 0; t < routes->tokens; t++)
        if (part[routes->request[t]]++ == 0)
            order[n++] = routes->request[t];
    const uint32_t most = n / groups / GROUP_REQUESTS, count = most < PARTS ? most : PARTS;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t other = (uint32_t)orr_random_below(&random, i), held = order[i - 1];
        order[i - 1] = order[other];
        order[other] = held;
    }
    for (uint32_t i = 0; i < n && count > 0; i++)
        part[order[i]] = i % count;
    return count;
}

static orr_status make_parts(const orr_expert_options *o, orr_arena *arena, parts *ret,
                             orr_error *err)
{
    const uint32_t requests = o->routes->requests;
    uint32_t *order = orr_arena_array(arena, uint32_t, requests);
    uint32_t *part = orr_arena_array(arena, uint32_t, requests);
    bool *keep = orr_arena_array(arena, bool, requests);
    if (order == NULL || part == NULL || keep == NULL)
        return orr_fail_memory(err);
    ret->n = deal_parts(o->routes, orr_expert_request_groups(o), o->seed, order, part);
    if (ret->n < 2) {
        *ret = (parts){.routes = {o->routes}, .n = 1};
        return ORR_OK;
    }
    for (uint32_t k = 0; k < ret->n; k++) {
        for (uint32_t i = 0; i < requests; i++)
            keep[i] = part[i] == k; /* requests without tokens are in any */
        ORR_TRY(orr_routes_select(o->routes, keep, -1, arena, &ret->routes[k], err));
    }
    return ORR_OK;
}

/* Mean step over the parts. */
static orr_status step_of(const orr_expert_options *options, const orr_expert_placement *placement,
                          const parts *p, orr_arena *arena, double *ret_ns, orr_error *err)
{
    orr_expert_options o = *options;
    orr_expert_quality quality;
    *ret_ns = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        o.routes = p->routes[k];
        ORR_TRY(orr_experts_evaluate(placement, &o, arena, &quality, err));
        *ret_ns += quality.step_ns / p->n;
    }
    return ORR_OK;
}

/* --- a sample of long routes ------------------------------------------------------------------ */

/* The i-th of n layers, evenly spaced. */
static uint32_t spaced(uint32_t i, uint32_t n, uint32_t layers)
{
    return (uint32_t)((uint64_t)i * layers / n);
}

/* Routes of n layers: those of all tokens, in the arrays that they are in. */
static orr_status view_routes(const orr_routes *routes, uint32_t n, orr_arena *arena,
                              orr_routes *ret, orr_error *err)
{
    uint32_t *number = orr_arena_array(arena, uint32_t, n);
    const uint8_t **low = orr_arena_array(arena, const uint8_t *, n);
    const uint8_t **high = orr_arena_array(arena, const uint8_t *, n);
    if (number == NULL || low == NULL || high == NULL)
        return orr_fail_memory(err);
    *ret = *routes;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t l = spaced(i, n, routes->layers);
        number[i] = routes->number[l];
        low[i] = routes->low[l];
        if (routes->high != NULL)
            high[i] = routes->high[l];
    }
    ret->layers = n;
    ret->number = number;
    ret->low = low;
    ret->high = routes->high != NULL ? high : NULL;
    ret->score = NULL;
    return ORR_OK;
}

/* Their loads, which else would be counted for each placement. */
static orr_status view_loads(const orr_expert_windows *windows, const orr_routes *some,
                             uint32_t layers, orr_arena *arena, orr_expert_windows *ret,
                             orr_error *err)
{
    const size_t row = windows->experts, all = row * layers, n = some->layers;
    double *load = orr_arena_array(arena, double, windows->windows *n *row);
    if (load == NULL)
        return orr_fail_memory(err);
    for (uint32_t w = 0; w < windows->windows; w++)
        for (uint32_t i = 0; i < n; i++)
            memcpy(load + (w * n + i) * row,
                   windows->load + w * all + spaced(i, some->layers, layers) * row,
                   row * sizeof *load);
    *ret = *windows;
    ret->layers = some->layers;
    ret->number = some->number;
    ret->load = load;
    return ORR_OK;
}

/* Some layers and tokens of long routes, and the placements of these layers. */
static orr_status make_sample(const orr_expert_options *options,
                              const orr_expert_placement *placement, uint32_t n, orr_arena *arena,
                              orr_expert_options *ret, orr_expert_placement **ret_placement,
                              orr_error *err)
{
    const uint32_t layers = options->routes->layers < LAYERS ? options->routes->layers : LAYERS;
    orr_routes *routes = orr_arena_one(arena, orr_routes);
    orr_expert_windows *windows = orr_arena_one(arena, orr_expert_windows);
    orr_expert_placement *some = orr_arena_array(arena, orr_expert_placement, n);
    if (routes == NULL || windows == NULL || some == NULL)
        return orr_fail_memory(err);
    ORR_TRY(view_routes(options->routes, layers, arena, routes, err));
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(orr_expert_placement_layers(&placement[i], routes->number, layers, arena, &some[i],
                                            err));
    *ret = *options;
    ret->routes = routes;
    if (options->windows != NULL) {
        ORR_TRY(view_loads(options->windows, routes, options->routes->layers, arena, windows, err));
        ret->windows = windows;
    }
    if (ret->most_choices == 0 || ret->most_choices > WALKED)
        ret->most_choices = WALKED;
    *ret_placement = some;
    return ORR_OK;
}

/* --- the fastest ------------------------------------------------------------------------------ */

/* Whether a rank has an expert twice. seen: shape (E), scratch. */
static bool is_doubled(const orr_expert_placement *p, uint32_t *seen)
{
    for (uint32_t e = 0; e < p->experts; e++)
        seen[e] = UINT32_MAX;
    for (uint32_t i = 0; i < p->layers * p->ranks; i++) {
        const uint32_t l = i / p->ranks, r = i % p->ranks;
        for (uint32_t s = orr_placement_first(p, l, r); s < orr_placement_first(p, l, r + 1); s++) {
            if (seen[p->expert[s]] == i)
                return true;
            seen[p->expert[s]] = i;
        }
    }
    return false;
}

static orr_status find_fastest(const orr_expert_options *options,
                               const orr_expert_placement *placement, uint32_t n,
                               orr_arena *scratch, uint32_t *ret, double *ret_ratio, orr_error *err)
{
    const orr_routes *routes = options->routes;
    const bool is_long = (double)routes->tokens * routes->top_k * routes->layers > WHOLE;
    const orr_expert_placement *compared = placement;
    orr_expert_options o = *options;
    orr_expert_placement *some;
    double least = INFINITY, ns, first;
    uint32_t *seen = orr_arena_array(scratch, uint32_t, placement->experts);
    if (seen == NULL)
        return orr_fail_memory(err);
    if (is_long) {
        ORR_TRY(make_sample(options, placement, n, scratch, &o, &some, err));
        compared = some;
    }
    const parts all = {.routes = {o.routes}, .n = 1};
    parts p = all;
    if (!is_long)
        ORR_TRY(make_parts(&o, scratch, &p, err));
    *ret = 0;
    *ret_ratio = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && is_doubled(&placement[i], seen))
            continue;
        ORR_TRY(step_of(&o, &compared[i], &p, scratch, &ns, err));
        if (ns >= least)
            continue;
        least = ns;
        *ret = i;
    }
    if (*ret == 0)
        return ORR_OK;
    ORR_TRY(step_of(&o, &compared[0], &all, scratch, &first, err));
    ORR_TRY(step_of(&o, &compared[*ret], &all, scratch, &ns, err));
    *ret_ratio = first > 0 ? ns / first : 1;
    return ORR_OK;
}

orr_status orr_placement_fastest(const orr_expert_options *options,
                                 const orr_expert_placement *placement, uint32_t n,
                                 orr_arena *arena, uint32_t *ret, double *ret_ratio, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    const orr_status status = find_fastest(options, placement, n, arena, ret, ret_ratio, err);
    orr_arena_rewind(arena, mark);
    return status;
}
