/* SPDX-License-Identifier: Apache-2.0 */
/* Placement by affinity of groups of requests, after "Scaling multi-node mixture-of-experts
 * inference using expert activation patterns" (arXiv 2604.23150): requests are grouped by what they
 * choose, and an expert is placed with the group that most of its tokens come from, given the group
 * (conditional placement), as far as there is room. Between groups loads are not looked at; within
 * one the emptiest rank takes the next expert, and without groups that is all there is. Spare slots
 * repeat what the group asks of others most. */
#include <stdlib.h>
#include <string.h>

#include "experts/policy/flows.h"

/* How much of an expert's tokens come from a group. */
typedef struct preference {
    double share, rows;
    uint32_t expert, group;
} preference;

static int by_share(const void *a, const void *b)
{
    const preference *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    if (x->expert != y->expert)
        return x->expert < y->expert ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

typedef struct affinity {
    const orr_policy_problem *problem;
    orr_flows flows;
    preference *preference; /* shape (E, G) */
    uint32_t *base;         /* shape (R): experts of a rank before copies */
    uint32_t *used;         /* shape (R) */
    double *load;           /* shape (R): rows, of experts before copies */
    bool *has;              /* shape (E, R) */
    uint32_t *copies;       /* shape (G, E): of an expert on a group's ranks */
    bool *placed;           /* shape (E): needs no first slot any more, or gets none */
    uint16_t *slot;         /* of the layer: rank by rank */
} affinity;

static orr_status affinity_new(const orr_policy_problem *p, orr_arena *arena, affinity *ret,
                               orr_error *err)
{
    affinity a = {.problem = p};
    ORR_TRY(orr_flows_make(p, arena, &a.flows, err));
    const size_t cells = (size_t)a.flows.groups * p->experts;
    a.preference = orr_arena_array(arena, preference, cells);
    a.base = orr_arena_array(arena, uint32_t, p->ranks);
    a.used = orr_arena_array(arena, uint32_t, p->ranks);
    a.load = orr_arena_array(arena, double, p->ranks);
    a.has = orr_arena_array(arena, bool, (size_t)p->experts * p->ranks);
    a.copies = orr_arena_array(arena, uint32_t, cells);
    a.placed = orr_arena_array(arena, bool, p->experts);
    if (a.preference == NULL || a.base == NULL || a.used == NULL || a.load == NULL ||
        a.has == NULL || a.copies == NULL || a.placed == NULL)
        return orr_fail_memory(err);
    orr_policy_deal(p, a.base);
    *ret = a;
    return ORR_OK;
}

static void begin_layer(affinity *a, uint32_t layer, uint16_t *slot)
{
    const orr_policy_problem *p = a->problem;
    const size_t experts = p->experts;
    memset(a->used, 0, p->ranks * sizeof *a->used);
    memset(a->load, 0, p->ranks * sizeof *a->load);
    memset(a->has, 0, experts * p->ranks * sizeof *a->has);
    memset(a->copies, 0, experts * a->flows.groups * sizeof *a->copies);
    memset(a->placed, 0, experts * sizeof *a->placed);
    if (p->missing != NULL)
        memcpy(a->placed, p->missing + layer * experts, experts * sizeof *a->placed);
    a->slot = slot;
}

static void put(affinity *a, uint32_t expert, uint32_t rank)
{
    const uint32_t *slots = a->problem->rank_slots;
    uint16_t *slot = a->slot;
    for (uint32_t r = 0; r < rank; r++)
        slot += slots[r];
    slot[a->used[rank]++] = (uint16_t)expert;
    a->has[(size_t)expert * a->flows.ranks + rank] = true;
    a->copies[(size_t)a->flows.group[rank] * a->flows.experts + expert]++;
    a->placed[expert] = true;
}

/* --- one slot for each expert ----------------------------------------------------------------- */

static void list_preferences(affinity *a, const double *rows)
{
    const uint32_t groups = a->flows.groups, experts = a->flows.experts;
    for (uint32_t e = 0; e < experts; e++) {
        double sum = 0;
        for (uint32_t g = 0; g < groups; g++)
            sum += rows[(size_t)g * experts + e];
        for (uint32_t g = 0; g < groups; g++) {
            const double n = rows[(size_t)g * experts + e];
            a->preference[(size_t)e * groups + g] = (preference){sum > 0 ? n / sum : 0, n, e, g};
        }
    }
    qsort(a->preference, (size_t)experts * groups, sizeof *a->preference, by_share);
}

/* The emptiest rank of a group that has room for an expert; UINT32_MAX: none. */
static uint32_t rank_with_room(const affinity *a, uint32_t group)
{
    const uint32_t size = a->flows.ranks / a->flows.groups;
    uint32_t ret = UINT32_MAX;
    for (uint32_t r = group * size; r < (group + 1) * size; r++)
        if (a->used[r] < a->base[r] && (ret == UINT32_MAX || a->load[r] < a->load[ret]))
            ret = r;
    return ret;
}

static void place_experts(affinity *a, const double *rows)
{
    list_preferences(a, rows);
    for (size_t i = 0; i < (size_t)a->flows.experts * a->flows.groups; i++) {
        const preference *now = &a->preference[i];
        const uint32_t rank = a->placed[now->expert] ? UINT32_MAX : rank_with_room(a, now->group);
        if (rank == UINT32_MAX)
            continue;
        put(a, now->expert, rank);
        a->load[rank] += now->share > 0 ? now->rows / now->share : 0;
    }
}

/* --- copies ----------------------------------------------------------------------------------- */

/* What a rank's group asks for most, of experts that it lacks, over the copies near it. */
static uint32_t most_asked_for(const affinity *a, const double *rows, uint32_t rank)
{
    const uint32_t experts = a->flows.experts;
    const size_t at = (size_t)a->flows.group[rank] * experts;
    double most = -1;
    uint32_t ret = UINT32_MAX;
    for (uint32_t e = 0; e < experts; e++) {
        const double now = rows[at + e] / (1.0 + a->copies[at + e]);
        if (!a->has[(size_t)e * a->flows.ranks + rank] && now > most) {
            most = now;
            ret = e;
        }
    }
    return ret;
}

/* Slots are left only where every expert of the layer has one. */
static void repeat_experts(affinity *a, const double *rows)
{
    const orr_policy_problem *p = a->problem;
    for (uint32_t left = p->slots - p->kept; left > 0;)
        for (uint32_t r = 0; r < p->ranks; r++)
            if (a->used[r] < p->rank_slots[r]) {
                put(a, most_asked_for(a, rows, r), r);
                left--;
            }
}

orr_status orr_place_affinity(const orr_policy_problem *p, orr_arena *arena, orr_expert_result *ret,
                              orr_error *err)
{
    affinity a;
    orr_placement_draft draft;
    if (p->options->routes == NULL)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "policy 'affinity' needs routes, and there are loads alone");
    ORR_TRY(orr_policy_draft(p, NULL, arena, &draft, err));
    ORR_TRY(affinity_new(p, arena, &a, err));
    for (uint32_t l = 0; l < p->layers; l++) {
        const double *rows = a.flows.rows + (size_t)l * a.flows.groups * p->experts;
        begin_layer(&a, l, draft.expert + (size_t)l * p->slots);
        place_experts(&a, rows);
        repeat_experts(&a, rows);
    }
    orr_placement_even_shares(&draft);
    ret->placement = draft.placement;
    return ORR_OK;
}
