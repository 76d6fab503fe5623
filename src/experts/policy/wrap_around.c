/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/wrap_around.h"

#include <math.h>

#include <orrery/experts.h>

#include "experts/policy/keys.h"

/* Relative load that counts as equal. */
#define TOLERANCE 1e-9
/* A rank is closed by an expert that leaves no more than this many times the load that a closed
 * rank can lack on average. */
#define PATIENCE 2.0

enum { WORD_BITS = 64, WORDS = ORR_EXPERTS_MAX / WORD_BITS };

/* The bin of a load, from that of the largest on: 32 for a factor of 2, by the bits of a float. */
static uint32_t bin_of(const orr_wrap_experts *w, double load)
{
    enum { SHIFT = 18 }; /* of the 23 bits of a float's fraction */
    const uint32_t bits = orr_key_bits((float)load) >> SHIFT, top = w->top >> SHIFT;
    const uint32_t bin = bits < top ? top - bits : 0;
    return bin < ORR_WRAP_BINS - 1 ? bin : ORR_WRAP_BINS - 1;
}

void orr_wrap_experts_set(orr_wrap_experts *w, const double *load, const uint64_t *order,
                          uint32_t n)
{
    uint32_t bin = 0;
    w->order = order;
    w->n = n;
    w->load = 0;
    w->top = n > 0 ? orr_key_bits((float)load[(uint32_t)order[0]] + 0.0F) : 0;
    for (uint32_t i = 0; i < n; i++) {
        w->size[i] = load[(uint32_t)order[i]];
        w->load += w->size[i];
        for (const uint32_t last = bin_of(w, w->size[i]); bin <= last; bin++)
            w->start[bin] = (uint16_t)i;
    }
    for (; bin < ORR_WRAP_BINS; bin++)
        w->start[bin] = (uint16_t)n;
}

/* Experts that have no rank yet, by their places in the order of descending load. */
typedef struct wrap {
    orr_packing *packing;
    const orr_wrap_experts *experts;
    const double *size; /* those of `experts` */
    uint32_t n;
    uint32_t left;                 /* experts without a rank */
    uint32_t slots, ranks;         /* of the ranks that come after this one */
    double limit, per_limit, load; /* load: of all experts that are not on a rank */
    uint32_t carried;              /* the expert that begins the next rank; UINT32_MAX: none */
    double rest;                   /* its load */
    uint32_t here;                 /* slots of this rank */
    uint32_t tried;                /* experts before it have been tried to begin a rank with */
    double needed, closed;         /* ranks that must begin and end without a cut, and that do */
    uint32_t n_large;              /* experts larger than a rank that are left */
    uint32_t cuts;                 /* the fewest cuts that they need */
    double large;                  /* their load */
    uint64_t *turn;                /* of `experts`: they, in the order in which they are cut */
    uint32_t turns, n_turns;
    uint64_t word[WORDS], any; /* bit i: the expert at i is left; bit w: word w has some */
} wrap;

static uint32_t next_from(const wrap *s, uint32_t at)
{
    const uint32_t w = at / WORD_BITS;
    const uint64_t here = s->word[w] & ~UINT64_C(0) << at % WORD_BITS;
    if (here != 0)
        return w * WORD_BITS + (uint32_t)__builtin_ctzll(here);
    const uint64_t later = w + 1 < WORDS ? s->any & ~UINT64_C(0) << (w + 1) : 0;
    if (later == 0)
        return UINT32_MAX;
    const uint32_t next = (uint32_t)__builtin_ctzll(later);
    return next * WORD_BITS + (uint32_t)__builtin_ctzll(s->word[next]);
}

static uint32_t smallest(const wrap *s)
{
    const uint32_t w = 63 - (uint32_t)__builtin_clzll(s->any);
    return w * WORD_BITS + 63 - (uint32_t)__builtin_clzll(s->word[w]);
}

/* The largest that is left and at most `room`; UINT32_MAX: none. */
static uint32_t best_fit(const wrap *s, double room)
{
    if (!(room >= 0))
        return UINT32_MAX;
    uint32_t at = s->experts->start[bin_of(s->experts, room)];
    while (at < s->n && s->size[at] > room)
        at++;
    return at < s->n ? next_from(s, at) : UINT32_MAX;
}

/* Slots that the parts of an expert need beyond one. */
static uint32_t cuts_for(const wrap *s, double load)
{
    return load > s->limit ? (uint32_t)(load * s->per_limit - TOLERANCE) : 0;
}

static void take(wrap *s, uint32_t at)
{
    const uint32_t w = at / WORD_BITS;
    s->word[w] &= ~(UINT64_C(1) << at % WORD_BITS);
    if (s->word[w] == 0)
        s->any &= ~(UINT64_C(1) << w);
    s->left--;
    if (s->size[at] > s->limit) {
        s->large -= s->size[at];
        s->cuts -= cuts_for(s, s->size[at]);
        s->n_large--;
    }
}

static void give_back(wrap *s, uint32_t at)
{
    s->word[at / WORD_BITS] |= UINT64_C(1) << at % WORD_BITS;
    s->any |= UINT64_C(1) << at / WORD_BITS;
    s->left++;
    if (s->size[at] > s->limit) {
        s->large += s->size[at];
        s->cuts += cuts_for(s, s->size[at]);
        s->n_large++;
    }
}

/* --- a rank ----------------------------------------------------------------------------------- */

/* Load that a rank which ends without a cut may lack. */
static double most_lack(const wrap *s)
{
    const double lack = s->limit * (s->ranks + 1) - s->load;
    const double closed =
        (double)s->left + (s->carried != UINT32_MAX) + s->ranks + 1 - (s->slots + s->here);
    return closed > 1 ? PATIENCE * lack / closed : 0;
}

static void put(wrap *s, uint32_t rank, uint32_t at, double part)
{
    orr_packing_add(s->packing, rank, (uint16_t)s->experts->order[at], part);
    s->load -= part;
}

/* Takes `n` experts, fewer where none fits and later ranks have slots for it, as even shares of a
 * room in `ranks` ranks alike. Returns their load. */
static double take_evenly(wrap *s, double room, uint32_t ranks, uint32_t *n, uint32_t *ret)
{
    double sum = 0;
    for (uint32_t i = 0; i < *n; i++) {
        const double even = (room - sum) / ((double)(ranks - 1) * *n + *n - i);
        uint32_t at = even > 0 ? best_fit(s, even) : UINT32_MAX;
        if (at == UINT32_MAX) {
            at = smallest(s);
            if (s->size[at] >= s->limit && s->left + 1 <= s->slots) {
                *n = i;
                break;
            }
        }
        ret[i] = at;
        take(s, at);
        sum += s->size[at];
    }
    return sum;
}

/* Fills a rank up to the limit with whole experts, of which the first is the largest that has not
 * been tried. False: nothing closes it. */
static bool close_rank(wrap *s, uint32_t rank)
{
    uint32_t own[ORR_EXPERTS_MAX];
    const uint32_t n = s->here < s->left ? s->here : s->left;
    uint32_t others = n - 1;
    const double most = most_lack(s);
    for (uint32_t at = s->tried; (at = next_from(s, at)) != UINT32_MAX; at++) {
        s->tried = at + 1;
        const bool full = s->size[at] * n >= s->limit - most;
        if ((!full && s->closed >= s->needed) || s->tried == s->n)
            return false;
        own[0] = at;
        take(s, at);
        const double room = s->limit - s->size[at];
        others = n - 1;
        const double sum = take_evenly(s, room, 1, &others, own + 1);
        if (sum <= room && (room - sum <= most || !full)) {
            s->closed++;
            for (uint32_t i = 0; i <= others; i++)
                put(s, rank, own[i], s->size[own[i]]);
            return true;
        }
        for (uint32_t i = 0; i <= others; i++)
            give_back(s, own[i]);
    }
    return false;
}

/* Cuts beyond those that larger experts need, if the rest of the carried one is `rest`. */
static double spare_cuts(const wrap *s, double rest)
{
    return (double)s->slots - s->left - (rest > 0) - s->cuts - cuts_for(s, rest);
}

/* The fewest ranks that an expert of that load can fill together with whole ones, which are left.
 */
static uint32_t least_ranks(const wrap *s, double load)
{
    const uint32_t least = 1 + cuts_for(s, load);
    const double beside = least * s->limit - load;
    return least + (s->left > 0 && s->here > 1 &&
                    beside < least * (s->here - 1) * s->size[smallest(s)] * (1 - TOLERANCE));
}

/* Experts that are larger than a rank begin with those that need the smallest beside them. */
static void sort_large(wrap *s)
{
    for (uint32_t at = 0; (at = next_from(s, at)) != UINT32_MAX && s->size[at] > s->limit; at++) {
        const uint32_t ranks = least_ranks(s, s->size[at]);
        const float beside = (float)(s->limit - s->size[at] / ranks);
        const uint64_t key = orr_key_ascending(beside > 0 ? beside : 0, at);
        uint32_t to = s->n_turns++;
        for (; to > 0 && s->turn[to - 1] > key; to--)
            s->turn[to] = s->turn[to - 1];
        s->turn[to] = key;
    }
}

/* The next expert to begin a rank with: the largest but for those that take turns. */
static uint32_t next_large(wrap *s)
{
    while (s->turns < s->n_turns) {
        const uint32_t at = (uint32_t)s->turn[s->turns++];
        if ((s->word[at / WORD_BITS] >> at % WORD_BITS & 1) != 0)
            return at;
    }
    return next_from(s, 0);
}

/* Ranks over which the carried expert goes: the fewest, and of the spare cuts its share, as long as
 * whole experts fill them. */
static uint32_t ranks_of_carried(const wrap *s)
{
    const double spare = fmax(spare_cuts(s, s->rest) + s->here, 0);
    const double needed = 1 + cuts_for(s, s->rest);
    const double least = fmin(least_ranks(s, s->rest), needed + spare);
    const uint32_t small = best_fit(s, s->limit);
    const double beside = small != UINT32_MAX ? s->size[small] * (s->here - 1) : 0;
    double even = (uint32_t)(needed + spare * s->rest / (s->large + s->rest) + 0.5);
    if (even > least && even * (s->limit - beside) > s->rest)
        even = (uint32_t)(s->rest / (s->limit - beside));
    return (uint32_t)fmax(least, even);
}

/* The last expert of a rank with that much room, which is cut if it is larger. */
static uint32_t choose_last(const wrap *s, double room, bool *ret_cut)
{
    const uint32_t fit = best_fit(s, room), large = next_from(s, 0);
    const double rest = s->size[large] - room;
    *ret_cut = room > TOLERANCE * s->limit && rest > TOLERANCE * s->limit &&
               (fit == UINT32_MAX || room - s->size[fit] > most_lack(s)) && s->slots >= s->left &&
               spare_cuts(s, rest) + 1 + cuts_for(s, s->size[large]) >= 0;
    return *ret_cut ? large : fit != UINT32_MAX ? fit : smallest(s);
}

/* Begins with what is carried, and carries on what passes the limit. */
static void cut_rank(wrap *s, uint32_t rank)
{
    uint32_t own[ORR_EXPERTS_MAX], n = 0;
    if (s->carried == UINT32_MAX) {
        s->carried = next_large(s);
        s->rest = s->size[s->carried];
        take(s, s->carried);
    }
    const uint32_t fresh = s->here - 1 < s->left ? s->here - 1 : s->left;
    const bool large = s->rest > s->limit * (1 + TOLERANCE);
    bool cut_last = false;
    double sum = 0, excess;
    if (large) {
        const uint32_t ranks = ranks_of_carried(s);
        n = fresh;
        sum = take_evenly(s, ranks * s->limit - s->rest, ranks, &n, own);
        excess = s->rest + sum - s->limit;
        if (excess >= s->rest || s->left + 1 > s->slots)
            excess = 0;
    } else {
        const double room = s->limit - s->rest;
        n = fresh > 0 ? fresh - 1 : 0;
        sum = take_evenly(s, room * n / fresh, 1, &n, own);
        if (fresh > 0) {
            own[n] = choose_last(s, room - sum, &cut_last);
            take(s, own[n]);
            sum += s->size[own[n++]];
        }
        excess = cut_last ? s->rest + sum - s->limit : 0;
    }
    put(s, rank, s->carried, s->rest - (cut_last ? 0 : excess));
    for (uint32_t i = 0; i < n; i++)
        put(s, rank, own[i], s->size[own[i]] - (cut_last && i + 1 == n ? excess : 0));
    s->carried = excess <= 0 ? UINT32_MAX : cut_last ? own[n - 1] : s->carried;
    s->rest = excess;
}

/* All experts are left. */
static void begin(wrap *s)
{
    for (uint32_t w = 0; w * WORD_BITS < s->n; w++) {
        const uint32_t left = s->n - w * WORD_BITS;
        s->word[w] = ~UINT64_C(0) >> (left < WORD_BITS ? WORD_BITS - left : 0);
        s->any |= UINT64_C(1) << w;
    }
    for (; s->n_large < s->n && s->size[s->n_large] > s->limit; s->n_large++) {
        s->large += s->size[s->n_large];
        s->cuts += cuts_for(s, s->size[s->n_large]);
    }
    s->left = s->n;
    s->tried = s->n_large;
}

double orr_packing_wrap(orr_packing *k, orr_rank_range range, const orr_wrap_experts *experts,
                        double limit)
{
    wrap s = {.packing = k,
              .experts = experts,
              .size = experts->size,
              .n = experts->n,
              .load = experts->load,
              .limit = limit,
              .per_limit = 1 / limit,
              .turn = experts->turn,
              .carried = UINT32_MAX};
    double most = 0;
    begin(&s);
    for (uint32_t r = range.first; r < range.end; r++) {
        s.slots += k->first[r + 1] - k->first[r];
        s.ranks += k->first[r + 1] > k->first[r];
        k->used[r] = 0;
        k->load[r] = 0;
    }
    s.needed = (double)s.n + s.ranks - s.slots - s.n_large;
    bool close = true;
    for (uint32_t r = range.first; r < range.end; r++) {
        s.here = k->first[r + 1] - k->first[r];
        s.slots -= s.here;
        s.ranks -= s.here > 0;
        if (s.here == 0 || (s.left == 0 && s.carried == UINT32_MAX))
            continue;
        if (close && !(close = close_rank(&s, r)))
            sort_large(&s);
        if (!close)
            cut_rank(&s, r);
        most = k->load[r] > most ? k->load[r] : most;
    }
    return most;
}
