/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/parallel_for.h"
#include "experts/moves/changes.h"
#include "experts/moves/layer_state.h"
#include "experts/placement/evaluate.h"
#include "experts/placement/loads.h"

/* A placement as good as a fresh one, near to the one that runs: each layer is changed until its
 * cost is within the tolerance of the fresh layer's, or nothing pays any more. */

enum { NONE = UINT32_MAX };

/* Costs of a layer, ns of a step, or rows where no costs are known, and what there is to move. */
typedef struct layer_result {
    double reached, fresh;
    uint32_t moved, fresh_moved;
    bool can_be_fresh; /* as many slots of each rank as now */
} layer_result;

typedef struct approach {
    const orr_expert_placement *running, *fresh;
    const orr_expert_options *options;
    double tolerance;
    uint32_t groups;      /* of ranks; 1: requests come from all of them alike */
    uint32_t *live;       /* shape (groups): ranks of a group */
    double least_gain_ns; /* of a copy, for a move to pay */
    uint16_t *expert;     /* shape (slots): what running's slots become */
    double *load;         /* shape (L, E) */
    layer_result *layer;  /* shape (L) */
} approach;

/* --- a layer ---------------------------------------------------------------------------------- */

/* Rows of a step by rank: tokens of a group come from each of its ranks alike. */
static void count_links(const approach *a, uint32_t layer, double scale, const orr_layer_state *s,
                        orr_layer_links *links)
{
    enum { BLOCK = 4096 };
    const orr_routes *routes = a->options->routes;
    const uint32_t k = routes->top_k, ranks = s->layer.ranks, size = ranks / a->groups;
    const uint32_t block_tokens = BLOCK / k;
    uint16_t choice[BLOCK];
    for (uint64_t first = 0; first < routes->tokens; first += block_tokens) {
        const uint64_t left = routes->tokens - first, n = left < block_tokens ? left : block_tokens;
        orr_routes_choices(routes, layer, first, n, choice);
        for (uint64_t i = 0; i < n * k; i++) {
            const uint32_t group =
                a->groups > 1 ? a->options->group_of_request[routes->request[first + i / k]] : 0;
            links->from_rank[(size_t)choice[i] * ranks + (size_t)group * size] += 1;
        }
    }
    for (uint32_t e = 0; e < s->layer.experts; e++)
        for (uint32_t r = ranks; r-- > 0;) {
            double *row = links->from_rank + (size_t)e * ranks;
            row[r] = row[r / size * size] * scale / size;
            links->from_host[(size_t)e * s->hosts + r / s->layer.host_ranks] += row[r];
        }
}

static orr_status make_links(const approach *a, uint32_t layer, double scale, orr_layer_state *s,
                             orr_arena *arena, orr_error *err)
{
    const orr_expert_costs *costs = a->options->costs;
    if (costs == NULL || a->options->routes == NULL)
        return ORR_OK;
    orr_layer_links *links = orr_arena_one(arena, orr_layer_links);
    if (links == NULL)
        return orr_fail_memory(err);
    const double bytes_ns = (costs->dispatch_bytes + costs->combine_bytes) * 1e9 / s->layer.ranks;
    links->host_ns = bytes_ns / costs->host_bytes_per_s;
    links->network_ns = fmax(bytes_ns / costs->network_bytes_per_s, links->host_ns);
    links->from_rank = orr_arena_array(arena, double, (size_t)s->layer.experts * s->layer.ranks);
    links->from_host = orr_arena_array(arena, double, (size_t)s->layer.experts * s->hosts);
    if (links->from_rank == NULL || links->from_host == NULL)
        return orr_fail_memory(err);
    count_links(a, layer, scale, s, links);
    s->links = links;
    return ORR_OK;
}

/* The layer of a placement, its arrays in the arena. */
static orr_status make_state(const approach *a, const orr_expert_placement *p, uint32_t layer,
                             orr_arena *arena, orr_layer_state *s, orr_error *err)
{
    const uint32_t first = orr_placement_first(p, layer, 0), ranks = p->ranks;
    *s = (orr_layer_state){.slots = orr_placement_first(p, layer, ranks) - first,
                           .hosts = (ranks - 1) / a->running->host_ranks + 1,
                           .load = a->load + (size_t)layer * p->experts};
    uint32_t *number = orr_arena_array(arena, uint32_t, 1);
    uint32_t *first_slot = orr_arena_array(arena, uint32_t, (size_t)ranks + 1);
    uint16_t *rank = orr_arena_array(arena, uint16_t, s->slots);
    uint16_t *began = orr_arena_array(arena, uint16_t, s->slots);
    s->expert = orr_arena_array(arena, uint16_t, s->slots);
    s->share = orr_arena_array(arena, float, s->slots);
    s->copies = orr_arena_array(arena, uint16_t, p->experts);
    s->host_copies = orr_arena_array(arena, uint16_t, (size_t)p->experts * s->hosts);
    s->rank_load = orr_arena_array(arena, double, ranks);
    s->tight = orr_arena_array(arena, bool, ranks);
    s->falls = orr_arena_array(arena, double, s->slots);
    if (number == NULL || first_slot == NULL || rank == NULL || began == NULL ||
        s->expert == NULL || s->share == NULL || s->copies == NULL || s->host_copies == NULL ||
        s->rank_load == NULL || s->tight == NULL || s->falls == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r <= ranks; r++)
        first_slot[r] = orr_placement_first(p, layer, r) - first;
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t i = first_slot[r]; i < first_slot[r + 1]; i++)
            rank[i] = (uint16_t)r;
    memcpy(s->expert, p->expert + first, s->slots * sizeof *s->expert);
    memcpy(began, s->expert, s->slots * sizeof *began);
    *number = p->number[layer];
    s->rank = rank;
    s->began = began;
    s->layer = (orr_expert_placement){.layers = 1,
                                      .experts = p->experts,
                                      .ranks = ranks,
                                      .host_ranks = a->running->host_ranks,
                                      .number = number,
                                      .first_slot = first_slot,
                                      .expert = s->expert,
                                      .share = s->share};
    s->room = orr_arena_alloc(arena, orr_experts_split_room(&s->layer), 1, 8);
    return s->room != NULL ? ORR_OK : orr_fail_memory(err);
}

static bool has_same_slots(const orr_layer_state *a, const orr_layer_state *b)
{
    return memcmp(a->layer.first_slot, b->layer.first_slot,
                  ((size_t)a->layer.ranks + 1) * sizeof(uint32_t)) == 0;
}

/* Copies of the fresh layer that do not run. */
static uint32_t moves_to(const orr_layer_state *running, const orr_layer_state *fresh)
{
    orr_layer_state to = *fresh;
    to.began = running->began;
    return orr_layer_moved(&to);
}

static orr_status approach_layer(const approach *a, uint32_t layer, orr_arena *arena,
                                 orr_error *err)
{
    const orr_expert_costs *costs = a->options->costs;
    const uint32_t experts = a->running->experts;
    orr_layer_state now, fresh;
    double sum = 0, scale = 1;
    double *load = a->load + (size_t)layer * experts;
    orr_layer_load(a->options->windows, a->options->routes, layer, experts, load);
    for (uint32_t e = 0; e < experts; e++)
        sum += load[e];
    if (costs != NULL && sum > 0) {
        const double top_k =
            a->options->routes != NULL ? a->options->routes->top_k : fmax(costs->top_k, 1);
        scale = costs->tokens * top_k / sum;
        for (uint32_t e = 0; e < experts; e++)
            load[e] *= scale;
    }
    ORR_TRY(make_state(a, a->running, layer, arena, &now, err));
    ORR_TRY(make_state(a, a->fresh, layer, arena, &fresh, err));
    now.row_ns = fresh.row_ns = costs != NULL ? costs->row_ns : 1;
    if (costs != NULL && a->options->routes != NULL)
        scale = costs->tokens / (double)a->options->routes->tokens;
    ORR_TRY(make_links(a, layer, scale, &now, arena, err));
    fresh.links = now.links;
    const double wanted = orr_layer_measure(&fresh), before = orr_layer_measure(&now),
                 above = 1 + a->tolerance;
    double reached = orr_layer_search(&now, wanted * above, fresh.fullest * above, a->least_gain_ns,
                                      a->options->expert_groups > 1);
    /* Changes may have been worth it only as steps to others that were not. */
    if (before - reached < a->least_gain_ns * orr_layer_moved(&now)) {
        memcpy(now.expert, now.began, now.slots * sizeof *now.expert);
        reached = before;
    }
    memcpy(a->expert + orr_placement_first(a->running, layer, 0), now.expert,
           now.slots * sizeof *now.expert);
    a->layer[layer] = (layer_result){.reached = reached,
                                     .fresh = wanted,
                                     .moved = orr_layer_moved(&now),
                                     .fresh_moved = moves_to(&now, &fresh),
                                     .can_be_fresh = has_same_slots(&now, &fresh)};
    return ORR_OK;
}

static orr_status approach_index(void *ctx, size_t index, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_status status =
        arena != NULL ? approach_layer(ctx, (uint32_t)index, arena, err) : orr_fail_memory(err);
    orr_arena_free(arena);
    return status;
}

/* --- all layers ------------------------------------------------------------------------------- */

static orr_status check_groups(approach *a, orr_error *err)
{
    const orr_expert_options *o = a->options;
    const uint32_t ranks = a->running->ranks;
    if (o->routes == NULL || o->group_of_request == NULL)
        return ORR_OK;
    a->groups = o->request_groups > 0 ? o->request_groups : ranks;
    if (ranks % a->groups != 0)
        return orr_fail(err, ORR_INVALID, "%u groups of requests do not divide %u ranks", a->groups,
                        ranks);
    for (uint32_t i = 0; i < o->routes->requests; i++)
        if (o->group_of_request[i] >= a->groups)
            return orr_fail(err, ORR_INVALID, "request %u is of group %u, and there are %u", i,
                            o->group_of_request[i], a->groups);
    return ORR_OK;
}

/* Whether ranks have as many slots in all as before, none of them dead: then layers can be changed
 * in their slots. */
static bool keeps_memory(const approach *a)
{
    for (uint32_t r = 0; r < a->running->ranks; r++) {
        int64_t more = 0;
        if (a->options->dead != NULL && a->options->dead[r])
            return false;
        for (uint32_t l = 0; l < a->running->layers; l++)
            more += (int64_t)(orr_placement_first(a->fresh, l, r + 1) -
                              orr_placement_first(a->fresh, l, r)) -
                    (int64_t)(orr_placement_first(a->running, l, r + 1) -
                              orr_placement_first(a->running, l, r));
        if (more != 0)
            return false;
    }
    return true;
}

static orr_status search_layers(approach *a, orr_arena *scratch, orr_error *err)
{
    const size_t layers = a->running->layers;
    a->expert = orr_arena_array(scratch, uint16_t, orr_expert_placement_slots(a->running));
    a->load = orr_arena_array(scratch, double, layers * a->running->experts);
    a->layer = orr_arena_array(scratch, layer_result, layers);
    if (a->expert == NULL || a->load == NULL || a->layer == NULL)
        return orr_fail_memory(err);
    return orr_parallel_for(layers, 0, approach_index, a, err);
}

/* The layer that gains most for each copy moved if it is taken from the fresh placement; NONE:
 * none pays. */
static uint32_t best_fresh_layer(const approach *a)
{
    double best = a->least_gain_ns;
    uint32_t ret = NONE;
    for (uint32_t l = 0; l < a->running->layers; l++) {
        const layer_result *layer = &a->layer[l];
        const double more = (double)layer->fresh_moved - layer->moved,
                     gain = (layer->reached - layer->fresh) / fmax(more, 1);
        if (layer->can_be_fresh && gain > best) {
            best = gain;
            ret = l;
        }
    }
    return ret;
}

/* Where changes one by one have not come near enough in all layers together, some are taken as the
 * fresh placement has them. False: that is not enough either, and what is left would pay. */
static bool take_fresh_layers(approach *a)
{
    double reached = 0, wanted = 0;
    for (uint32_t l = 0; l < a->running->layers; l++) {
        reached += a->layer[l].reached;
        wanted += a->layer[l].fresh * (1 + a->tolerance);
    }
    while (reached > wanted) {
        const uint32_t l = best_fresh_layer(a);
        if (l == NONE)
            return reached - wanted <= a->least_gain_ns * orr_expert_placement_slots(a->fresh);
        const uint32_t to = orr_placement_first(a->running, l, 0),
                       from = orr_placement_first(a->fresh, l, 0),
                       n = orr_placement_first(a->fresh, l, a->fresh->ranks) - from;
        memcpy(a->expert + to, a->fresh->expert + from, n * sizeof *a->expert);
        reached -= a->layer[l].reached - a->layer[l].fresh;
        a->layer[l].reached = a->layer[l].fresh;
    }
    return true;
}

static orr_status make_placement(const approach *a, orr_arena *arena, orr_expert_placement *ret,
                                 orr_error *err)
{
    const orr_expert_placement *p = a->running;
    orr_placement_draft draft;
    orr_expert_placement like = *p;
    uint32_t *slots = orr_arena_array(arena, uint32_t, (size_t)p->layers * p->ranks);
    if (slots == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < p->layers; l++)
        for (uint32_t r = 0; r < p->ranks; r++)
            slots[(size_t)l * p->ranks + r] =
                orr_placement_first(p, l, r + 1) - orr_placement_first(p, l, r);
    like.policy = a->fresh->policy;
    like.source = a->fresh->source;
    like.nearest = a->fresh->nearest;
    ORR_TRY(orr_placement_draft_new(&like, slots, true, arena, &draft, err));
    memcpy(draft.expert, a->expert, orr_expert_placement_slots(p) * sizeof *draft.expert);
    ORR_TRY(orr_placement_split_shares(&draft, a->load, err));
    *ret = draft.placement;
    return ORR_OK;
}

static orr_status compare(const approach *a, orr_arena *arena, orr_expert_approach *ret,
                          orr_error *err)
{
    orr_expert_moves moves, all;
    const orr_expert_moves_options options = {.struct_bytes = sizeof options,
                                              .costs = a->options->costs};
    ORR_TRY(orr_expert_moves_plan(a->running, &ret->placement, &options, arena, &moves, err));
    ORR_TRY(orr_expert_moves_plan(a->running, a->fresh, &options, arena, &all, err));
    ret->bytes = moves.bytes;
    ret->fresh_bytes = all.bytes;
    ORR_TRY(orr_experts_evaluate(a->running, a->options, arena, &ret->running, err));
    ORR_TRY(orr_experts_evaluate(&ret->placement, a->options, arena, &ret->reached, err));
    return orr_experts_evaluate(a->fresh, a->options, arena, &ret->fresh, err);
}

orr_status orr_experts_approach(const orr_expert_placement *running,
                                const orr_expert_placement *fresh,
                                const orr_expert_options *options, double tolerance,
                                orr_arena *arena, orr_expert_approach *ret, orr_error *err)
{
    const orr_expert_costs *costs = options->costs;
    approach a = {.running = running,
                  .fresh = fresh,
                  .options = options,
                  .tolerance = tolerance,
                  .groups = 1};
    orr_expert_approach result = {.placement = *fresh};
    ORR_TRY(orr_changes_check(running, fresh, err));
    ORR_TRY(orr_evaluation_check(fresh, options, err));
    ORR_TRY(check_groups(&a, err));
    if (costs != NULL && options->horizon_steps > 0)
        a.least_gain_ns =
            costs->expert_bytes / costs->network_bytes_per_s * 1e9 / options->horizon_steps;
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = scratch != NULL ? ORR_OK : orr_fail_memory(err);
    const bool in_slots = status == ORR_OK && keeps_memory(&a);
    if (in_slots)
        status = search_layers(&a, scratch, err);
    if (status == ORR_OK && in_slots && take_fresh_layers(&a))
        status = make_placement(&a, arena, &result.placement, err);
    if (status == ORR_OK)
        status = compare(&a, arena, &result, err);
    orr_arena_free(scratch);
    if (status == ORR_OK)
        *ret = result;
    return status;
}
