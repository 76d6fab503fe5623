/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "explore/tables/planner.h"

/* Local search. The busiest rank gives a shard away, or swaps it for a shorter one, or a table that
 * it has part of gets another candidate. Each step makes the busiest rank of the ranks that it
 * touches less busy, so that the search ends. */

enum { NEAR_RANKS = 24, NONE = UINT32_MAX };
#define LESS (1 - 1e-9)

/* Slot of a shard: table * most_shards + shard. Shards of a rank are a doubly linked list. */
typedef struct improver {
    const orr_table_problem *p;
    orr_table_assignment *a;
    orr_table_placer *placer;
    orr_table_budget *budget;
    uint32_t *next, *previous, *head;
    uint32_t *kept; /* shape (most_shards): ranks of the table that is tried elsewhere */
} improver;

typedef struct transfer {
    uint32_t slot, other; /* other: NONE: moved, not swapped */
    uint32_t rank;        /* where it goes */
    double ns;            /* the busier of both ranks afterwards */
} transfer;

static void link_slot(improver *v, uint32_t slot, uint32_t rank)
{
    v->previous[slot] = NONE;
    v->next[slot] = v->head[rank];
    if (v->head[rank] != NONE)
        v->previous[v->head[rank]] = slot;
    v->head[rank] = slot;
}

static void unlink_slot(improver *v, uint32_t slot, uint32_t rank)
{
    if (v->previous[slot] != NONE)
        v->next[v->previous[slot]] = v->next[slot];
    else
        v->head[rank] = v->next[slot];
    if (v->next[slot] != NONE)
        v->previous[v->next[slot]] = v->previous[slot];
}

static const orr_table_candidate *candidate_of(const improver *v, uint32_t table)
{
    return &v->p->candidates[v->a->choice[table]];
}

static void link_table(improver *v, uint32_t table, bool linked)
{
    const uint32_t *ranks = orr_table_ranks_of(v->p, v->a, table);
    for (uint32_t i = 0; i < candidate_of(v, table)->n; i++) {
        const uint32_t slot = table * v->p->most_shards + i;
        if (linked)
            link_slot(v, slot, ranks[i]);
        else
            unlink_slot(v, slot, ranks[i]);
    }
}

static double slot_ns(const improver *v, uint32_t slot)
{
    return candidate_of(v, slot / v->p->most_shards)->ns[slot % v->p->most_shards];
}

static double slot_bytes(const improver *v, uint32_t slot)
{
    return candidate_of(v, slot / v->p->most_shards)->bytes[slot % v->p->most_shards];
}

static void try_swaps(const improver *v, uint32_t slot, uint32_t from, uint32_t to, transfer *best)
{
    const orr_table_assignment *a = v->a;
    const double ns = slot_ns(v, slot), bytes = slot_bytes(v, slot);
    const double room = v->p->capacity - a->shared_bytes;
    for (uint32_t other = v->head[to]; other != NONE; other = v->next[other]) {
        const double gain = ns - slot_ns(v, other), more = bytes - slot_bytes(v, other);
        const double after = fmax(a->load[from] - gain, a->load[to] + gain);
        if (gain > 0 && after < best->ns && a->bytes[to] + more <= room &&
            a->bytes[from] - more <= room &&
            other / v->p->most_shards != slot / v->p->most_shards &&
            orr_table_may_go(v->p, v->a, slot, from, to) &&
            orr_table_may_go(v->p, v->a, other, to, from))
            *best = (transfer){slot, other, to, after};
    }
}

/* The least busy ranks, in no order. */
static uint32_t near_ranks(const improver *v, uint32_t busiest, uint32_t ret[NEAR_RANKS])
{
    uint32_t n = 0, worst = 0;
    for (uint32_t r = 0; r < v->p->ranks; r++) {
        if (r == busiest)
            continue;
        if (n < NEAR_RANKS)
            ret[n++] = r;
        else if (v->a->load[r] < v->a->load[ret[worst]])
            ret[worst] = r;
        else
            continue;
        for (uint32_t k = 0; k < n; k++)
            if (v->a->load[ret[k]] > v->a->load[ret[worst]])
                worst = k;
    }
    return n;
}

static bool find_transfer(const improver *v, uint32_t from, const uint32_t *ranks, uint32_t n,
                          transfer *best)
{
    const orr_table_assignment *a = v->a;
    *best = (transfer){.slot = NONE, .ns = a->load[from] * LESS};
    for (uint32_t slot = v->head[from]; slot != NONE; slot = v->next[slot])
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t to = ranks[k];
            const double ns = slot_ns(v, slot);
            const double after = fmax(a->load[from] - ns, a->load[to] + ns);
            if (after < best->ns &&
                a->bytes[to] + slot_bytes(v, slot) + a->shared_bytes <= v->p->capacity &&
                orr_table_may_go(v->p, v->a, slot, from, to))
                *best = (transfer){slot, NONE, to, after};
            if (a->load[to] < a->load[from] * LESS)
                try_swaps(v, slot, from, to, best);
        }
    return best->slot != NONE;
}

static void carry(improver *v, uint32_t slot, uint32_t from, uint32_t to)
{
    orr_table_assignment *a = v->a;
    const double ns = slot_ns(v, slot), bytes = slot_bytes(v, slot);
    a->load[from] -= ns;
    a->bytes[from] -= bytes;
    a->load[to] += ns;
    a->bytes[to] += bytes;
    a->rank[slot] = to;
    unlink_slot(v, slot, from);
    link_slot(v, slot, to);
}

static uint32_t busiest_rank(const improver *v)
{
    uint32_t most = 0;
    for (uint32_t r = 1; r < v->p->ranks; r++)
        if (v->a->load[r] > v->a->load[most])
            most = r;
    return most;
}

/* Tries the other candidates of a table; the first that shortens the step stays. */
static bool change_candidate(improver *v, uint32_t table)
{
    const orr_table_problem *p = v->p;
    orr_table_assignment *a = v->a;
    const double before = (a->load[busiest_rank(v)] + a->shared_ns) * LESS;
    const uint32_t old = a->choice[table];
    memcpy(v->kept, orr_table_ranks_of(p, a, table), p->candidates[old].n * sizeof *v->kept);
    link_table(v, table, false);
    orr_table_remove(p, a, table);
    const double rest = a->load[busiest_rank(v)] + a->shared_ns;
    for (uint32_t k = p->first[table]; k < p->first[table + 1]; k++) {
        const orr_table_candidate *c = &p->candidates[k];
        v->budget->moves++;
        if (k == old || rest + c->shared_ns >= before ||
            a->shared_ns + c->shared_ns + c->largest_ns >= before ||
            !orr_table_place(p, a, v->placer, table, k))
            continue;
        if (a->load[busiest_rank(v)] + a->shared_ns < before) {
            link_table(v, table, true);
            return true;
        }
        orr_table_remove(p, a, table);
    }
    orr_table_restore(p, a, table, old, v->kept);
    link_table(v, table, true);
    return false;
}

static bool change_some_candidate(improver *v, uint32_t rank)
{
    for (uint32_t slot = v->head[rank], next; slot != NONE; slot = next) {
        next = v->next[slot];
        if (change_candidate(v, slot / v->p->most_shards))
            return true;
    }
    return false;
}

static bool improve_once(improver *v)
{
    uint32_t near[NEAR_RANKS];
    const uint32_t from = busiest_rank(v);
    transfer best;
    v->budget->moves++;
    if (find_transfer(v, from, near, near_ranks(v, from, near), &best)) {
        if (best.other != NONE)
            carry(v, best.other, best.rank, from);
        carry(v, best.slot, from, best.rank);
        return true;
    }
    return change_some_candidate(v, from);
}

orr_status orr_table_improve(const orr_table_problem *p, orr_table_placer *placer, double enough_ns,
                             orr_table_budget *budget, orr_table_assignment *a, orr_error *err)
{
    const size_t slots = (size_t)p->n * p->most_shards;
    improver v = {.p = p,
                  .a = a,
                  .placer = placer,
                  .budget = budget,
                  .next = orr_calloc(slots, sizeof(uint32_t)),
                  .previous = orr_calloc(slots, sizeof(uint32_t)),
                  .head = orr_calloc(p->ranks, sizeof(uint32_t)),
                  .kept = orr_calloc(p->most_shards, sizeof(uint32_t))};
    const bool ready = v.next != NULL && v.previous != NULL && v.head != NULL && v.kept != NULL;
    for (uint32_t r = 0; ready && r < p->ranks; r++)
        v.head[r] = NONE;
    for (uint32_t t = 0; ready && t < p->n; t++)
        link_table(&v, t, true);
    const uint64_t most = budget->moves + 40 * (uint64_t)p->n + 1000;
    while (ready && budget->moves < most && orr_table_assignment_ns(p, a) > enough_ns &&
           !orr_table_budget_is_over(budget) && improve_once(&v))
        ;
    orr_free(v.next);
    orr_free(v.previous);
    orr_free(v.head);
    orr_free(v.kept);
    return ready ? ORR_OK : orr_fail_memory(err);
}
