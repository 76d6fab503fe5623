/* SPDX-License-Identifier: Apache-2.0 */
/* Placement by co-activation, after TACG, "Beyond task-agnostic: task-aware grouping for
 * communication-efficient multi-task MoE inference" (arXiv 2606.01007): experts that tokens of one
 * kind of requests choose together are placed together, under exact capacities in slots; no rank
 * takes more than 1.1 times its share of the load where that can be. An edge joins two
 * experts that a token chooses in one layer, or in this layer and in the one before (what stands
 * already); it weighs its tokens, more the more both experts belong to the same kinds. Spare slots
 * repeat generic experts: those that all kinds choose, and choose together with many. */
#include <math.h>
#include <string.h>

#include "experts/policy/policy.h"

enum {
    SAMPLE = 16384, /* tokens that edges are counted on, evenly spaced */
    SWEEPS = 8,
    MOST_KINDS = 64, /* that are told apart: kind k counts as k % 64 */
    NOWHERE = UINT16_MAX
};
static const double MOST_LOAD = 1.1; /* of a rank, over the mean */

typedef struct graph {
    const orr_policy_problem *problem;
    const orr_routes *routes;
    uint32_t sampled, kinds;
    float *of_kind; /* shape (E, kinds): root of the share that a kind has of an expert's tokens */
    float *edge;    /* shape (E, E): in the layer */
    float *pull;    /* shape (E, R): of what stands on a rank, in the layer before and so far */
    uint16_t *at, *last; /* shape (E): rank in this layer, in the one before */
    uint32_t *base;      /* shape (R): experts of a rank before copies */
    uint32_t *used;      /* shape (R) */
    const double *load;  /* shape (E) */
    double *rank_load;   /* shape (R) */
    double most_load;
    bool *has;      /* shape (E) */
    float *generic; /* shape (E) */
} graph;

static orr_status graph_new(const orr_policy_problem *p, orr_arena *arena, graph *ret,
                            orr_error *err)
{
    const orr_routes *routes = p->options->routes;
    const size_t e = p->experts;
    graph g = {.problem = p,
               .routes = routes,
               .kinds = routes->kinds < MOST_KINDS ? routes->kinds : MOST_KINDS,
               .sampled = routes->tokens < SAMPLE ? (uint32_t)routes->tokens : SAMPLE};
    g.of_kind = orr_arena_array(arena, float, e *g.kinds);
    g.edge = orr_arena_array(arena, float, e *e);
    g.pull = orr_arena_array(arena, float, e * p->ranks);
    g.at = orr_arena_array(arena, uint16_t, e);
    g.last = orr_arena_array(arena, uint16_t, e);
    g.base = orr_arena_array(arena, uint32_t, p->ranks);
    g.used = orr_arena_array(arena, uint32_t, p->ranks);
    g.has = orr_arena_array(arena, bool, e);
    g.rank_load = orr_arena_array(arena, double, p->ranks);
    g.generic = orr_arena_array(arena, float, e);
    if (g.of_kind == NULL || g.edge == NULL || g.pull == NULL || g.at == NULL || g.last == NULL ||
        g.base == NULL || g.used == NULL || g.has == NULL || g.rank_load == NULL ||
        g.generic == NULL)
        return orr_fail_memory(err);
    orr_policy_deal(p, g.base);
    *ret = g;
    return ORR_OK;
}

/* --- edges ------------------------------------------------------------------------------------ */

static uint64_t sampled_token(const graph *g, uint32_t i)
{
    return (uint64_t)((double)i * (double)g->routes->tokens / g->sampled);
}

/* Pairs of choices of the sample, within a layer and with where the one before stands. */
static void count_pairs(graph *g, uint32_t layer)
{
    const uint32_t k = g->routes->top_k, ranks = g->problem->ranks;
    const size_t experts = g->problem->experts;
    uint16_t choice[ORR_ROUTE_CHOICES_MAX], before[ORR_ROUTE_CHOICES_MAX];
    memset(g->edge, 0, experts * experts * sizeof(float));
    memset(g->pull, 0, experts * ranks * sizeof(float));
    memset(g->of_kind, 0, experts * g->kinds * sizeof(float));
    for (uint32_t i = 0; i < g->sampled; i++) {
        const uint64_t t = sampled_token(g, i);
        const uint32_t kind = g->routes->kind[g->routes->request[t]] % MOST_KINDS;
        orr_routes_choices(g->routes, layer, t, 1, choice);
        for (uint32_t a = 0; a < k; a++) {
            g->of_kind[(size_t)choice[a] * g->kinds + kind]++;
            for (uint32_t b = 0; b < k; b++)
                g->edge[choice[a] * experts + choice[b]] += a != b;
        }
        if (layer == 0)
            continue;
        orr_routes_choices(g->routes, layer - 1, t, 1, before);
        for (uint32_t a = 0; a < k; a++)
            for (uint32_t b = 0; b < k; b++)
                if (g->last[before[b]] != NOWHERE)
                    g->pull[(size_t)choice[a] * ranks + g->last[before[b]]] += 1 / (float)k;
    }
}

/* Affinity within kinds counts, not the mean over all of them: an edge is weighed by how much the
 * kinds of its experts overlap (Bhattacharyya's coefficient). */
static void weigh_edges(graph *g)
{
    const size_t experts = g->problem->experts, kinds = g->kinds;
    for (size_t e = 0; e < experts; e++) {
        float *of = g->of_kind + e * kinds, sum = 0;
        for (size_t k = 0; k < kinds; k++)
            sum += of[k];
        for (size_t k = 0; k < kinds && sum > 0; k++)
            of[k] = sqrtf(of[k] / sum);
    }
    for (size_t a = 0; a < experts; a++)
        for (size_t b = 0; b < experts; b++) {
            float same = 0;
            if (g->edge[a * experts + b] == 0)
                continue;
            for (size_t k = 0; k < kinds; k++)
                same += g->of_kind[a * kinds + k] * g->of_kind[b * kinds + k];
            g->edge[a * experts + b] *= same;
        }
}

/* --- parts ------------------------------------------------------------------------------------ */

static float pull_of(const graph *g, uint32_t expert, uint32_t rank)
{
    return g->pull[(size_t)expert * g->problem->ranks + rank];
}

/* An expert comes to a rank, and pulls others there, or leaves it (sign -1). */
static void put(graph *g, uint32_t expert, uint32_t rank, float sign)
{
    const uint32_t experts = g->problem->experts, ranks = g->problem->ranks;
    const float *edge = g->edge + (size_t)expert * experts;
    for (uint32_t x = 0; x < experts; x++)
        g->pull[(size_t)x * ranks + rank] += sign * edge[x];
    g->rank_load[rank] += (double)sign * g->load[expert];
    g->at[expert] = sign > 0 ? (uint16_t)rank : NOWHERE;
}

static void begin_layer(graph *g, uint32_t layer)
{
    const orr_policy_problem *p = g->problem;
    double sum = 0;
    uint32_t live = 0;
    g->load = p->load + (size_t)layer * p->experts;
    for (uint32_t e = 0; e < p->experts; e++)
        sum += g->load[e];
    for (uint32_t r = 0; r < p->ranks; r++) {
        live += p->rank_slots[r] > 0;
        g->rank_load[r] = 0;
        g->used[r] = 0;
    }
    g->most_load = MOST_LOAD * sum / live;
    memset(g->at, 0xff, p->experts * sizeof *g->at);
}

/* The rank that pulls an expert most, of those that it does not overload; else the emptiest. */
static uint32_t rank_for(const graph *g, uint32_t expert)
{
    uint32_t pulling = UINT32_MAX, emptiest = UINT32_MAX;
    for (uint32_t r = 0; r < g->problem->ranks; r++) {
        if (g->used[r] >= g->base[r])
            continue;
        if (emptiest == UINT32_MAX || g->rank_load[r] < g->rank_load[emptiest])
            emptiest = r;
        if (g->rank_load[r] + g->load[expert] <= g->most_load &&
            (pulling == UINT32_MAX || pull_of(g, expert, r) > pull_of(g, expert, pulling)))
            pulling = r;
    }
    return pulling != UINT32_MAX ? pulling : emptiest;
}

static void place_heaviest_first(graph *g, uint32_t layer)
{
    const orr_policy_problem *p = g->problem;
    const bool *missing = p->missing != NULL ? p->missing + (size_t)layer * p->experts : NULL;
    begin_layer(g, layer);
    for (uint32_t n = 0; n < p->kept; n++) {
        uint32_t e = UINT32_MAX;
        for (uint32_t x = 0; x < p->experts; x++)
            if (g->at[x] == NOWHERE && (missing == NULL || !missing[x]) &&
                (e == UINT32_MAX || g->load[x] > g->load[e]))
                e = x;
        const uint32_t rank = rank_for(g, e);
        put(g, e, rank, 1);
        g->used[rank]++;
    }
}

/* Whether an exchange leaves both ranks with no more load than is allowed, or than they had. */
static bool bearable(const graph *g, uint32_t e, uint32_t f)
{
    const double a = g->rank_load[g->at[e]], b = g->rank_load[g->at[f]];
    const double moved = g->load[e] - g->load[f];
    return fmax(a - moved, b + moved) <= fmax(g->most_load, fmax(a, b));
}

static void exchange(graph *g, uint32_t e, uint32_t f)
{
    const uint32_t a = g->at[e], b = g->at[f];
    put(g, e, a, -1);
    put(g, f, b, -1);
    put(g, e, b, 1);
    put(g, f, a, 1);
}

/* Exchanges of two experts, the best one for each (Kernighan and Lin's step). */
static bool sweep(graph *g)
{
    const uint32_t experts = g->problem->experts;
    bool changed = false;
    for (uint32_t e = 0; e < experts; e++) {
        float most = 1e-4F;
        uint32_t best = UINT32_MAX;
        if (g->at[e] == NOWHERE)
            continue;
        const float here = pull_of(g, e, g->at[e]);
        for (uint32_t f = 0; f < experts; f++) {
            if (g->at[f] == NOWHERE || g->at[f] == g->at[e])
                continue;
            const float gain = pull_of(g, e, g->at[f]) - here + pull_of(g, f, g->at[e]) -
                               pull_of(g, f, g->at[f]) - 2 * g->edge[(size_t)e * experts + f];
            if (gain > most && bearable(g, e, f)) {
                most = gain;
                best = f;
            }
        }
        if (best != UINT32_MAX)
            exchange(g, e, best);
        changed |= best != UINT32_MAX;
    }
    return changed;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Generic experts: the evenness of their kinds (entropy) times what joins them to others. */
static void rate_generic(graph *g)
{
    const size_t experts = g->problem->experts;
    for (size_t e = 0; e < experts; e++) {
        float joined = 0, entropy = g->kinds > 1 ? 0 : 1;
        for (size_t x = 0; x < experts; x++)
            joined += g->edge[e * experts + x];
        for (uint32_t r = 0; r < g->problem->ranks; r++)
            joined += g->pull[e * g->problem->ranks + r];
        for (uint32_t k = 0; g->kinds > 1 && k < g->kinds; k++) {
            const float root = g->of_kind[e * g->kinds + k];
            entropy -= root > 0 ? 2 * root * root * logf(root) / logf((float)g->kinds) : 0;
        }
        g->generic[e] = joined * entropy;
    }
}

/* Slots are left only where every expert of the layer has one, and no rank has more than there are
 * experts. */
static void write_layer(graph *g, uint16_t *slot)
{
    const orr_policy_problem *p = g->problem;
    for (uint32_t r = 0; r < p->ranks; slot += p->rank_slots[r++]) {
        uint32_t n = 0;
        for (uint32_t e = 0; e < p->experts; e++) {
            g->has[e] = g->at[e] == r;
            if (g->has[e])
                slot[n++] = (uint16_t)e;
        }
        for (; n < p->rank_slots[r]; n++) {
            uint32_t best = UINT32_MAX;
            for (uint32_t e = 0; e < p->experts; e++)
                if (!g->has[e] && (best == UINT32_MAX || g->generic[e] > g->generic[best]))
                    best = e;
            g->has[best] = true;
            slot[n] = (uint16_t)best;
        }
    }
}

orr_status orr_place_coactivation(const orr_policy_problem *p, orr_arena *arena,
                                  orr_expert_result *ret, orr_error *err)
{
    graph g;
    orr_placement_draft draft;
    if (p->options->routes == NULL)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "policy 'coactivation' needs routes, and there are loads alone");
    ORR_TRY(orr_policy_draft(p, NULL, arena, &draft, err));
    ORR_TRY(graph_new(p, arena, &g, err));
    for (uint32_t l = 0; l < p->layers; l++) {
        count_pairs(&g, l);
        weigh_edges(&g);
        place_heaviest_first(&g, l);
        for (int i = 0; i < SWEEPS && sweep(&g); i++)
            continue;
        rate_generic(&g);
        write_layer(&g, draft.expert + (size_t)l * p->slots);
        memcpy(g.last, g.at, p->experts * sizeof *g.last);
    }
    orr_placement_even_shares(&draft);
    ret->placement = draft.placement;
    return ORR_OK;
}
