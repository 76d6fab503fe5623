/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "experts/placement/build.h"
#include "experts/placement/loads.h"

/* Shares of copies that make the fullest rank as little full as can be: the linear programme
 *
 *   min t: sum of x(e, r) over experts e of a rank r <= t, sum of x(e, r) over copies r = load(e).
 *
 * Discrete Newton (Dinkelbach) over maximum flows. `level`, a lower bound of t, begins at the mean.
 * Load is pushed from ranks above the level along shortest augmenting paths (rank, expert of which
 * it has some, another rank with a copy, ..) to ranks below it. Where there is no path, the load of
 * the ranks that were reached cannot leave them, so that no shares bring their fullest one below
 * their mean: the level rises to that. What was pushed before remains valid, since levels only
 * rise. It ends with all ranks at most at a level that is a bound, thus at the optimum. Experts
 * with one copy take no part but as the load that their rank begins with. */

typedef struct split {
    const orr_expert_placement *placement;
    uint32_t layer, first, ranks, experts;
    const double *load;   /* shape (E) */
    double *amount;       /* shape (P): load of an expert that a slot takes */
    double *rank_load;    /* shape (R) */
    double level;         /* see above */
    double slack;         /* loads that differ by less are equal */
    uint32_t *copy_begin; /* shape (E + 2), copies of an expert are [copy_begin, copy_end) of: */
    uint32_t *copy_end;   /* shape (E) */
    uint32_t *copy;       /* shape (P): slots, from 0 in the layer; where a rank has an expert
                           * twice, the first one */
    uint16_t *rank_of;    /* shape (P): of a slot */
    uint32_t
        *given_begin; /* shape (R + 1): slots of a rank whose expert has copies elsewhere are */
    uint32_t *given;  /* shape (P): [.., ..) of these */
    /* Of the search for a path: */
    uint32_t search;     /* number of the search, from 1 */
    uint32_t *seen_rank; /* shape (R): the last search that came here */
    uint32_t *seen;      /* shape (E): the same */
    uint32_t *queue;     /* shape (R) */
    uint32_t *via[2];    /* shape (R): the slot whose load comes here, and the slot it comes to */
} split;

static size_t aligned(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/* Places the arrays of `s` in `room`; returns how many bytes they take. room NULL: only that. */
static size_t place_arrays(split *s, uint32_t slots, char *room)
{
    const struct {
        void *at;
        size_t bytes;
    } arrays[] = {
        {&s->amount, slots * sizeof *s->amount},
        {&s->rank_load, s->ranks * sizeof *s->rank_load},
        {&s->copy_begin, ((size_t)s->experts + 2) * sizeof *s->copy_begin},
        {&s->copy_end, s->experts * sizeof *s->copy_end},
        {&s->copy, slots * sizeof *s->copy},
        {&s->rank_of, slots * sizeof *s->rank_of},
        {&s->given_begin, ((size_t)s->ranks + 1) * sizeof *s->given_begin},
        {&s->given, slots * sizeof *s->given},
        {&s->seen_rank, s->ranks * sizeof *s->seen_rank},
        {&s->seen, s->experts * sizeof *s->seen},
        {&s->queue, s->ranks * sizeof *s->queue},
        {&s->via[0], s->ranks * sizeof *s->via[0]},
        {&s->via[1], s->ranks * sizeof *s->via[1]},
    };
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (room != NULL)
            memcpy(arrays[i].at, &(char *){room + bytes}, sizeof(char *));
        bytes += aligned(arrays[i].bytes);
    }
    return bytes;
}

size_t orr_experts_split_room(const orr_expert_placement *placement)
{
    split s = {.ranks = placement->ranks, .experts = placement->experts};
    uint32_t most = 0;
    for (uint32_t l = 0; l < placement->layers; l++) {
        const uint32_t n = orr_placement_first(placement, l, placement->ranks) -
                           orr_placement_first(placement, l, 0);
        most = n > most ? n : most;
    }
    return place_arrays(&s, most, NULL);
}

/* --- the graph -------------------------------------------------------------------------------- */

/* Copies by expert. */
static void list_copies(split *s, uint32_t slots)
{
    const uint16_t *expert = s->placement->expert + s->first;
    uint32_t *begin = s->copy_begin;
    memset(begin, 0, ((size_t)s->experts + 2) * sizeof *begin);
    for (uint32_t i = 0; i < slots; i++)
        begin[expert[i] + 1]++;
    for (uint32_t e = 0; e < s->experts; e++) {
        begin[e + 1] += begin[e];
        s->copy_end[e] = begin[e];
    }
    for (uint32_t r = 0, i = 0; r < s->ranks; r++)
        for (const uint32_t last = orr_placement_first(s->placement, s->layer, r + 1) - s->first;
             i < last; i++) {
            uint32_t *end = &s->copy_end[expert[i]];
            s->rank_of[i] = (uint16_t)r;
            s->amount[i] = 0;
            if (*end == begin[expert[i]] || s->rank_of[s->copy[*end - 1]] != r)
                s->copy[(*end)++] = i;
        }
}

/* Slots with copies elsewhere by rank, and the loads that ranks have of experts with one copy. */
static void list_given(split *s)
{
    const uint16_t *expert = s->placement->expert + s->first;
    uint32_t n = 0;
    for (uint32_t r = 0, i = 0; r < s->ranks; r++) {
        s->given_begin[r] = n;
        s->rank_load[r] = 0;
        for (const uint32_t last = orr_placement_first(s->placement, s->layer, r + 1) - s->first;
             i < last; i++) {
            const uint32_t e = expert[i], first = s->copy[s->copy_begin[e]];
            if (s->copy_end[e] - s->copy_begin[e] > 1 && s->load[e] > 0)
                s->given[n++] = i;
            else if (i == first)
                s->rank_load[r] += s->load[e];
        }
    }
    s->given_begin[s->ranks] = n;
}

/* Each copy begins with its rank's own part of the expert's tokens, which need not leave it then:
 * of shares that level ranks alike, those near to these are found. */
static void keep_own(split *s, uint32_t e, double own)
{
    for (uint32_t c = s->copy_begin[e]; c < s->copy_end[e]; c++) {
        s->amount[s->copy[c]] = own;
        s->rank_load[s->rank_of[s->copy[c]]] += own;
    }
}

/* Pours `load` of an expert over its copies as water: into the ranks that have least. Levels are
 * the sooner found for it. */
static void pour(split *s, uint32_t e, double load)
{
    uint32_t *copy = s->copy + s->copy_begin[e];
    const uint32_t n = s->copy_end[e] - s->copy_begin[e];
    for (uint32_t i = 1; i < n; i++) { /* by the load of their ranks */
        const uint32_t moved = copy[i];
        const double beside = s->rank_load[s->rank_of[moved]];
        uint32_t at = i;
        for (; at > 0 && s->rank_load[s->rank_of[copy[at - 1]]] > beside; at--)
            copy[at] = copy[at - 1];
        copy[at] = moved;
    }
    double sum = load, surface = 0;
    uint32_t wet = 0;
    while (wet < n) {
        const double here = s->rank_load[s->rank_of[copy[wet]]];
        if (wet > 0 && here >= surface)
            break;
        sum += here;
        surface = sum / ++wet;
    }
    for (uint32_t i = 0; i < n; i++) {
        double *rank = &s->rank_load[s->rank_of[copy[i]]];
        const double part = i < wet ? fmax(surface - *rank, 0) : 0;
        s->amount[copy[i]] += part;
        *rank += part;
    }
}

/* --- maximum flow ----------------------------------------------------------------------------- */

/* The nearest rank below the level that load of `from` can come to; UINT32_MAX: none, and the
 * `ret_reached` first ranks of the queue are all that it can come to. */
static uint32_t find_path(split *s, uint32_t from, uint32_t *ret_reached)
{
    const uint16_t *expert = s->placement->expert + s->first;
    uint32_t n = 0;
    s->search++;
    s->seen_rank[from] = s->search;
    s->queue[n++] = from;
    for (uint32_t head = 0; head < n; head++) {
        const uint32_t r = s->queue[head];
        for (uint32_t g = s->given_begin[r]; g < s->given_begin[r + 1]; g++) {
            const uint32_t slot = s->given[g], e = expert[slot];
            if (s->amount[slot] <= 0 || s->seen[e] == s->search)
                continue;
            s->seen[e] = s->search;
            for (uint32_t c = s->copy_begin[e]; c < s->copy_end[e]; c++) {
                const uint32_t to = s->rank_of[s->copy[c]];
                if (s->seen_rank[to] == s->search)
                    continue;
                s->seen_rank[to] = s->search;
                s->via[0][to] = slot;
                s->via[1][to] = s->copy[c];
                if (s->rank_load[to] < s->level - s->slack / (2 * s->ranks))
                    return to;
                s->queue[n++] = to;
            }
        }
    }
    *ret_reached = n;
    return UINT32_MAX;
}

/* Moves as much as can be from one end of the path that was found to the other. */
static void push(split *s, uint32_t from, uint32_t to)
{
    double most = fmin(s->rank_load[from] - s->level, s->level - s->rank_load[to]);
    for (uint32_t r = to; r != from; r = s->rank_of[s->via[0][r]])
        most = fmin(most, s->amount[s->via[0][r]]);
    for (uint32_t r = to; r != from; r = s->rank_of[s->via[0][r]]) {
        s->amount[s->via[0][r]] -= most;
        s->amount[s->via[1][r]] += most;
    }
    s->rank_load[from] -= most;
    s->rank_load[to] += most;
}

static void raise_level(split *s, uint32_t reached)
{
    double sum = 0;
    for (uint32_t i = 0; i < reached; i++)
        sum += s->rank_load[s->queue[i]];
    s->level = fmax(s->level, sum / reached);
}

/* Levels rank after rank. One that is level stays so: it only receives while below the level, and
 * that never falls. Where there is no path the ranks reached are on average above the level by more
 * than slack / (2 R), or `from` would not be above it by `slack`; and once the level is their
 * average, one of them is below it by that much: so rounding cannot keep this from ending. */
static void level_ranks(split *s)
{
    for (uint32_t r = 0; r < s->ranks; r++)
        while (s->rank_load[r] > s->level + s->slack) {
            uint32_t reached = 0;
            const uint32_t to = find_path(s, r, &reached);
            if (to != UINT32_MAX)
                push(s, r, to);
            else
                raise_level(s, reached);
        }
}

/* Amounts over their sum, not over the load: of loads that are nothing beside those of the ranks,
 * amounts are differences that rounding has made. */
static void write_shares(const split *s, uint32_t slots, float *ret)
{
    memset(ret, 0, slots * sizeof *ret);
    for (uint32_t e = 0; e < s->experts; e++) {
        const uint32_t *copy = s->copy + s->copy_begin[e];
        const uint32_t n = s->copy_end[e] - s->copy_begin[e];
        double sum = 0;
        for (uint32_t c = 0; c < n; c++)
            sum += s->amount[copy[c]];
        for (uint32_t c = 0; c < n; c++)
            ret[copy[c]] = sum > 0 && n > 1 ? (float)(s->amount[copy[c]] / sum) : 1 / (float)n;
    }
}

/* `keeps`: copies begin with their ranks' own parts. */
static double split_layer(const orr_expert_placement *placement, uint32_t layer, const double *load,
                          bool keeps, void *room, float *ret_share)
{
    static const double SLACK_FRAC = 1e-7; /* of the mean: what shares as floats can tell */
    split s = {.placement = placement,
               .layer = layer,
               .first = orr_placement_first(placement, layer, 0),
               .ranks = placement->ranks,
               .experts = placement->experts,
               .load = load};
    const uint32_t slots = orr_placement_first(placement, layer, s.ranks) - s.first;
    double sum = 0;
    place_arrays(&s, slots, room);
    list_copies(&s, slots);
    list_given(&s);
    const uint32_t holders = orr_placement_holders(placement, layer, 0, s.ranks);
    for (uint32_t e = 0; e < s.experts && keeps; e++)
        if (load[e] > 0 && s.copy_end[e] - s.copy_begin[e] > 1)
            keep_own(&s, e, load[e] / holders);
    for (uint32_t e = 0; e < s.experts; e++) {
        const uint32_t n = s.copy_end[e] - s.copy_begin[e];
        if (load[e] > 0 && n > 1)
            pour(&s, e, keeps ? load[e] / holders * (holders - n) : load[e]);
    }
    for (uint32_t r = 0; r < s.ranks; r++)
        sum += s.rank_load[r];
    if (sum > 0) {
        s.level = sum / holders;
        s.slack = SLACK_FRAC * s.level;
        memset(s.seen_rank, 0, s.ranks * sizeof *s.seen_rank);
        memset(s.seen, 0, s.experts * sizeof *s.seen);
        level_ranks(&s);
    }
    write_shares(&s, slots, ret_share);
    return orr_loads_imbalance(s.rank_load, s.ranks, orr_placement_live_ranks(placement));
}

double orr_experts_split(const orr_expert_placement *placement, uint32_t layer, const double *load,
                         void *room, float *ret_share)
{
    return split_layer(placement, layer, load, false, room, ret_share);
}

/* share: shape (slots). */
static orr_status split_all(const orr_expert_placement *p, const double *load, bool keeps,
                            float *share, orr_error *err)
{
    void *room = orr_malloc(orr_experts_split_room(p));
    if (room == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < p->layers; l++)
        (void)split_layer(p, l, load + (size_t)l * p->experts, keeps, room,
                          share + orr_placement_first(p, l, 0));
    orr_free(room);
    return ORR_OK;
}

orr_status orr_placement_split_shares(orr_placement_draft *draft, const double *load,
                                      orr_error *err)
{
    return split_all(&draft->placement, load, false, draft->share, err);
}

orr_status orr_placement_level(orr_expert_placement *placement, const double *load,
                               orr_arena *arena, orr_error *err)
{
    float *share = orr_arena_array(arena, float, orr_expert_placement_slots(placement));
    if (share == NULL)
        return orr_fail_memory(err);
    ORR_TRY(split_all(placement, load, true, share, err));
    placement->share = share;
    return ORR_OK;
}
