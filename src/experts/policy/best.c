/* SPDX-License-Identifier: Apache-2.0 */
/* The default policy: least seconds of links and of the fullest rank. Where nobody says what rows
 * and links cost, nor which requests run together, loads alone decide. */
#include <math.h>
#include <string.h>

#include "experts/policy/bound.h"
#include "experts/policy/compare.h"
#include "experts/policy/copies.h"
#include "experts/policy/single.h"

/* What rows weigh where no costs are given, but groups of requests: decode of DeepSeek-V3 on hosts
 * of 8 H100. A row is 7,168 wide, FP8 on its way to experts and BF16 back, over NVLink at 450 GB/s
 * or 400 Gbit/s a GPU. While products wait for weights a row costs the bytes of its activations,
 * 56 KiB at 3.35 TB/s. Assumed; only the proportions matter. */
static const orr_expert_costs DEFAULT_COSTS = {.host_bytes_per_s = 450e9,
                                               .network_bytes_per_s = 50e9,
                                               .row_ns = 17,
                                               .dispatch_bytes = 7168,
                                               .combine_bytes = 14336,
                                               .source = "assumed: decode on hosts of 8 H100"};

typedef struct search {
    const orr_policy_problem *problem;
    orr_flows flows;
    orr_layer_costs costs;
    orr_layer *layer; /* shape (L) */
    orr_merge merge;  /* where K is over 1 */
    orr_single single;
    uint32_t *base; /* shape (R): experts of a rank before copies */
} search;

static orr_layer_costs layer_costs(const orr_expert_options *o)
{
    const orr_expert_costs *c = o->costs != NULL ? o->costs : &DEFAULT_COSTS;
    const double rate[ORR_LEVELS] = {c->host_bytes_per_s, c->network_bytes_per_s};
    orr_layer_costs ret = {.row_ns = c->row_ns};
    for (int level = 0; level < ORR_LEVELS; level++) {
        ret.dispatch_ns[level] = c->dispatch_bytes / rate[level] * 1e9;
        ret.combine_ns[level] = c->combine_bytes / rate[level] * 1e9;
    }
    ret.scale = (double)o->routes->tokens / (c->tokens > 0 ? c->tokens : 1);
    return ret;
}

static const bool *missing_of(const orr_policy_problem *p, uint32_t layer)
{
    return p->missing != NULL ? p->missing + (size_t)layer * p->experts : NULL;
}

/* --- phases ----------------------------------------------------------------------------------- */

/* With groups of experts that stay on a host: the hosts of another placement. NULL: none. */
static const uint16_t *hosts_of(const search *s, const orr_expert_placement *like, uint32_t layer,
                                orr_arena *arena)
{
    const orr_policy_problem *p = s->problem;
    uint16_t *host = orr_arena_array(arena, uint16_t, p->experts);
    for (uint32_t r = 0; host != NULL && r < p->ranks; r++)
        for (uint32_t i = orr_placement_first(like, layer, r);
             i < orr_placement_first(like, layer, r + 1); i++)
            host[like->expert[i]] = (uint16_t)(r / p->host_ranks);
    return host;
}

static orr_status place_singles(search *s, const orr_expert_placement *balanced, orr_arena *arena,
                                bool *ret_fits, orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    *ret_fits = true;
    for (uint32_t l = 0; l < p->layers && *ret_fits; l++) {
        const uint16_t *host = NULL;
        if (p->grouped && (host = hosts_of(s, balanced, l, arena)) == NULL)
            return orr_fail_memory(err);
        ORR_TRY(orr_layer_new(&s->flows, p, l, &s->costs, host, arena, &s->layer[l], err));
        if (s->flows.sampled > 0)
            orr_merge_load(&s->merge, &s->flows, l);
        *ret_fits =
            orr_single_place(&s->single, &s->layer[l], s->base, missing_of(p, l), p->options->stop);
    }
    return ORR_OK;
}

/* Changes of a layer that are tried. */
static uint64_t most_trials(const orr_policy_problem *p)
{
    static const double TRIALS = 1 << 22;
    return (uint64_t)(TRIALS / p->layers / p->ranks);
}

static void improve_layers(search *s)
{
    const orr_policy_problem *p = s->problem;
    for (uint32_t l = 0; l < p->layers; l++) {
        if (s->flows.sampled > 0) {
            orr_merge_load(&s->merge, &s->flows, l);
            orr_merge_place(&s->merge, &s->layer[l]);
        }
        if (p->slots > p->kept)
            orr_copies_improve(&s->layer[l], most_trials(p), p->options->stop);
    }
}

/* Relieves the fullest port and rank of each layer, for costs that are given: with what is only
 * assumed, the last percent of a fullest rank is not worth rows over links that future requests
 * would send too. Returns the step. */
static double relieve_layers(search *s)
{
    const orr_policy_problem *p = s->problem;
    double ret = 0;
    for (uint32_t l = 0; l < p->layers; l++) {
        orr_copies_relieve(&s->layer[l], most_trials(p), p->options->stop);
        ret += orr_layer_step(&s->layer[l]);
    }
    return ret;
}

/* A bound of the step, and how far the placement is above it. */
static orr_status tell_gap(const search *s, double step_ns, orr_arena *scratch,
                           orr_expert_result *ret, orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    const bool copies = p->slots > p->kept, shared = copies && !p->options->even_layers;
    double *price = orr_arena_array(scratch, double, p->ranks);
    double *taken = orr_arena_array(scratch, double, p->ranks);
    if (price == NULL || taken == NULL)
        return orr_fail_memory(err);
    double bound = 0;
    for (uint32_t l = 0; l < p->layers; l += shared ? p->layers : 1)
        bound += orr_layers_bound(&s->layer[l], shared ? p->layers : 1, s->flows.top_k,
                                  p->rank_slots, copies, price, taken);
    ret->bound_ns = bound;
    ret->gap_frac = bound > 0 ? step_ns / bound - 1 : 0;
    return ORR_OK;
}

/* --- the placement ---------------------------------------------------------------------------- */

static orr_status draft_of_layers(const search *s, orr_arena *arena, orr_placement_draft *ret,
                                  orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    uint32_t *slots = orr_arena_array(arena, uint32_t, (size_t)p->layers * p->ranks);
    if (slots == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < p->layers; l++)
        memcpy(slots + (size_t)l * p->ranks, s->layer[l].used, p->ranks * sizeof *slots);
    return orr_policy_draft(p, slots, arena, ret, err);
}

static orr_status write_layers(const search *s, orr_arena *arena, orr_expert_placement *ret,
                               orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    const size_t cells = (size_t)p->experts * p->ranks;
    orr_placement_draft draft;
    ORR_TRY(draft_of_layers(s, arena, &draft, err));
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    float *share = orr_arena_array(arena, float, cells);
    double *rows = orr_arena_array(arena, double, p->ranks);
    uint32_t *next = orr_arena_array(arena, uint32_t, p->ranks);
    if (share == NULL || rows == NULL || next == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < p->layers; l++) {
        const orr_layer *layer = &s->layer[l];
        orr_copies_share(layer, rows, share);
        for (uint32_t r = 0; r < p->ranks; r++)
            next[r] = orr_placement_first(&draft.placement, l, r);
        for (uint32_t e = 0; e < p->experts; e++)
            for (uint32_t i = 0; i < layer->copies[e]; i++) {
                const size_t at = (size_t)e * p->ranks + i;
                const uint32_t slot = next[layer->copy[at]]++;
                draft.expert[slot] = (uint16_t)e;
                draft.share[slot] = share[at];
            }
    }
    orr_arena_rewind(arena, mark);
    draft.placement.nearest = true; /* as the search has counted them */
    *ret = draft.placement;
    return ORR_OK;
}

static orr_status make_search(const orr_policy_problem *p, search *s, orr_arena *arena,
                              orr_error *err)
{
    const orr_expert_options *o = p->options;
    *s = (search){.problem = p, .costs = layer_costs(o)};
    ORR_TRY(orr_flows_make(p, arena, &s->flows, err));
    s->layer = orr_arena_array(arena, orr_layer, p->layers);
    s->base = orr_arena_array(arena, uint32_t, p->ranks);
    if (s->layer == NULL || s->base == NULL)
        return orr_fail_memory(err);
    orr_policy_deal(p, s->base);
    if (s->flows.sampled > 0)
        ORR_TRY(orr_merge_new(&s->flows, &s->costs, arena, &s->merge, err));
    return orr_single_new(p, s->flows.sampled > 0 ? &s->merge : NULL, arena, &s->single, err);
}

/* The search's placements, with the smooth measure and relieved, and those of other policies: where
 * links tell experts apart little, loads alone level ranks better, and what few tokens tell of is
 * better not leant on. The one that is fastest for parts of the requests, as they come. */
static orr_status prefer_fastest(const orr_policy_problem *p, const orr_expert_placement *smooth,
                                 orr_arena *arena, orr_expert_result *ret, orr_error *err)
{
    static orr_policy_place *const others[] = {orr_place_balance, orr_place_eplb,
                                               orr_place_affinity};
    enum { OTHERS = sizeof others / sizeof *others };
    orr_expert_placement candidates[2 + OTHERS] = {ret->placement, *smooth};
    uint32_t fastest;
    double ratio;
    for (size_t i = 0; i < OTHERS; i++) {
        orr_expert_result other = *ret;
        ORR_TRY(others[i](p, arena, &other, err));
        candidates[2 + i] = other.placement;
    }
    ORR_TRY(
        orr_placement_fastest(p->options, candidates, 2 + OTHERS, arena, &fastest, &ratio, err));
    ret->gap_frac = (1 + ret->gap_frac) * ratio - 1;
    ret->placement = candidates[fastest];
    return ORR_OK;
}

static orr_status search_placement(search *s, orr_arena *scratch, orr_arena *arena,
                                   orr_expert_result *ret, orr_error *err)
{
    const orr_policy_problem *p = s->problem;
    orr_expert_placement smooth;
    /* Shares even out what copies take from afar, so that ranks need less care. */
    s->costs.evenness = s->costs.row_ns;
    ORR_TRY(orr_copies_allot(s->layer, p->layers, p->rank_slots, p->options->even_layers,
                             p->options->stop, scratch, err));
    improve_layers(s);
    ORR_TRY(write_layers(s, arena, &smooth, err));
    if (p->options->costs == NULL) {
        ret->placement = smooth;
        return ORR_OK;
    }
    ORR_TRY(tell_gap(s, relieve_layers(s), scratch, ret, err));
    ORR_TRY(write_layers(s, arena, &ret->placement, err));
    return prefer_fastest(p, &smooth, arena, ret, err);
}

static orr_status place_by_routes(const orr_policy_problem *p, orr_arena *scratch, orr_arena *arena,
                                  orr_expert_result *ret, orr_error *err)
{
    search s;
    bool fits;
    orr_expert_result balanced = *ret;
    ORR_TRY(make_search(p, &s, scratch, err));
    /* What the square of unevenness stands for, the fullest rank, costs rows and links alike; by
     * measured steps of requests held out the first count several times. */
    s.costs.evenness =
        10 * s.costs.row_ns + s.costs.dispatch_ns[ORR_HOST] + s.costs.combine_ns[ORR_HOST];
    ORR_TRY(orr_place_balance(p, arena, &balanced, err));
    ORR_TRY(place_singles(&s, &balanced.placement, scratch, &fits, err));
    if (fits)
        return search_placement(&s, scratch, arena, ret, err);
    *ret = balanced;
    return ORR_OK;
}

/* From the placement that runs, only what pays: see orr_experts_approach(). */
static orr_status approach_from_running(const orr_policy_problem *p, orr_arena *arena,
                                        orr_expert_result *ret, orr_error *err)
{
    static const double TOLERANCE = 0.01;
    orr_expert_approach approach;
    ORR_TRY(orr_experts_approach(p->options->running, &ret->placement, p->options, TOLERANCE, arena,
                                 &approach, err));
    if (p->options->routes != NULL && p->options->costs != NULL) {
        /* Moves that end in a slower step are not made. */
        orr_expert_quality running;
        ORR_TRY(orr_experts_evaluate(p->options->running, p->options, arena, &running, err));
        if (running.step_ns <= approach.reached.step_ns) {
            ret->gap_frac = ret->bound_ns > 0 ? running.step_ns / ret->bound_ns - 1 : NAN;
            ret->placement = *p->options->running;
            return ORR_OK;
        }
    }
    if (approach.fresh.step_ns > 0)
        ret->gap_frac = (1 + ret->gap_frac) * approach.reached.step_ns / approach.fresh.step_ns - 1;
    ret->placement = approach.placement;
    return ORR_OK;
}

orr_status orr_place_best(const orr_policy_problem *p, orr_arena *arena, orr_expert_result *ret,
                          orr_error *err)
{
    const orr_expert_options *o = p->options;
    if (o->routes == NULL || (o->costs == NULL && o->group_of_request == NULL)) {
        ORR_TRY(orr_place_balance(p, arena, ret, err));
    } else {
        orr_arena *scratch = orr_arena_new(0, 0);
        if (scratch == NULL)
            return orr_fail_memory(err);
        const orr_status status = place_by_routes(p, scratch, arena, ret, err);
        orr_arena_free(scratch);
        ORR_TRY(status);
    }
    return o->running != NULL ? approach_from_running(p, arena, ret, err) : ORR_OK;
}
