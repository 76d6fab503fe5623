/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/placement/index.h"

#include <string.h>

#include "experts/placement/build.h"

orr_status orr_copy_index_new(const orr_expert_placement *placement, orr_arena *arena,
                              orr_copy_index *ret, orr_error *err)
{
    uint32_t most = 0;
    for (uint32_t l = 0; l < placement->layers; l++) {
        const uint32_t n = orr_placement_first(placement, l, placement->ranks) -
                           orr_placement_first(placement, l, 0);
        most = n > most ? n : most;
    }
    *ret = (orr_copy_index){.layer = UINT32_MAX};
    ret->begin = orr_arena_array(arena, uint32_t, (size_t)placement->experts + 1);
    ret->slot = orr_arena_array(arena, uint32_t, most);
    ret->rank = orr_arena_array(arena, uint16_t, most);
    return ret->begin != NULL && ret->slot != NULL && ret->rank != NULL ? ORR_OK
                                                                        : orr_fail_memory(err);
}

void orr_copy_index_set(orr_copy_index *index, const orr_expert_placement *p, uint32_t layer)
{
    uint32_t *end = index->begin + 1; /* of the copies of an expert, while they are put in */
    index->layer = layer;
    memset(index->begin, 0, ((size_t)p->experts + 1) * sizeof *index->begin);
    for (uint32_t s = orr_placement_first(p, layer, 0); s < orr_placement_first(p, layer, p->ranks);
         s++)
        if (p->expert[s] + 1U < p->experts)
            end[p->expert[s] + 1]++;
    for (uint32_t e = 1; e < p->experts; e++)
        end[e] += end[e - 1];
    for (uint32_t r = 0; r < p->ranks; r++)
        for (uint32_t s = orr_placement_first(p, layer, r);
             s < orr_placement_first(p, layer, r + 1); s++) {
            const uint32_t at = end[p->expert[s]]++;
            index->slot[at] = s;
            index->rank[at] = (uint16_t)r;
        }
}

/* --- the copy that a token goes to ------------------------------------------------------------ */

/* The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

/* Uniform in [0, 1), by nothing but the token, the layer and the expert. */
static double draw(const orr_expert_token *token, uint32_t layer, uint32_t expert)
{
    const uint64_t of_token =
        mix(((uint64_t)token->request << 32 | token->position) + 0x9e3779b97f4a7c15U);
    return (double)(mix(of_token ^ ((uint64_t)layer << 32 | expert)) >> 11) * 0x1p-53;
}

/* Slots that a token may go to. By an index: those of the expert's copies; without: all slots of
 * the layer, of which those of the expert count. */
typedef struct candidates {
    const orr_expert_placement *placement;
    const uint32_t *slot; /* shape (n), NULL: first, first + 1, .. */
    const uint16_t *rank; /* shape (n), NULL: asked of the placement */
    uint32_t n, first, layer, expert;
    uint32_t host; /* UINT32_MAX: any */
} candidates;

static uint32_t slot_of(const candidates *c, uint32_t i)
{
    return c->slot != NULL ? c->slot[i] : c->first + i;
}

static bool is_copy(const candidates *c, uint32_t i)
{
    return c->slot != NULL || c->placement->expert[c->first + i] == c->expert;
}

static uint32_t rank_of(const candidates *c, uint32_t i)
{
    return c->rank != NULL ? c->rank[i] : orr_placement_rank(c->placement, c->layer, slot_of(c, i));
}

static bool is_candidate(const candidates *c, uint32_t i)
{
    return is_copy(c, i) &&
           (c->host == UINT32_MAX || rank_of(c, i) / c->placement->host_ranks == c->host);
}

/* The candidate at `at`, 0 .. 1, of them by their shares; where all are 0, evenly. */
static uint32_t pick(const candidates *c, double at)
{
    const float *share = c->placement->share;
    double sum = 0;
    uint32_t n = 0, last = UINT32_MAX;
    for (uint32_t i = 0; i < c->n; i++)
        if (is_candidate(c, i)) {
            sum += (double)share[slot_of(c, i)];
            n++;
        }
    double left = at * (sum > 0 ? sum : n);
    for (uint32_t i = 0; i < c->n; i++) {
        if (!is_candidate(c, i))
            continue;
        const double own = sum > 0 ? (double)share[slot_of(c, i)] : 1;
        if (own <= 0)
            continue;
        last = i;
        if (left < own)
            break;
        left -= own;
    }
    return last;
}

/* The rule: own rank, own host, all. UINT32_MAX: no copies. */
static uint32_t choose(candidates *c, const orr_expert_token *token, bool by_share)
{
    const uint32_t host = token->rank / c->placement->host_ranks;
    c->host = UINT32_MAX;
    for (uint32_t i = 0; i < c->n && !by_share; i++) {
        if (!is_copy(c, i))
            continue;
        const uint32_t rank = rank_of(c, i);
        if (rank == token->rank)
            return i;
        if (rank / c->placement->host_ranks == host)
            c->host = host;
    }
    return pick(c, draw(token, c->layer, c->expert));
}

uint32_t orr_copy_index_choose(const orr_copy_index *index, const orr_expert_placement *placement,
                               const orr_expert_token *token, uint32_t expert, bool by_share)
{
    const uint32_t begin = index->begin[expert], n = index->begin[expert + 1] - begin;
    if (n <= 1)
        return n == 1 ? begin : UINT32_MAX;
    candidates c = {.placement = placement,
                    .slot = index->slot + begin,
                    .rank = index->rank + begin,
                    .n = n,
                    .layer = index->layer,
                    .expert = expert};
    return begin + choose(&c, token, by_share);
}

void orr_experts_slots(const orr_expert_placement *placement, uint32_t layer,
                       const orr_expert_token *token, const uint16_t *choice, uint32_t top_k,
                       bool by_share, uint32_t *ret)
{
    const uint32_t first = orr_placement_first(placement, layer, 0);
    const uint32_t n = orr_placement_first(placement, layer, placement->ranks) - first;
    for (uint32_t k = 0; k < top_k; k++) {
        candidates c = {
            .placement = placement, .n = n, .first = first, .layer = layer, .expert = choice[k]};
        const uint32_t i = choose(&c, token, by_share);
        ret[k] = i == UINT32_MAX ? UINT32_MAX : first + i;
    }
}
