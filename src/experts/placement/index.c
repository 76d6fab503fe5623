/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/placement/index.h"

#include <math.h>
#include <string.h>

#include "experts/placement/build.h"

static uint32_t most_slots(const orr_expert_placement *placement)
{
    uint32_t most = 0;
    for (uint32_t l = 0; l < placement->layers; l++) {
        const uint32_t n = orr_placement_first(placement, l, placement->ranks) -
                           orr_placement_first(placement, l, 0);
        most = n > most ? n : most;
    }
    return most;
}

orr_status orr_copy_index_new(const orr_expert_placement *placement, orr_arena *arena,
                              orr_copy_index *ret, orr_error *err)
{
    const uint32_t most = most_slots(placement);
    *ret = (orr_copy_index){.layer = UINT32_MAX};
    ret->begin = orr_arena_array(arena, uint32_t, (size_t)placement->experts + 1);
    ret->slot = orr_arena_array(arena, uint32_t, most);
    ret->rank = orr_arena_array(arena, uint16_t, most);
    return ret->begin != NULL && ret->slot != NULL && ret->rank != NULL ? ORR_OK
                                                                        : orr_fail_memory(err);
}

orr_status orr_copy_index_weigh(orr_copy_index *index, const orr_expert_placement *placement,
                                orr_arena *arena, orr_error *err)
{
    index->part = orr_arena_array(arena, orr_copy_part, most_slots(placement));
    return index->part != NULL ? ORR_OK : orr_fail_memory(err);
}

static void weigh_copies(const orr_copy_index *index, const orr_expert_placement *p);

void orr_copy_index_set(orr_copy_index *index, const orr_expert_placement *p, uint32_t layer)
{
    uint32_t *end = index->begin + 1; /* of the copies of an expert, while they are put in */
    index->layer = layer;
    index->live = orr_placement_holders(p, layer, 0, p->ranks);
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
    if (index->part != NULL && !p->nearest)
        weigh_copies(index, p);
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
    const uint32_t *slot;      /* shape (n), NULL: first, first + 1, .. */
    const uint16_t *rank;      /* shape (n), NULL: asked of the placement */
    const orr_copy_part *part; /* shape (n), NULL: weighed when asked for */
    uint32_t n, first, layer, expert;
    uint32_t first_rank, end_rank; /* where they are: a host, or any rank below UINT32_MAX */
    uint32_t live;                 /* ranks that have slots in the layer */
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
    if (!is_copy(c, i))
        return false;
    const uint32_t rank = rank_of(c, i);
    return rank >= c->first_rank && rank < c->end_rank;
}

static void take_host_of(candidates *c, uint32_t rank)
{
    c->first_rank = rank - rank % c->placement->host_ranks;
    c->end_rank = c->first_rank + c->placement->host_ranks;
}

static void take_any_host(candidates *c)
{
    c->first_rank = 0;
    c->end_rank = UINT32_MAX;
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

/* The nearest copy: own rank, own host, all. */
static uint32_t choose_nearest(candidates *c, const orr_expert_token *token, double at)
{
    const uint32_t host = token->rank / c->placement->host_ranks;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!is_copy(c, i))
            continue;
        const uint32_t rank = rank_of(c, i);
        if (rank == token->rank)
            return i;
        if (rank / c->placement->host_ranks == host)
            take_host_of(c, rank);
    }
    return pick(c, at);
}

/* --- near copies, as far as their shares go --------------------------------------------------- */

/* The copies on one rank, of which the first takes what all are given. */
typedef struct holder {
    uint32_t at, rank;
    double share;
} holder;

/* The next one from *i on; false: there is none. */
static inline bool next_holder(const candidates *c, uint32_t *i, holder *ret)
{
    while (*i < c->n && !is_candidate(c, *i))
        ++*i;
    if (*i >= c->n)
        return false;
    *ret = (holder){.at = *i, .rank = rank_of(c, *i)};
    if (c->part != NULL) { /* the parts of its other copies are 0 */
        ++*i;
        return true;
    }
    for (; *i < c->n; ++*i) {
        if (!is_copy(c, *i))
            continue;
        if (rank_of(c, *i) != ret->rank)
            break;
        ret->share += (double)c->placement->share[slot_of(c, *i)];
    }
    return true;
}

/* What ranks of a rank's host have left of an expert's rows, and what its copies have left of their
 * shares, once each rank has kept what it can. Rows come from all live ranks alike. */
typedef struct host_rest {
    double rows, room;
} host_rest;

static double room_of(const candidates *c, const holder *h)
{
    return fmax(h->share - 1.0 / c->live, 0);
}

static host_rest rest_of(const candidates *c, uint32_t rank)
{
    const orr_expert_placement *p = c->placement;
    candidates here = *c;
    take_host_of(&here, rank);
    const uint32_t end = here.end_rank < p->ranks ? here.end_rank : p->ranks;
    host_rest ret = {.rows = (double)orr_placement_holders(p, c->layer, here.first_rank, end) /
                             c->live};
    holder h;
    for (uint32_t i = 0; next_holder(&here, &i, &h);) {
        ret.rows -= fmin(h.share, 1.0 / c->live);
        ret.room += room_of(c, &h);
    }
    return ret;
}

static inline orr_copy_part part_of(const candidates *c, const holder *h)
{
    if (c->part != NULL)
        return c->part[h->at];
    const host_rest rest = rest_of(c, h->rank);
    const double rows = fmax(rest.rows, 0); /* rounding may leave less than none */
    const bool enough = rest.room > rows;
    const double room = room_of(c, h);
    return (orr_copy_part){.keep = fmin(h->share * c->live, 1),
                           .near = rest.room <= 0          ? 0
                                   : rest.rows > rest.room ? rest.room / rest.rows
                                                           : 1,
                           .room = room,
                           .beyond = enough ? room * (1 - rows / rest.room) : 0};
}

static double room_left(const candidates *c, const holder *h)
{
    const orr_copy_part part = part_of(c, h);
    return c->end_rank == UINT32_MAX ? part.beyond : part.room;
}

/* The candidate at `at`, 0 .. 1, of them by what they have left: for other hosts, where any host
 * will do. UINT32_MAX: nothing is. */
static uint32_t pick_room(const candidates *c, double at)
{
    double sum = 0;
    holder h;
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; next_holder(c, &i, &h);)
        sum += room_left(c, &h);
    double left = at * sum;
    for (uint32_t i = 0; next_holder(c, &i, &h);) {
        const double own = room_left(c, &h);
        if (own <= 0)
            continue;
        last = h.at;
        if (left < own)
            break;
        left -= own;
    }
    return last;
}

/* Cuts a step of `part` off what is drawn: true, *at within it; false, *at within the rest. */
static bool falls_within(double part, double *at)
{
    const bool ret = *at < part;
    *at = ret ? *at / part : (*at - part) / (1 - part);
    return ret;
}

static uint32_t choose_within_shares(candidates *c, const orr_expert_token *token, double at)
{
    double near = 0;
    holder h;
    take_host_of(c, token->rank);
    for (uint32_t i = 0; next_holder(c, &i, &h);) {
        const orr_copy_part part = part_of(c, &h);
        near = part.near;
        if (h.rank == token->rank && falls_within(part.keep, &at))
            return h.at;
    }
    if (near <= 0 || !falls_within(near, &at))
        take_any_host(c);
    const uint32_t ret = pick_room(c, at);
    return ret != UINT32_MAX ? ret : pick(c, at);
}

static uint32_t choose(candidates *c, const orr_expert_token *token, bool by_share)
{
    const double at = draw(token, c->layer, c->expert);
    take_any_host(c);
    if (by_share)
        return pick(c, at);
    return c->placement->nearest ? choose_nearest(c, token, at)
                                 : choose_within_shares(c, token, at);
}

/* --- copies of an index ----------------------------------------------------------------------- */

static candidates copies_of(const orr_copy_index *index, const orr_expert_placement *placement,
                            uint32_t expert)
{
    const uint32_t begin = index->begin[expert];
    return (candidates){.placement = placement,
                        .slot = index->slot + begin,
                        .rank = index->rank + begin,
                        .n = index->begin[expert + 1] - begin,
                        .layer = index->layer,
                        .expert = expert,
                        .end_rank = UINT32_MAX,
                        .live = index->live};
}

static void weigh_copies(const orr_copy_index *index, const orr_expert_placement *p)
{
    for (uint32_t e = 0; e < p->experts; e++) {
        const candidates c = copies_of(index, p, e);
        holder h;
        memset(index->part + index->begin[e], 0, c.n * sizeof *index->part);
        if (c.n > 1)
            for (uint32_t i = 0; next_holder(&c, &i, &h);)
                index->part[index->begin[e] + h.at] = part_of(&c, &h);
    }
}

uint32_t orr_copy_index_choose(const orr_copy_index *index, const orr_expert_placement *placement,
                               const orr_expert_token *token, uint32_t expert, bool by_share)
{
    const uint32_t begin = index->begin[expert], n = index->begin[expert + 1] - begin;
    if (n <= 1)
        return n == 1 ? begin : UINT32_MAX;
    candidates c = copies_of(index, placement, expert);
    if (index->part != NULL)
        c.part = index->part + begin;
    return begin + choose(&c, token, by_share);
}

void orr_experts_slots(const orr_expert_placement *placement, uint32_t layer,
                       const orr_expert_token *token, const uint16_t *choice, uint32_t top_k,
                       bool by_share, uint32_t *ret)
{
    const uint32_t first = orr_placement_first(placement, layer, 0);
    const uint32_t n = orr_placement_first(placement, layer, placement->ranks) - first;
    const uint32_t live = orr_placement_holders(placement, layer, 0, placement->ranks);
    for (uint32_t k = 0; k < top_k; k++) {
        candidates c = {.placement = placement,
                        .n = n,
                        .first = first,
                        .layer = layer,
                        .expert = choice[k],
                        .live = live};
        const uint32_t i = choose(&c, token, by_share);
        ret[k] = i == UINT32_MAX ? UINT32_MAX : first + i;
    }
}
