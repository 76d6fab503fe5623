/* SPDX-License-Identifier: Apache-2.0 */
/* Experts move while tokens are generated: between two rounds, on all ranks at once, so that no
 * token sees an expert that is half there. Every so many rounds the ranks add up their loads; where
 * these have drifted from those that the placement was made for, each finds the same new placement
 * and the same order of moves; then, in each gap between rounds, one step of moves is made. */
#include "engine/generate/rebalance.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

struct orr_rebalancer {
    orr_rebalance_options options;
    int64_t *counts;      /* shape (L, E): choices of this rank's tokens since the last look */
    double *fitted, *now; /* shape (L, E): what the placement was made for; the last look */
    orr_arena *arena[2];  /* of the placement that runs, and of the one before */
    orr_arena *plan;      /* of the moves under way; NULL: none are */
    orr_expert_placement running;
    orr_expert_moves moves;
    uint32_t made, step; /* of the moves; steps that are done */
    char *staged;        /* rows of an expert on their way */
    size_t staged_bytes;
    orr_rebalanced total;
};

static size_t loads_of(const orr_expert_parallel *x)
{
    return (size_t)x->placement->layers * x->placement->experts;
}

static int64_t now_ns(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

/* Bytes of one expert of a layer: of all its weights. */
static size_t expert_bytes(const orr_expert_parallel *x, uint32_t layer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < x->weights.n; i++)
        if (x->weights.at[i].layer == layer)
            bytes += (size_t)orr_expert_weight_bytes(&x->weights.at[i]);
    return bytes;
}

orr_status orr_rebalancer_new(orr_generator *g, const orr_rebalance_options *options,
                              orr_rebalancer **ret, orr_error *err)
{
    const orr_expert_parallel *x = g->parallel;
    const size_t n = loads_of(x);
    orr_rebalancer *r = orr_calloc(1, sizeof *r);
    if (r == NULL)
        return orr_fail_memory(err);
    r->options = *options;
    r->running = *x->placement;
    r->counts = orr_calloc(n + 1, sizeof *r->counts);
    r->fitted = orr_calloc(n + 1, sizeof *r->fitted);
    r->now = orr_calloc(n + 1, sizeof *r->now);
    for (uint32_t layer = 0; layer < x->placement->layers; layer++)
        if (expert_bytes(x, layer) > r->staged_bytes)
            r->staged_bytes = expert_bytes(x, layer);
    r->staged = orr_malloc(r->staged_bytes + 1);
    if (r->counts == NULL || r->fitted == NULL || r->now == NULL || r->staged == NULL) {
        orr_rebalancer_free(r);
        return orr_fail_memory(err);
    }
    for (size_t i = 0; i < n; i++)
        r->fitted[i] = 1; /* nobody said what the first placement was made for */
    *ret = r;
    return ORR_OK;
}

void orr_rebalancer_free(orr_rebalancer *r)
{
    if (r == NULL)
        return;
    orr_arena_free(r->arena[0]);
    orr_arena_free(r->arena[1]);
    orr_arena_free(r->plan);
    orr_free(r->staged);
    orr_free(r->now);
    orr_free(r->fitted);
    orr_free(r->counts);
    orr_free(r);
}

void orr_rebalancer_count(orr_rebalancer *r, const orr_generator *g, const orr_backbone *backbone)
{
    const orr_expert_parallel *x = g->parallel;
    for (size_t layer = 0; layer < backbone->choices.n; layer++) {
        const int32_t *choice = backbone->choices.at[layer].data;
        int64_t *counts = r->counts + layer * x->placement->experts;
        for (size_t i = 0; i < (size_t)x->tokens * g->model.moe.top_k; i++)
            counts[choice[i]]++;
    }
}

orr_rebalanced orr_rebalancer_total(const orr_rebalancer *r)
{
    return r->total;
}

/* Loads of all ranks since the last look; false: nobody chose an expert of some layer. */
static orr_status gather_loads(orr_rebalancer *r, orr_expert_parallel *x, bool *ret_any,
                               orr_error *err)
{
    const size_t n = loads_of(x), experts = x->placement->experts;
    ORR_TRY(orr_all_reduce(x->communicators[ORR_AXIS_EP], r->counts, r->counts, (int64_t)n,
                           ORR_DTYPE_INT64, err));
    *ret_any = n > 0;
    for (size_t layer = 0; layer < x->placement->layers; layer++) {
        int64_t sum = 0;
        for (size_t e = 0; e < experts; e++) {
            r->now[layer * experts + e] = (double)r->counts[layer * experts + e];
            sum += r->counts[layer * experts + e];
        }
        *ret_any &= sum > 0;
    }
    memset(r->counts, 0, n * sizeof *r->counts);
    return ORR_OK;
}

static orr_expert_windows window_of(const orr_expert_placement *p, const double *load)
{
    return (orr_expert_windows){.windows = 1,
                                .layers = p->layers,
                                .experts = p->experts,
                                .number = p->number,
                                .load = load,
                                .source = "loads of this run"};
}

/* A new placement for the loads of now, near to the one that runs, and the moves there. */
static orr_status plan_moves(orr_rebalancer *r, const orr_expert_parallel *x,
                             const orr_expert_windows *now, orr_error *err)
{
    const orr_expert_placement *p = &r->running;
    const orr_expert_costs costs = {.expert_bytes = (double)r->staged_bytes, .source = "weights"};
    orr_expert_options options;
    orr_expert_moves_options how;
    orr_expert_result fresh;
    orr_expert_approach near;
    orr_expert_options_init(&options);
    options.policy = r->options.policy;
    options.windows = now;
    options.ranks = p->ranks;
    options.host_ranks = p->host_ranks;
    options.slots = p->first_slot[p->ranks] - p->first_slot[0];
    options.running = p;
    ORR_TRY(orr_experts_place(&options, r->plan, &fresh, err));
    ORR_TRY(orr_experts_approach(p, &fresh.placement, &options, r->options.tolerance, r->plan,
                                 &near, err));
    orr_expert_moves_options_init(&how);
    how.costs = &costs;
    how.step_bytes = r->options.step_bytes;
    ORR_TRY(orr_expert_moves_plan(p, &near.placement, &how, r->plan, &r->moves, err));
    r->made = r->step = 0;
    r->total.plans += x->rank == 0 && r->moves.n > 0;
    return ORR_OK;
}

static orr_status look(orr_rebalancer *r, orr_expert_parallel *x, orr_error *err)
{
    orr_expert_drift drift;
    bool any;
    ORR_TRY(gather_loads(r, x, &any, err));
    if (!any)
        return ORR_OK;
    const orr_expert_windows fitted = window_of(&r->running, r->fitted),
                             now = window_of(&r->running, r->now);
    r->plan = orr_arena_new(0, 0);
    if (r->plan == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_experts_drift(&r->running, &fitted, &now, r->plan, &drift, err));
    r->total.looks += x->rank == 0;
    r->moves = (orr_expert_moves){0};
    if (drift.drifted) {
        ORR_TRY(plan_moves(r, x, &now, err));
        memcpy(r->fitted, r->now, loads_of(x) * sizeof *r->fitted);
    }
    if (r->moves.n == 0) {
        orr_arena_free(r->plan);
        r->plan = NULL;
    }
    return ORR_OK;
}

/* The rows of an expert, of all weights of its layer, one behind the other. */
static orr_status send_expert(orr_rebalancer *r, orr_expert_parallel *x, const orr_expert_move *m,
                              orr_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < x->weights.n; i++)
        if (x->weights.at[i].layer == m->layer) {
            orr_expert_weight_copy(&x->weights.at[i], m->expert, r->staged + at);
            at += (size_t)orr_expert_weight_bytes(&x->weights.at[i]);
        }
    r->total.moved++;
    return orr_send_receive(x->communicators[ORR_AXIS_EP], m->to, r->staged, at, ORR_NONE, NULL, 0,
                            err);
}

static orr_status receive_expert(orr_rebalancer *r, orr_expert_parallel *x,
                                 const orr_expert_move *m, orr_error *err)
{
    size_t at = 0;
    ORR_TRY(orr_send_receive(x->communicators[ORR_AXIS_EP], ORR_NONE, NULL, 0, m->from, r->staged,
                             expert_bytes(x, m->layer), err));
    for (size_t i = 0; i < x->weights.n; i++) {
        const orr_expert_weight *w = &x->weights.at[i];
        if (w->layer != m->layer)
            continue;
        ORR_TRY(orr_expert_weight_take(w, m->expert, err));
        memcpy(w->made[m->expert], r->staged + at, (size_t)orr_expert_weight_bytes(w));
        at += (size_t)orr_expert_weight_bytes(w);
    }
    return ORR_OK;
}

static bool has_expert(const orr_expert_parallel *x, uint32_t layer, uint16_t expert)
{
    uint32_t n;
    const uint16_t *here = orr_generator_experts_of(x, layer, &n);
    for (uint32_t s = 0; s < n; s++)
        if (here[s] == expert)
            return true;
    return false;
}

/* The placement after the moves that are made, on all ranks; rows of experts that have left go. */
static orr_status change_placement(orr_rebalancer *r, orr_generator *g, uint32_t first,
                                   orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_expert_placement *next = arena != NULL ? orr_arena_one(arena, orr_expert_placement) : NULL;
    orr_expert_moves some = r->moves;
    orr_arena_free(r->arena[1]);
    r->arena[1] = r->arena[0];
    r->arena[0] = arena;
    if (next == NULL)
        return orr_fail_memory(err);
    some.moves += first;
    some.n = r->made - first;
    ORR_TRY(orr_expert_moves_apply(&r->running, &some, some.n, arena, next, err));
    r->running = *next;
    x->placement = next;
    ORR_TRY(orr_expert_exchange_place(x->exchange, next, err));
    for (uint32_t i = first; i < r->made; i++) {
        const orr_expert_move *m = &r->moves.moves[i];
        for (size_t k = 0; k < x->weights.n && !has_expert(x, m->layer, m->expert); k++)
            if (x->weights.at[k].layer == m->layer)
                orr_expert_weight_drop(&x->weights.at[k], m->expert);
    }
    return orr_generator_count_slots(g, err);
}

/* One step of the moves under way. */
static orr_status move_experts(orr_rebalancer *r, orr_generator *g, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    const uint32_t first = r->made;
    orr_status status = ORR_OK;
    orr_expert_exchange_count(x->exchange, r->total.bytes);
    for (; r->made < r->moves.n && r->moves.moves[r->made].step == r->step && status == ORR_OK;
         r->made++) {
        const orr_expert_move *m = &r->moves.moves[r->made];
        if (m->from == m->to)
            continue;
        if (m->from == x->rank)
            status = send_expert(r, x, m, err);
        else if (m->to == x->rank)
            status = receive_expert(r, x, m, err);
    }
    orr_expert_exchange_count(x->exchange, NULL);
    r->step++;
    r->total.steps += x->rank == 0;
    if (status == ORR_OK && r->made > first)
        status = change_placement(r, g, first, err);
    if (r->made == r->moves.n) {
        orr_arena_free(r->plan);
        r->plan = NULL;
    }
    return status;
}

orr_status orr_rebalancer_round(orr_rebalancer *r, orr_generator *g, orr_error *err)
{
    orr_expert_parallel *x = g->parallel;
    const int64_t began = now_ns();
    if (r->plan != NULL)
        ORR_TRY(move_experts(r, g, err));
    else if (x->rounds % r->options.every == 0)
        ORR_TRY(look(r, x, err));
    const int64_t pause = now_ns() - began;
    r->total.pause_ns = pause > r->total.pause_ns ? pause : r->total.pause_ns;
    return ORR_OK;
}
