/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "explore/tables/planner.h"

/* Balance of stages. Ranks that are busy for equally long may still wait for one another, if one is
 * long in its lookups and another in its transfers: a stage ends when its slowest rank has ended
 * it. Shards of the rank that is furthest above the mean in its stages are moved and swapped, as
 * long as the two ranks come nearer to the mean. No rank becomes busier than is allowed. */

enum { PARTS = ORR_TABLE_STAGES + ORR_TABLE_TRANSFERS, NEAR = 32, NONE = UINT32_MAX };
enum { MOST_SLOTS = 1 << 21 };
#define LEAST_GAIN 1e-4 /* of a rank's excess, that a change is worth */

typedef struct parts {
    double ns[PARTS]; /* stages without their transfers of their own, and these */
} parts;

typedef struct balancer {
    const orr_table_problem *p;
    orr_table_assignment *a;
    orr_table_budget *budget;
    double most_ns; /* load that a rank may have */
    parts *slot;    /* shape (tables, most_shards) */
    parts *rank;    /* shape (ranks) */
    parts mean;     /* of all ranks */
    double *excess; /* shape (ranks) */
    bool *stuck;    /* shape (ranks): no change of it helps */
    uint32_t *next, *head;
} balancer;

typedef struct change {
    uint32_t slot, other; /* other: NONE: moved, not swapped */
    uint32_t from, to;
    double gain;
} change;

static parts parts_of(const orr_table_price *price)
{
    parts p;
    memcpy(p.ns, price->stage_ns, sizeof price->stage_ns);
    memcpy(p.ns + ORR_TABLE_STAGES, price->apart_ns, sizeof price->apart_ns);
    p.ns[ORR_TABLE_STAGE_BAGS] -= price->apart_ns[ORR_TABLE_TRANSFER_HOST_BAGS];
    p.ns[ORR_TABLE_STAGE_GRADIENTS] -= price->apart_ns[ORR_TABLE_TRANSFER_HOST_GRADIENTS];
    return p;
}

static void add_parts(parts *to, const parts *from, double times)
{
    for (int k = 0; k < PARTS; k++)
        to->ns[k] += times * from->ns[k];
}

static void open_slots(balancer *b)
{
    const orr_table_problem *p = b->p;
    for (uint32_t t = 0; t < p->n; t++) {
        const orr_table_candidate *c = &p->candidates[b->a->choice[t]];
        for (uint32_t i = 0; i < c->n; i++) {
            const uint32_t slot = t * p->most_shards + i;
            orr_table_price price;
            orr_table_shard_price_of(p->o, t, &c->split, i, &price);
            b->slot[slot] = parts_of(&price);
            add_parts(&b->rank[b->a->rank[slot]], &b->slot[slot], 1);
        }
    }
}

static void link_slots(balancer *b)
{
    for (uint32_t r = 0; r < b->p->ranks; r++)
        b->head[r] = NONE;
    for (uint32_t t = 0; t < b->p->n; t++)
        for (uint32_t i = 0; i < b->p->candidates[b->a->choice[t]].n; i++) {
            const uint32_t slot = t * b->p->most_shards + i, rank = b->a->rank[slot];
            b->next[slot] = b->head[rank];
            b->head[rank] = slot;
        }
}

/* How far a rank is above the mean in its parts: a smooth stand-in for the slowest rank of each. */
static double excess_of(const balancer *b, const parts *rank)
{
    double sum = 0;
    for (int k = 0; k < PARTS; k++)
        if (b->mean.ns[k] > 0) {
            const double x = rank->ns[k] / b->mean.ns[k], square = x * x;
            sum += b->mean.ns[k] * square * square * square;
        }
    return sum;
}

static double gain_of(const balancer *b, const change *c)
{
    parts from = b->rank[c->from], to = b->rank[c->to];
    add_parts(&from, &b->slot[c->slot], -1);
    add_parts(&to, &b->slot[c->slot], 1);
    if (c->other != NONE) {
        add_parts(&from, &b->slot[c->other], 1);
        add_parts(&to, &b->slot[c->other], -1);
    }
    return b->excess[c->from] + b->excess[c->to] - excess_of(b, &from) - excess_of(b, &to);
}

static void size_of(const balancer *b, uint32_t slot, double *ret_ns, double *ret_bytes)
{
    *ret_ns = *ret_bytes = 0;
    if (slot == NONE)
        return;
    const uint32_t table = slot / b->p->most_shards, i = slot % b->p->most_shards;
    const orr_table_candidate *c = &b->p->candidates[b->a->choice[table]];
    *ret_ns = c->ns[i];
    *ret_bytes = c->bytes[i];
}

static bool is_allowed(const balancer *b, const change *c)
{
    const orr_table_assignment *a = b->a;
    const double room = b->p->capacity - a->shared_bytes;
    double ns, bytes, other_ns, other_bytes;
    size_of(b, c->slot, &ns, &bytes);
    size_of(b, c->other, &other_ns, &other_bytes);
    return a->load[c->to] + ns - other_ns <= b->most_ns &&
           a->load[c->from] - ns + other_ns <= b->most_ns &&
           a->bytes[c->to] + bytes - other_bytes <= room &&
           a->bytes[c->from] - bytes + other_bytes <= room &&
           orr_table_may_go(b->p, a, c->slot, c->from, c->to) &&
           (c->other == NONE || (c->other / b->p->most_shards != c->slot / b->p->most_shards &&
                                 orr_table_may_go(b->p, a, c->other, c->to, c->from)));
}

static void consider(const balancer *b, change c, change *best)
{
    c.gain = gain_of(b, &c);
    if (c.gain > best->gain && is_allowed(b, &c))
        *best = c;
}

/* The ranks of least excess, in no order. */
static uint32_t near_ranks(const balancer *b, uint32_t but, uint32_t ret[NEAR])
{
    uint32_t n = 0, worst = 0;
    for (uint32_t r = 0; r < b->p->ranks; r++) {
        if (r == but || (n == NEAR && b->excess[r] >= b->excess[ret[worst]]))
            continue;
        if (n < NEAR)
            ret[n++] = r;
        else
            ret[worst] = r;
        for (uint32_t k = 0; k < n; k++)
            if (b->excess[ret[k]] > b->excess[ret[worst]])
                worst = k;
    }
    return n;
}

static void find_change(const balancer *b, uint32_t from, change *best)
{
    uint32_t near[NEAR];
    const uint32_t n = near_ranks(b, from, near);
    for (uint32_t slot = b->head[from]; slot != NONE; slot = b->next[slot])
        for (uint32_t k = 0; k < n; k++) {
            consider(b, (change){slot, NONE, from, near[k], 0}, best);
            for (uint32_t other = b->head[near[k]]; other != NONE; other = b->next[other])
                consider(b, (change){slot, other, from, near[k], 0}, best);
        }
}

static void carry(balancer *b, uint32_t slot, uint32_t from, uint32_t to)
{
    double ns, bytes;
    size_of(b, slot, &ns, &bytes);
    b->a->load[from] -= ns;
    b->a->load[to] += ns;
    b->a->bytes[from] -= bytes;
    b->a->bytes[to] += bytes;
    b->a->rank[slot] = to;
    add_parts(&b->rank[from], &b->slot[slot], -1);
    add_parts(&b->rank[to], &b->slot[slot], 1);
}

/* One change of the rank that is furthest above the mean and can be changed. */
static bool balance_once(balancer *b)
{
    uint32_t from = NONE;
    for (uint32_t r = 0; r < b->p->ranks; r++)
        if (!b->stuck[r] && (from == NONE || b->excess[r] > b->excess[from]))
            from = r;
    if (from == NONE)
        return false;
    change best = {.slot = NONE, .gain = LEAST_GAIN * b->excess[from]};
    find_change(b, from, &best);
    b->budget->moves++;
    if (best.slot == NONE) {
        b->stuck[from] = true;
        return true;
    }
    carry(b, best.slot, best.from, best.to);
    if (best.other != NONE)
        carry(b, best.other, best.to, best.from);
    b->excess[best.from] = excess_of(b, &b->rank[best.from]);
    b->excess[best.to] = excess_of(b, &b->rank[best.to]);
    link_slots(b);
    return true;
}

orr_status orr_table_balance(const orr_table_problem *p, double most_ns, orr_table_budget *budget,
                             orr_table_assignment *a, orr_error *err)
{
    const size_t slots = (size_t)p->n * p->most_shards;
    if (slots > MOST_SLOTS || p->ranks < 2)
        return ORR_OK;
    balancer b = {.p = p,
                  .a = a,
                  .budget = budget,
                  .most_ns = most_ns - a->shared_ns,
                  .slot = orr_calloc(slots, sizeof(parts)),
                  .rank = orr_calloc(p->ranks, sizeof(parts)),
                  .excess = orr_calloc(p->ranks, sizeof(double)),
                  .stuck = orr_calloc(p->ranks, sizeof(bool)),
                  .next = orr_calloc(slots, sizeof(uint32_t)),
                  .head = orr_calloc(p->ranks, sizeof(uint32_t))};
    const bool ready = b.slot != NULL && b.rank != NULL && b.excess != NULL && b.stuck != NULL &&
                       b.next != NULL && b.head != NULL;
    if (ready) {
        open_slots(&b);
        link_slots(&b);
        for (uint32_t r = 0; r < p->ranks; r++)
            add_parts(&b.mean, &b.rank[r], 1.0 / p->ranks);
        for (uint32_t r = 0; r < p->ranks; r++)
            b.excess[r] = excess_of(&b, &b.rank[r]);
    }
    for (uint64_t left = 4 * (uint64_t)p->n + p->ranks;
         ready && left > 0 && !orr_table_budget_is_over(budget) && balance_once(&b); left--)
        ;
    orr_free(b.slot);
    orr_free(b.rank);
    orr_free(b.excess);
    orr_free(b.stuck);
    orr_free(b.next);
    orr_free(b.head);
    return ready ? ORR_OK : orr_fail_memory(err);
}
