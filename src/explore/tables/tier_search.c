/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explore/tables/tiers.h"

/* Which tables go to which tier. Few tables: all assignments. Many: tables in several orders, the
 * first to memory, the next to byte-addressable storage, the others to the block device, for all
 * pairs of places where the order is cut. Which assignments are tried depends on tables and shards
 * alone, never on how much of a tier there is: with more of it all that fitted still fits and takes
 * no longer, so that the best of them does not, either. */
enum { MOST_ASSIGNMENTS = 2187, MOST_CUTS = 800, LEAST_CUTS = 16 };
#define CUTS_TIMES_SHARDS 40000

/* Orders: what a table is worth to memory, the more the earlier. */
enum {
    BY_DENSITY, /* rows that it reads without a cache, a byte */
    BY_MISSES,  /* with the least cache that it can have, a byte */
    BY_SMALL,
    BY_LARGE,
    ORDERS
};

typedef struct searcher {
    const orr_tier_problem *p;
    uint8_t *best, *trial; /* shape (n_tables) */
    bool *whole;           /* shape (n_tables): workspace */
    uint32_t *order, n;    /* tables that may be on any tier */
    orr_tier_cost cost;
    bool has_byte, has_block;
} searcher;

/* Tables whose rows are all cached on all their ranks live in memory, which takes less of it. */
static bool promote(searcher *s)
{
    const orr_tier_problem *p = s->p;
    bool changed = false;
    memset(s->whole, true, p->n_tables);
    for (uint32_t i = 0; i < p->n_shards; i++)
        s->whole[p->shards[i].table] &= p->cached[i] >= p->shards[i].rows * (1 - 1e-9);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t t = s->order[i];
        if (s->trial[t] == ORR_TIER_DRAM || !s->whole[t])
            continue;
        s->trial[t] = ORR_TIER_DRAM;
        changed = true;
    }
    return changed;
}

static void try_assignment(searcher *s)
{
    orr_tier_cost cost = orr_tier_evaluate(s->p, s->trial, INFINITY);
    while (cost.fetch_ns < INFINITY && promote(s))
        cost = orr_tier_evaluate(s->p, s->trial, INFINITY);
    const bool fits = cost.fetch_ns < INFINITY;
    if (fits ? cost.fetch_ns < s->cost.fetch_ns
             : !(s->cost.fetch_ns < INFINITY) && cost.lacking < s->cost.lacking) {
        s->cost = cost;
        memcpy(s->best, s->trial, s->p->n_tables);
    }
}

static void try_all(searcher *s)
{
    const uint8_t tiers[ORR_TIERS] = {ORR_TIER_DRAM, s->has_byte ? ORR_TIER_BYTE : ORR_TIER_BLOCK,
                                      ORR_TIER_BLOCK};
    const uint32_t n_tiers = 1 + s->has_byte + s->has_block;
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->n; i++)
        n *= n_tiers;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t left = k;
        for (uint32_t i = 0; i < s->n; i++, left /= n_tiers)
            s->trial[s->order[i]] = tiers[left % n_tiers];
        try_assignment(s);
    }
}

/* --- orders ---------------------------------------------------------------------------------- */

typedef struct keyed {
    double key;
    uint32_t table;
} keyed;

static int by_key_descending(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key) - (x->key > y->key)
                            : (x->table > y->table) - (x->table < y->table);
}

static void sort_tables(searcher *s, int by, keyed *keys)
{
    const orr_tier_problem *p = s->p;
    for (uint32_t i = 0; i < p->n_tables; i++)
        keys[i] = (keyed){0, i};
    for (uint32_t i = 0; i < p->n_shards; i++) {
        const orr_tier_shard *shard = &p->shards[i];
        const orr_embedding *e = &p->o->tables[shard->table];
        const double bytes = (double)orr_embedding_bytes(e);
        const double missed = 1 - orr_tier_hit_frac(p, shard, shard->pinned_rows);
        const double distinct =
            p->o->distinct != NULL ? p->o->distinct[shard->table] * shard->frac : shard->lookups;
        double *key = &keys[shard->table].key;
        if (by == BY_DENSITY)
            *key += distinct / bytes;
        else if (by == BY_MISSES)
            *key += shard->lookups * missed / bytes;
        else
            *key = by == BY_SMALL ? -bytes : bytes;
    }
    for (uint32_t i = 0; i < p->n_tables; i++)
        if (p->everywhere[i])
            keys[i].key = -INFINITY;
    qsort(keys, p->n_tables, sizeof *keys, by_key_descending);
    for (uint32_t i = 0; i < s->n; i++)
        s->order[i] = keys[i].table;
}

/* Cuts at so many places, as even as can be; all of them where there are fewer tables. */
static void try_cuts(searcher *s, uint32_t places)
{
    for (uint32_t a = 0; a <= places; a++)
        for (uint32_t b = s->has_byte ? a : places; b <= places; b++) {
            const uint32_t dram = (uint32_t)((uint64_t)s->n * a / places);
            const uint32_t byte = (uint32_t)((uint64_t)s->n * b / places);
            if (!s->has_block && (s->has_byte ? b : a) < places)
                continue;
            for (uint32_t i = 0; i < s->n; i++)
                s->trial[s->order[i]] = i < dram                  ? ORR_TIER_DRAM
                                        : i < byte && s->has_byte ? ORR_TIER_BYTE
                                        : s->has_block            ? ORR_TIER_BLOCK
                                                                  : ORR_TIER_BYTE;
            try_assignment(s);
        }
}

/* Half of the pairs of places are cuts. */
static uint32_t places_of(const searcher *s)
{
    const double cuts =
        fmin(MOST_CUTS, fmax(LEAST_CUTS, (double)CUTS_TIMES_SHARDS / (s->p->n_shards + 1.0)));
    const uint32_t places = (uint32_t)sqrt(2 * cuts);
    return places < s->n ? places : s->n > 0 ? s->n : 1;
}

orr_status orr_tier_search(const orr_tier_problem *p, orr_arena *arena, uint8_t *ret,
                           orr_tier_cost *ret_cost, orr_error *err)
{
    searcher s = {.p = p,
                  .best = ret,
                  .trial = orr_arena_array(arena, uint8_t, p->n_tables),
                  .whole = orr_arena_array(arena, bool, p->n_tables),
                  .order = orr_arena_array(arena, uint32_t, p->n_tables),
                  .cost = {.fetch_ns = INFINITY, .lacking = INFINITY},
                  .has_byte = p->bytes[ORR_TIER_BYTE] > 0,
                  .has_block = p->bytes[ORR_TIER_BLOCK] > 0};
    keyed *keys = orr_arena_array(arena, keyed, p->n_tables);
    if (s.trial == NULL || s.whole == NULL || s.order == NULL || keys == NULL)
        return orr_fail_memory(err);
    memset(ret, ORR_TIER_DRAM, p->n_tables);
    memset(s.trial, ORR_TIER_DRAM, p->n_tables);
    for (uint32_t t = 0; t < p->n_tables; t++)
        if (!p->everywhere[t])
            s.order[s.n++] = t;
    if (pow(ORR_TIERS, s.n) <= MOST_ASSIGNMENTS)
        try_all(&s);
    for (int by = 0; by < ORDERS && pow(ORR_TIERS, s.n) > MOST_ASSIGNMENTS; by++) {
        sort_tables(&s, by, keys);
        try_cuts(&s, places_of(&s));
    }
    *ret_cost = s.cost;
    return ORR_OK;
}
