/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/tables/solve.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"

/* The search: candidates are chosen by the price of the relaxation, packed, and improved; with
 * several limits of the largest shard, since finer shards cost more in all but pack better. */

typedef struct searcher {
    const orr_table_problem *p;
    const orr_table_bound *bound;
    orr_table_placer placer;
    orr_table_assignment trial, spare, best;
    double best_ns;
    uint32_t *choice, *order;
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

/* Tables in the order in which they are packed: by their largest shard in time or, against the
 * capacity, in memory. */
static void sort_tables(searcher *s, double target_ns)
{
    const orr_table_problem *p = s->p;
    for (uint32_t t = 0; t < p->n; t++) {
        const orr_table_candidate *c = &p->candidates[s->choice[t]];
        s->sized[t] = (struct sized){c->largest_ns / target_ns, t};
        if (s->placer.load_ns > 0)
            s->sized[t].key = fmax(s->sized[t].key, c->largest_bytes / p->capacity);
    }
    qsort(s->sized, p->n, sizeof *s->sized, by_key_descending);
    for (uint32_t i = 0; i < p->n; i++)
        s->order[i] = s->sized[i].table;
}

/* The cheapest candidates whose shards take at most `largest_ns`; where a table has none, that with
 * the smallest. */
static void choose(searcher *s, double largest_ns, double ns_per_byte)
{
    const orr_table_problem *p = s->p;
    for (uint32_t t = 0; t < p->n; t++) {
        uint32_t best = orr_table_cheapest(p, t, p->least_shared_ns + largest_ns, ns_per_byte);
        double least = INFINITY;
        for (uint32_t k = p->first[t]; best == UINT32_MAX && k < p->first[t + 1]; k++)
            least = fmin(least, p->candidates[k].largest_ns);
        for (uint32_t k = p->first[t]; best == UINT32_MAX; k++)
            if (!(p->candidates[k].largest_ns > least))
                best = k;
        s->choice[t] = best;
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

/* One start: the limit of the largest shard as a share of the bound, the price of memory times a
 * factor, and whether memory counts in packing. */
static orr_status start(searcher *s, double share, double price_factor, bool by_memory)
{
    const orr_table_problem *p = s->p;
    const double busy_ns = fmax(s->bound->ns - p->least_shared_ns, s->bound->ns * 1e-3);
    double ns_per_byte;
    (void)orr_table_relaxation(p, s->bound->ns * (1 + 1e-6), &ns_per_byte);
    s->placer.load_ns = by_memory && p->capacity < INFINITY ? busy_ns : 0;
    choose(s, share * busy_ns, ns_per_byte * price_factor);
    sort_tables(s, busy_ns);
    if (!orr_table_pack(p, s->choice, &s->placer, s->order, &s->trial))
        return ORR_OK;
    if (!by_memory)
        (void)orr_table_difference(p, &s->trial, &s->spare);
    return improve(s);
}

static bool is_done(const searcher *s)
{
    return s->best_ns <= enough(s) || orr_clock_now_ns(&orr_clock_monotonic) >= s->budget.until_ns;
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
    s->placer.load_ns = s->bound->ns;
    sort_tables(s, INFINITY);
    return orr_table_pack(p, s->choice, &s->placer, s->order, &s->trial) ? improve(s) : ORR_OK;
}

static orr_status search(searcher *s)
{
    static const double shares[] = {1, 0.5, 0.25, 0.7, 0.35, 0.15};
    static const double factors[] = {1, 1.05, 1.3, 3, 10};
    const bool limited = s->p->capacity < INFINITY;
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++)
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
            for (int by_memory = 0; by_memory <= limited; by_memory++) {
                if (is_done(s) || (f > 0 && (!limited || (f > 1 && s->best_ns < INFINITY))))
                    return ORR_OK;
                ORR_TRY(start(s, shares[i], factors[f], by_memory));
            }
    return s->best_ns < INFINITY ? ORR_OK : start_smallest(s);
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
                  .budget = {.until_ns = p->o->limit_ns > 0 ? now + p->o->limit_ns : INT64_MAX},
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
    *ret = (orr_table_solution){.assignment = s.best,
                                .ns = orr_table_assignment_ns(p, &s.best),
                                .optimal = optimal,
                                .budget = s.budget};
    return ORR_OK;
}
