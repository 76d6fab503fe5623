/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "explore/tables/planner.h"

/* Branch and bound, depth first. Tables are decided in order of their least largest shard; a table
 * by its candidates, cheapest first; a candidate by the rank of one shard after another, emptiest
 * first. A node is left if what is placed, with the least that the tables ahead cost the mean rank,
 * or its busiest rank, is no better than the incumbent. Ranks that are alike are tried once. */

enum { MOST_DEPTH = 4096 }; /* of the recursion: shards of a plan */

typedef struct branching {
    const orr_table_problem *p;
    orr_table_budget *budget;
    orr_table_assignment at, *incumbent;
    double best_ns;
    uint32_t *order;                /* of tables */
    double *ahead_ns, *ahead_bytes; /* shape (tables + 1): mean of tables from here on */
    double *ahead_shared;           /* their least shared costs */
    bool stopped;
} branching;

/* The most that a plan may take to be worth finding. */
static double worth(const branching *b)
{
    return b->best_ns * (1 - 1e-9);
}

static bool can_be_better(const branching *b, uint32_t depth, const orr_table_candidate *c,
                          uint32_t shards_placed)
{
    const orr_table_problem *p = b->p;
    double sum_ns = 0, sum_bytes = 0, most = 0, most_bytes = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        sum_ns += b->at.load[r];
        sum_bytes += b->at.bytes[r];
        most = fmax(most, b->at.load[r]);
        most_bytes = fmax(most_bytes, b->at.bytes[r]);
    }
    for (uint32_t i = shards_placed; i < c->n; i++) {
        sum_ns += c->ns[i];
        sum_bytes += c->bytes[i];
    }
    const double shared = b->at.shared_ns;
    return fmax(most, c->largest_ns) + shared + b->ahead_shared[depth + 1] < worth(b) &&
           sum_ns / p->ranks + shared + b->ahead_ns[depth + 1] < worth(b) &&
           most_bytes + b->at.shared_bytes <= p->capacity &&
           sum_bytes / p->ranks + b->at.shared_bytes + b->ahead_bytes[depth + 1] <= p->capacity;
}

static void decide(branching *b, uint32_t depth);

/* Equal shards of a part are interchangeable: the later one goes to the higher rank. */
static bool is_ordered(const orr_table_candidate *c, const uint32_t *ranks, uint32_t i,
                       uint32_t rank)
{
    const bool equal = i > 0 && c->ns[i] == c->ns[i - 1] && c->bytes[i] == c->bytes[i - 1] &&
                       (!c->in_host || i % c->split.rows != 0);
    return !equal || rank > ranks[i - 1];
}

static bool host_is_empty(const branching *b, uint32_t host)
{
    const orr_table_problem *p = b->p;
    for (uint32_t r = host * p->host_ranks; r < (host + 1) * p->host_ranks; r++)
        if (b->at.load[r] > 0 || b->at.bytes[r] > 0)
            return false;
    return true;
}

/* Ranks are alike if they have the same load and memory, and the same host or both an empty one. */
static bool are_alike(const branching *b, uint32_t a, uint32_t rank)
{
    const uint32_t hosts[2] = {a / b->p->host_ranks, rank / b->p->host_ranks};
    return b->at.load[a] == b->at.load[rank] && b->at.bytes[a] == b->at.bytes[rank] &&
           (hosts[0] == hosts[1] || (host_is_empty(b, hosts[0]) && host_is_empty(b, hosts[1])));
}

static bool may_take(const branching *b, const orr_table_candidate *c, const uint32_t *ranks,
                     uint32_t i, uint32_t rank)
{
    const uint32_t part = i / c->split.rows * c->split.rows;
    if (!is_ordered(c, ranks, i, rank) ||
        b->at.bytes[rank] + c->bytes[i] + b->at.shared_bytes > b->p->capacity ||
        b->at.load[rank] + c->ns[i] + b->at.shared_ns >= worth(b))
        return false;
    for (uint32_t k = 0; k < i; k++)
        if (ranks[k] == rank)
            return false;
    return !c->in_host || i == part || ranks[part] / b->p->host_ranks == rank / b->p->host_ranks;
}

/* The rank of least load after (load, rank) in that order, or UINT32_MAX. */
static uint32_t next_rank(const branching *b, double load, uint32_t after)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t r = 0; r < b->p->ranks; r++) {
        const double own = b->at.load[r];
        if ((own > load || (own == load && (after == UINT32_MAX || r > after))) &&
            (best == UINT32_MAX || own < b->at.load[best]))
            best = r;
    }
    return best;
}

static void put_shard(branching *b, uint32_t depth, const orr_table_candidate *c, uint32_t i)
{
    const uint32_t table = b->order[depth];
    uint32_t *ranks = orr_table_ranks_of(b->p, &b->at, table);
    if (i == c->n) {
        decide(b, depth + 1);
        return;
    }
    uint32_t last = UINT32_MAX, tried = UINT32_MAX;
    double load = -INFINITY;
    for (uint32_t rank; !b->stopped && (rank = next_rank(b, load, last)) != UINT32_MAX;) {
        load = b->at.load[rank];
        last = rank;
        if (!may_take(b, c, ranks, i, rank) || (tried != UINT32_MAX && are_alike(b, tried, rank)))
            continue;
        tried = rank;
        const double bytes = b->at.bytes[rank];
        b->stopped = ++b->budget->nodes > b->p->o->nodes ||
                     (b->budget->nodes % 256 == 0 && orr_table_budget_is_over(b->budget));
        ranks[i] = rank;
        b->at.load[rank] = load + c->ns[i];
        b->at.bytes[rank] = bytes + c->bytes[i];
        if (!b->stopped && can_be_better(b, depth, c, i + 1))
            put_shard(b, depth, c, i + 1);
        b->at.load[rank] = load;
        b->at.bytes[rank] = bytes;
    }
}

static void keep(branching *b)
{
    const double ns = orr_table_assignment_ns(b->p, &b->at);
    if (ns < b->best_ns) {
        b->best_ns = ns;
        orr_table_assignment_copy(b->p, &b->at, b->incumbent);
    }
}

static void decide(branching *b, uint32_t depth)
{
    const orr_table_problem *p = b->p;
    if (depth == p->n) {
        keep(b);
        return;
    }
    const uint32_t table = b->order[depth], first = p->first[table];
    const uint32_t n = p->first[table + 1] - first;
    double least = -INFINITY;
    uint32_t last = UINT32_MAX;
    for (uint32_t done = 0; done < n && !b->stopped; done++) {
        uint32_t best = UINT32_MAX; /* the next in order of mean cost */
        for (uint32_t k = first; k < first + n; k++) {
            const double ns = orr_table_mean_ns(p, &p->candidates[k]);
            if ((ns > least || (ns == least && (last == UINT32_MAX || k > last))) &&
                (best == UINT32_MAX || ns < orr_table_mean_ns(p, &p->candidates[best])))
                best = k;
        }
        const orr_table_candidate *c = &p->candidates[best];
        least = orr_table_mean_ns(p, c);
        last = best;
        b->at.choice[table] = best;
        b->at.shared_ns += c->shared_ns;
        b->at.shared_bytes += c->shared_bytes;
        if (can_be_better(b, depth, c, 0))
            put_shard(b, depth, c, 0);
        b->at.shared_ns -= c->shared_ns;
        b->at.shared_bytes -= c->shared_bytes;
    }
    b->at.choice[table] = ORR_TABLE_UNPLACED;
}

typedef struct sized {
    double largest;
    uint32_t table;
} sized;

static int by_largest_descending(const void *a, const void *b)
{
    const sized *x = a, *y = b;
    return x->largest != y->largest ? (x->largest < y->largest) - (x->largest > y->largest)
                                    : (x->table > y->table) - (x->table < y->table);
}

static void sum_ahead(branching *b)
{
    const orr_table_problem *p = b->p;
    for (uint32_t depth = p->n; depth-- > 0;) {
        double ns = INFINITY, bytes = INFINITY;
        for (uint32_t k = p->first[b->order[depth]]; k < p->first[b->order[depth] + 1]; k++) {
            ns = fmin(ns, orr_table_mean_ns(p, &p->candidates[k]));
            bytes = fmin(bytes, orr_table_mean_bytes(p, &p->candidates[k]));
        }
        b->ahead_ns[depth] = b->ahead_ns[depth + 1] + ns;
        b->ahead_bytes[depth] = b->ahead_bytes[depth + 1] + bytes;
        b->ahead_shared[depth] = b->ahead_shared[depth + 1] + p->table_shared_ns[b->order[depth]];
    }
}

orr_status orr_table_branch(const orr_table_problem *p, orr_table_budget *budget, orr_arena *arena,
                            orr_table_assignment *incumbent, bool *ret_exhausted, orr_error *err)
{
    branching b = {.p = p,
                   .budget = budget,
                   .incumbent = incumbent,
                   .best_ns = orr_table_assignment_ns(p, incumbent),
                   .order = orr_arena_array(arena, uint32_t, p->n),
                   .ahead_ns = orr_arena_array(arena, double, (size_t)p->n + 1),
                   .ahead_bytes = orr_arena_array(arena, double, (size_t)p->n + 1),
                   .ahead_shared = orr_arena_array(arena, double, (size_t)p->n + 1)};
    sized *tables = orr_arena_array(arena, sized, p->n);
    *ret_exhausted = false;
    if ((size_t)p->n * p->most_shards > MOST_DEPTH)
        return ORR_OK;
    if (b.order == NULL || b.ahead_ns == NULL || b.ahead_bytes == NULL || b.ahead_shared == NULL ||
        tables == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_table_assignment_make(p, arena, &b.at, err));
    for (uint32_t t = 0; t < p->n; t++) {
        tables[t] = (sized){INFINITY, t};
        for (uint32_t k = p->first[t]; k < p->first[t + 1]; k++)
            tables[t].largest = fmin(tables[t].largest, p->candidates[k].largest_ns);
    }
    qsort(tables, p->n, sizeof *tables, by_largest_descending);
    for (uint32_t i = 0; i < p->n; i++)
        b.order[i] = tables[i].table;
    sum_ahead(&b);
    decide(&b, 0);
    *ret_exhausted = !b.stopped;
    return ORR_OK;
}
