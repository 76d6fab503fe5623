/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "experts/moves/layer_state.h"

/* Changes of a layer, the one that brings most for each copy moved first. There are two kinds:
 * experts of two ranks are exchanged, and a copy gives its slot to another expert. What a change
 * brings is first told from the loads of ranks as they are split now, in a few operations; the few
 * best are then split anew. */

enum { NONE = UINT32_MAX, MOST_CHANGES = 1024 };
enum { EXCHANGE, COPY, KINDS };
enum { TRIED = 32, TRIED_FIRST = 6 }; /* of each kind; the others if none of the first is good */

/* Slot `a` and slot `b` exchange their experts; or, where b is NONE, `a` takes `expert`. */
typedef struct change {
    uint32_t a, b, expert;
    double gain; /* ns for each copy moved, as estimated */
} change;

typedef struct search {
    orr_layer_state *s;
    bool within_hosts;
    double cost, weighed; /* of the layer; with what ranks have above `level`, see weigh() */
    double level;         /* rows of a rank that are not too many */
    uint32_t moved;
    bool *tight; /* shape (R), of ranks as full as the fullest: */
    uint32_t n_tight;
    double tight_sum; /* their loads */
    double *falls;    /* shape (P): rows that fall on tight ranks if a copy goes */
    change best[KINDS][TRIED];
    uint32_t n_best[KINDS];
} search;

static void find_tight(search *f)
{
    orr_layer_state *s = f->s;
    f->n_tight = 0;
    f->tight_sum = 0;
    for (uint32_t r = 0; r < s->layer.ranks; r++) {
        f->tight[r] = s->rank_load[r] >= s->fullest * (1 - 1e-5);
        f->n_tight += f->tight[r];
        f->tight_sum += f->tight[r] ? s->rank_load[r] : 0;
    }
}

/* Keeps the best changes of their kind, in order. */
static void offer(search *f, int kind, change c)
{
    change *best = f->best[kind];
    uint32_t *n = &f->n_best[kind], at;
    if (*n == TRIED && c.gain <= best[TRIED - 1].gain)
        return;
    at = *n < TRIED ? (*n)++ : TRIED - 1;
    for (; at > 0 && best[at - 1].gain < c.gain; at--)
        best[at] = best[at - 1];
    best[at] = c;
}

static double amount(const orr_layer_state *s, uint32_t slot)
{
    return s->load[s->expert[slot]] * (double)s->share[slot];
}

static bool is_apart(const search *f, uint32_t rank, uint32_t other)
{
    const uint32_t host_ranks = f->s->layer.host_ranks;
    return f->within_hosts && rank / host_ranks != other / host_ranks;
}

/* --- estimates -------------------------------------------------------------------------------- */

/* The fullest rank after `rows` went from one rank to another. Ranks that are as full as the
 * fullest share what one of them is rid of, as far as copies reach. */
static double fullest_after(const search *f, uint32_t from, uint32_t to, double rows)
{
    const orr_layer_state *s = f->s;
    if (rows < 0)
        return fullest_after(f, to, from, -rows);
    const double grown = s->rank_load[to] + rows;
    if (f->tight[from] && !f->tight[to])
        return fmax((f->tight_sum - rows) / f->n_tight, grown);
    return fmax(s->fullest, grown);
}

static void offer_exchange(search *f, uint32_t a, uint32_t b)
{
    const orr_layer_state *s = f->s;
    const uint32_t x = s->expert[a], y = s->expert[b], from = s->rank[a], to = s->rank[b];
    /* Copies save less than the first one does, which the estimate of links does not know. */
    if (s->links != NULL && (s->copies[x] > 1 || s->copies[y] > 1))
        return;
    const double rows = amount(s, a) - amount(s, b);
    double gain = (s->fullest - fullest_after(f, from, to, rows)) * s->row_ns;
    if (s->links != NULL)
        gain += orr_layer_copy_saves(s, x, to) - orr_layer_copy_saved(s, a) +
                orr_layer_copy_saves(s, y, from) - orr_layer_copy_saved(s, b);
    if (gain > 0 && !is_apart(f, from, to) && !orr_layer_has(s, to, x) &&
        !orr_layer_has(s, from, y))
        offer(f, EXCHANGE, (change){.a = a, .b = b, .gain = gain / 2});
}

/* Whether all copies of the expert of a slot but that one are on ranks as full as the fullest. */
static bool falls_on_tight(const search *f, uint32_t slot)
{
    const orr_layer_state *s = f->s;
    for (uint32_t i = 0; i < s->slots; i++)
        if (i != slot && s->expert[i] == s->expert[slot] && !f->tight[s->rank[i]])
            return false;
    return true;
}

/* The slot of a copy, given to another expert of which `rows` are on the fullest ranks. `falls`: of
 * the rows of the copy that goes, those that fall on the fullest ranks. */
static void offer_copy(search *f, uint32_t slot, uint32_t expert, double rows, double falls)
{
    const orr_layer_state *s = f->s;
    const uint32_t rank = s->rank[slot];
    const double base = s->rank_load[rank] - amount(s, slot), sum = f->tight_sum + falls;
    const double level =
        f->tight[rank]
            ? s->fullest
            : fmax(fmax((sum + base) / (f->n_tight + 1), (sum - rows) / f->n_tight), base);
    const double gain = (s->fullest - level) * s->row_ns + orr_layer_copy_saves(s, expert, rank) -
                        orr_layer_copy_saved(s, slot);
    if (gain > 0 && !orr_layer_has(s, rank, expert))
        offer(f, COPY, (change){.a = slot, .b = NONE, .expert = expert, .gain = gain});
}

static void offer_exchanges(search *f)
{
    const orr_layer_state *s = f->s;
    for (uint32_t a = 0; a < s->slots; a++) {
        /* By load alone nothing but the fullest ranks matters. */
        if (s->links == NULL && !f->tight[s->rank[a]])
            continue;
        for (uint32_t b = s->links == NULL ? 0 : a + 1; b < s->slots; b++)
            if (s->rank[a] != s->rank[b] && (s->links != NULL || !f->tight[s->rank[b]]))
                offer_exchange(f, a, b);
    }
}

/* Rows of an expert on the fullest ranks; ret_host: the host of all its copies, NONE: several. */
static double tight_rows(const search *f, uint32_t expert, uint32_t *ret_host)
{
    const orr_layer_state *s = f->s;
    double rows = 0;
    bool any = false;
    *ret_host = NONE;
    for (uint32_t i = 0; i < s->slots; i++)
        if (s->expert[i] == expert) {
            const uint32_t host = s->rank[i] / s->layer.host_ranks;
            rows += f->tight[s->rank[i]] ? amount(s, i) : 0;
            *ret_host = !any || *ret_host == host ? host : NONE;
            any = true;
        }
    return rows;
}

static void offer_copies(search *f)
{
    const orr_layer_state *s = f->s;
    for (uint32_t i = 0; i < s->slots; i++)
        f->falls[i] = s->copies[s->expert[i]] > 1 && falls_on_tight(f, i) ? amount(s, i) : 0;
    for (uint32_t e = 0; e < s->layer.experts; e++) {
        uint32_t host;
        const double rows = tight_rows(f, e, &host);
        if (s->copies[e] == 0 || (rows <= 0 && s->links == NULL))
            continue;
        for (uint32_t i = 0; i < s->slots; i++)
            if (s->copies[s->expert[i]] > 1 && s->expert[i] != e &&
                (!f->within_hosts || s->rank[i] / s->layer.host_ranks == host))
                offer_copy(f, i, e, rows, f->falls[i]);
    }
}

/* --- changes ---------------------------------------------------------------------------------- */

/* Makes a change, or takes it back: it is its own inverse, with `a`'s expert remembered. */
static void swap_in(orr_layer_state *s, change *c)
{
    uint16_t *a = &s->expert[c->a];
    const uint16_t was = *a;
    if (c->b != NONE) {
        *a = s->expert[c->b];
        s->expert[c->b] = was;
    } else {
        *a = (uint16_t)c->expert;
        c->expert = was;
    }
}

/* The cost of the layer, and a part of what its ranks have above the level together: where two
 * that no copies connect are equally full, none of them is worth a change for the fullest alone. */
static double weigh(search *f)
{
    static const double PART = 0.1;
    const orr_layer_state *s = f->s;
    double above = 0;
    f->cost = orr_layer_measure(f->s);
    for (uint32_t r = 0; r < s->layer.ranks; r++)
        above += fmax(s->rank_load[r] - f->level, 0);
    return f->cost + PART * above * s->row_ns;
}

/* Tries changes [begin, end) of each kind; the best one for each copy moved, NULL: none brings
 * `*least`, which is raised to what it brings. */
static change *try_changes(search *f, uint32_t begin, uint32_t end, double *least)
{
    orr_layer_state *s = f->s;
    change *ret = NULL;
    for (int kind = 0; kind < KINDS; kind++)
        for (uint32_t i = begin; i < end && i < f->n_best[kind]; i++) {
            change *c = &f->best[kind][i];
            swap_in(s, c);
            const double gain = f->weighed - weigh(f);
            const double more = (double)orr_layer_moved(s) - f->moved;
            swap_in(s, c);
            /* Copies that come back to where they run cost nothing. */
            const double each = gain / fmax(more, 0.5);
            if (gain > 0 && each > *least) {
                *least = each;
                ret = c;
            }
        }
    return ret;
}

/* Makes the best change of those offered; false: none brings enough. */
static bool make_best(search *f, double least_gain_ns)
{
    double least = fmax(least_gain_ns, f->weighed * 1e-9);
    change *chosen = try_changes(f, 0, TRIED_FIRST, &least);
    if (chosen == NULL)
        chosen = try_changes(f, TRIED_FIRST, TRIED, &least);
    if (chosen != NULL)
        swap_in(f->s, chosen);
    f->weighed = weigh(f);
    f->moved = orr_layer_moved(f->s);
    return chosen != NULL;
}

double orr_layer_search(orr_layer_state *state, double target, double level, double least_gain_ns,
                        bool within_hosts)
{
    search f = {.s = state,
                .within_hosts = within_hosts,
                .level = level,
                .tight = state->tight,
                .falls = state->falls};
    f.weighed = weigh(&f);
    f.moved = orr_layer_moved(state);
    for (uint32_t i = 0; i < MOST_CHANGES && f.cost > target; i++) {
        find_tight(&f);
        f.n_best[EXCHANGE] = f.n_best[COPY] = 0;
        offer_exchanges(&f);
        offer_copies(&f);
        if (!make_best(&f, least_gain_ns))
            break;
    }
    return f.cost;
}
