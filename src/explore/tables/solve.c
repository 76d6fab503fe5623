/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/tables/solve.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"

/* The search: candidates are chosen by the price of the relaxation, packed, and improved; with
 * several limits of the largest shard, since finer shards cost more in all but pack better. */

#define HEAVY_FRAC 0.003 /* of a rank's memory, in one shard: assumed */
enum { REMOVED = 6, MOST_ROUNDS = 1500, LEAST_ROUNDS = 10 };
#define ROUNDS_TIMES_SIZE 4e6 /* fewer rounds of large problems: their plans are near the bound */

typedef struct searcher {
    const orr_table_problem *p;
    const orr_table_bound *bound;
    orr_table_placer placer;
    orr_table_assignment trial, spare, best;
    double best_ns;
    uint32_t *choice, *order;
    uint32_t heavy; /* tables at the front of the order, which are placed by their memory, too */
    struct sized {
        double key;
        uint32_t table;
    } * sized;
    orr_table_budget budget;
    orr_error *err;
} searcher;

static int by_key_descending(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key) - (x->key > y->key)
                            : (x->table > y->table) - (x->table < y->table);
}

/* Tables in the order in which they are packed: with a limit of memory those that take a fair
 * part of a rank's first, by that part; others by the time of their largest shard. */
static void sort_tables(searcher *s, bool by_memory)
{
    const orr_table_problem *p = s->p;
    s->heavy = 0;
    for (uint32_t t = 0; t < p->n; t++) {
        const orr_table_candidate *c = &p->candidates[s->choice[t]];
        const double part = c->largest_bytes / p->capacity;
        const bool heavy = by_memory && part > HEAVY_FRAC;
        s->sized[t] = (struct sized){heavy ? 1e30 * part : c->largest_ns, t};
        s->heavy += heavy;
    }
    qsort(s->sized, p->n, sizeof *s->sized, by_key_descending);
    for (uint32_t i = 0; i < p->n; i++)
        s->order[i] = s->sized[i].table;
}

/* The cheapest candidates whose shards take at most `largest_ns` and `largest_bytes`; where a table
 * has none, that of the smallest shards. */
static void choose(searcher *s, double largest_ns, double largest_bytes, double ns_per_byte)
{
    const orr_table_problem *p = s->p;
    for (uint32_t t = 0; t < p->n; t++) {
        double least = INFINITY, smallest = INFINITY;
        uint32_t best = UINT32_MAX, small = p->first[t];
        for (uint32_t k = p->first[t]; k < p->first[t + 1]; k++) {
            const orr_table_candidate *c = &p->candidates[k];
            const double price = orr_table_mean_ns(p, c) + ns_per_byte * orr_table_mean_bytes(p, c);
            const double size = fmax(c->largest_ns / largest_ns, c->largest_bytes / largest_bytes);
            if (size <= 1 && price < least) {
                least = price;
                best = k;
            }
            if (size < smallest) {
                smallest = size;
                small = k;
            }
        }
        s->choice[t] = best != UINT32_MAX ? best : small;
    }
}

static void keep_better(searcher *s)
{
    const double ns = orr_table_assignment_ns(s->p, &s->trial);
    if (ns < s->best_ns) {
        s->best_ns = ns;
        orr_table_assignment_copy(s->p, &s->trial, &s->best);
    }
}

static double enough(const searcher *s)
{
    return s->bound->ns * (1 + s->p->o->gap_frac);
}

static orr_status improve(searcher *s)
{
    ORR_TRY(orr_table_improve(s->p, &s->placer, enough(s), &s->budget, &s->trial, s->err));
    keep_better(s);
    return ORR_OK;
}

/* One start: limits of the largest shard, as shares of the bound and of a rank's memory, the price
 * of memory times a factor, and whether memory counts in packing. */
typedef struct start {
    double time_share, memory_share, price_factor;
    bool by_memory;
} start;

static orr_status try_start(searcher *s, const start *from)
{
    const orr_table_problem *p = s->p;
    const double busy_ns = fmax(s->bound->ns - p->least_shared_ns, s->bound->ns * 1e-3);
    double ns_per_byte;
    (void)orr_table_relaxation(p, s->bound->ns * (1 + 1e-6), &ns_per_byte);
    choose(s, from->time_share * busy_ns, from->memory_share * p->capacity,
           ns_per_byte * from->price_factor);
    sort_tables(s, from->by_memory);
    if (!orr_table_pack(p, s->choice, &s->placer, s->order, s->heavy, busy_ns, &s->trial))
        return ORR_OK;
    if (!from->by_memory)
        (void)orr_table_difference(p, &s->trial, &s->spare);
    return improve(s);
}

/* The first plan is made whatever the time: without one nothing could be told from a refusal. */
static bool is_done(const searcher *s)
{
    return s->best_ns <= enough(s) ||
           (s->best_ns < INFINITY && orr_table_budget_is_over(&s->budget));
}

/* Plans that take the least memory that there can be: what is left when no priced choice packs. */
static orr_status start_smallest(searcher *s)
{
    const orr_table_problem *p = s->p;
    for (uint32_t t = 0; t < p->n; t++) {
        double least = INFINITY;
        for (uint32_t k = p->first[t]; k < p->first[t + 1]; k++) {
            const orr_table_candidate *c = &p->candidates[k];
            const double bytes = orr_table_mean_bytes(p, c) + 1e-3 * c->largest_bytes;
            if (bytes < least) {
                least = bytes;
                s->choice[t] = k;
            }
        }
    }
    sort_tables(s, true);
    return orr_table_pack(p, s->choice, &s->placer, s->order, p->n, INFINITY, &s->trial)
               ? improve(s)
               : ORR_OK;
}

static bool is_removed(const searcher *s, uint32_t table)
{
    return s->trial.choice[table] == ORR_TABLE_UNPLACED;
}

/* Removes tables of the busiest rank, and as many others at random. */
static uint32_t remove_some(searcher *s, orr_random *random, uint32_t *removed)
{
    const orr_table_problem *p = s->p;
    uint32_t busiest = 0, n = 0;
    for (uint32_t r = 1; r < p->ranks; r++)
        if (s->trial.load[r] > s->trial.load[busiest])
            busiest = r;
    for (uint32_t t = 0; t < p->n && n < REMOVED / 2; t++) {
        const uint32_t *ranks = orr_table_ranks_of(p, &s->trial, t);
        bool there = false;
        for (uint32_t i = 0; i < p->candidates[s->trial.choice[t]].n && !there; i++)
            there = ranks[i] == busiest;
        if (there && orr_random_below(random, 2) == 0)
            removed[n++] = t;
    }
    for (uint32_t i = 0; i < n; i++)
        orr_table_remove(p, &s->trial, removed[i]);
    for (const uint32_t most = 2 * n + 1; n < most;) {
        const uint32_t t = (uint32_t)orr_random_below(random, p->n);
        if (is_removed(s, t))
            break;
        orr_table_remove(p, &s->trial, t);
        removed[n++] = t;
    }
    return n;
}

/* Puts a removed table back with the candidate that leaves the step shortest, of the first few: how
 * many is drawn, so that rounds differ. */
static bool put_back(searcher *s, orr_random *random, uint32_t table)
{
    const orr_table_problem *p = s->p;
    const uint32_t first = p->first[table], n = p->first[table + 1] - first;
    uint32_t best = first + (uint32_t)orr_random_below(random, n);
    double least = INFINITY;
    for (uint32_t k = first; orr_random_below(random, 4) != 0 && k < first + n; k++) {
        if (orr_random_below(random, 2) == 0 ||
            !orr_table_place(p, &s->trial, &s->placer, table, k))
            continue;
        double most = 0;
        for (uint32_t r = 0; r < p->ranks; r++)
            most = fmax(most, s->trial.load[r]);
        /* What is not the busiest rank's counts a little: it is in the way of others. */
        const double ns = most + s->trial.shared_ns + orr_table_mean_ns(p, &p->candidates[k]);
        if (ns < least) {
            least = ns;
            best = k;
        }
        orr_table_remove(p, &s->trial, table);
    }
    return orr_table_place(p, &s->trial, &s->placer, table, best);
}

/* Large neighbourhood search (Shaw, CP 1998): some tables of the best plan are removed, put back,
 * and the whole is improved. */
static orr_status search_neighbourhood(searcher *s)
{
    orr_random random = orr_random_of(s->p->o->seed, 0);
    uint32_t removed[2 * REMOVED];
    const double size = (double)s->p->n * s->p->ranks;
    const double rounds = fmin(MOST_ROUNDS, fmax(LEAST_ROUNDS, ROUNDS_TIMES_SIZE / size));
    for (uint32_t round = 0; round < rounds && s->best_ns < INFINITY && !is_done(s); round++) {
        bool placed = true;
        orr_table_assignment_copy(s->p, &s->best, &s->trial);
        const uint32_t n = remove_some(s, &random, removed);
        for (uint32_t i = n; i > 0 && placed; i--)
            placed = put_back(s, &random, removed[i - 1]);
        if (placed)
            ORR_TRY(improve(s));
    }
    return ORR_OK;
}

static orr_status search(searcher *s)
{
    static const double time_shares[] = {1, 0.5, 0.25, 0.7, 0.35, 0.15};
    static const double memory_shares[] = {1, 0.5, 0.7, 0.35, 0.25, 0.12};
    static const double factors[] = {1, 1.3, 3};
    const bool limited = s->p->capacity < INFINITY;
    const size_t n_memory = limited ? sizeof memory_shares / sizeof *memory_shares : 1;
    const size_t n_factors = limited ? sizeof factors / sizeof *factors : 1;
    for (size_t f = 0; f < n_factors && (f == 0 || !(s->best_ns < INFINITY)); f++)
        for (size_t i = 0; i < sizeof time_shares / sizeof *time_shares; i++)
            for (size_t m = 0; m < n_memory; m++)
                for (int by_memory = 0; by_memory <= limited; by_memory++) {
                    const start from = {time_shares[i], memory_shares[m], factors[f],
                                        by_memory != 0};
                    if (is_done(s))
                        return ORR_OK;
                    ORR_TRY(try_start(s, &from));
                }
    if (!(s->best_ns < INFINITY))
        ORR_TRY(start_smallest(s));
    return search_neighbourhood(s);
}

orr_status orr_table_solve(const orr_table_problem *p, const orr_table_bound *bound,
                           orr_arena *arena, orr_table_solution *ret, orr_error *err)
{
    const int64_t now = orr_clock_now_ns(&orr_clock_monotonic);
    searcher s = {.p = p,
                  .bound = bound,
                  .best_ns = INFINITY,
                  .choice = orr_arena_array(arena, uint32_t, p->n),
                  .order = orr_arena_array(arena, uint32_t, p->n),
                  .sized = orr_arena_array(arena, struct sized, p->n),
                  .budget = {.until_ns = p->o->limit_ns > 0 ? now + p->o->limit_ns : INT64_MAX,
                             .stop = p->o->stop},
                  .err = err};
    if (s.choice == NULL || s.order == NULL || s.sized == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_table_placer_make(p, arena, &s.placer, err));
    ORR_TRY(orr_table_assignment_make(p, arena, &s.trial, err));
    ORR_TRY(orr_table_assignment_make(p, arena, &s.spare, err));
    ORR_TRY(orr_table_assignment_make(p, arena, &s.best, err));
    ORR_TRY(search(&s));
    bool optimal = false;
    if (s.best_ns > enough(&s))
        ORR_TRY(orr_table_branch(p, &s.budget, arena, &s.best, &optimal, err));
    if (s.best_ns < INFINITY) {
        const double ns = orr_table_assignment_ns(p, &s.best);
        ORR_TRY(orr_table_balance(p, optimal ? ns : fmax(ns, bound->ns * (1 + p->o->balance_frac)),
                                  &s.budget, &s.best, err));
    }
    *ret = (orr_table_solution){.assignment = s.best,
                                .ns = orr_table_assignment_ns(p, &s.best),
                                .optimal = optimal,
                                .budget = s.budget};
    return ORR_OK;
}
