/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explore/tables/planner.h"

orr_status orr_table_assignment_make(const orr_table_problem *p, orr_arena *arena,
                                     orr_table_assignment *ret, orr_error *err)
{
    orr_table_assignment a = {
        .choice = orr_arena_array(arena, uint32_t, p->n),
        .rank = orr_arena_array(arena, uint32_t, (size_t)p->n * p->most_shards),
        .load = orr_arena_array(arena, double, p->ranks),
        .bytes = orr_arena_array(arena, double, p->ranks),
    };
    if (a.choice == NULL || a.rank == NULL || a.load == NULL || a.bytes == NULL)
        return orr_fail_memory(err);
    orr_table_assignment_clear(p, &a);
    *ret = a;
    return ORR_OK;
}

void orr_table_assignment_clear(const orr_table_problem *p, orr_table_assignment *ret)
{
    for (uint32_t t = 0; t < p->n; t++)
        ret->choice[t] = ORR_TABLE_UNPLACED;
    memset(ret->load, 0, p->ranks * sizeof *ret->load);
    memset(ret->bytes, 0, p->ranks * sizeof *ret->bytes);
    ret->shared_ns = ret->shared_bytes = 0;
}

void orr_table_assignment_copy(const orr_table_problem *p, const orr_table_assignment *from,
                               orr_table_assignment *to)
{
    memcpy(to->choice, from->choice, p->n * sizeof *to->choice);
    memcpy(to->rank, from->rank, (size_t)p->n * p->most_shards * sizeof *to->rank);
    memcpy(to->load, from->load, p->ranks * sizeof *to->load);
    memcpy(to->bytes, from->bytes, p->ranks * sizeof *to->bytes);
    to->shared_ns = from->shared_ns;
    to->shared_bytes = from->shared_bytes;
}

double orr_table_assignment_ns(const orr_table_problem *p, const orr_table_assignment *a)
{
    double most = 0;
    for (uint32_t t = 0; t < p->n; t++)
        if (a->choice[t] == ORR_TABLE_UNPLACED)
            return INFINITY;
    for (uint32_t r = 0; r < p->ranks; r++)
        most = fmax(most, a->load[r]);
    return most + a->shared_ns;
}

orr_status orr_table_placer_make(const orr_table_problem *p, orr_arena *arena,
                                 orr_table_placer *ret, orr_error *err)
{
    *ret = (orr_table_placer){
        .taken = orr_arena_array(arena, uint64_t, p->ranks),
        .order = orr_arena_array(arena, struct orr_table_rank_key, p->ranks),
        .shard = orr_arena_array(arena, uint32_t, p->most_shards),
    };
    return ret->taken != NULL && ret->order != NULL && ret->shard != NULL ? ORR_OK
                                                                          : orr_fail_memory(err);
}

void orr_table_restore(const orr_table_problem *p, orr_table_assignment *a, uint32_t table,
                       uint32_t candidate, const uint32_t *ranks)
{
    const orr_table_candidate *c = &p->candidates[candidate];
    uint32_t *to = orr_table_ranks_of(p, a, table);
    for (uint32_t i = 0; i < c->n; i++) {
        to[i] = ranks[i];
        a->load[ranks[i]] += c->ns[i];
        a->bytes[ranks[i]] += c->bytes[i];
    }
    a->shared_ns += c->shared_ns;
    a->shared_bytes += c->shared_bytes;
    a->choice[table] = candidate;
}

void orr_table_remove(const orr_table_problem *p, orr_table_assignment *a, uint32_t table)
{
    const orr_table_candidate *c = &p->candidates[a->choice[table]];
    const uint32_t *ranks = orr_table_ranks_of(p, a, table);
    for (uint32_t i = 0; i < c->n; i++) {
        a->load[ranks[i]] -= c->ns[i];
        a->bytes[ranks[i]] -= c->bytes[i];
    }
    a->shared_ns -= c->shared_ns;
    a->shared_bytes -= c->shared_bytes;
    a->choice[table] = ORR_TABLE_UNPLACED;
}

bool orr_table_may_go(const orr_table_problem *p, const orr_table_assignment *a, uint32_t slot,
                      uint32_t from, uint32_t to)
{
    const uint32_t table = slot / p->most_shards;
    const orr_table_candidate *c = &p->candidates[a->choice[table]];
    const uint32_t *ranks = orr_table_ranks_of(p, a, table);
    if (c->in_host && c->split.rows > 1 && from / p->host_ranks != to / p->host_ranks)
        return false;
    for (uint32_t i = 0; i < c->n; i++)
        if (ranks[i] == to)
            return false;
    return true;
}

static int by_key(const void *a, const void *b)
{
    const struct orr_table_rank_key *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->rank > y->rank) - (x->rank < y->rank);
}

/* How full a rank is: its time, or the larger of its shares of time and of memory. */
static double key_of(const orr_table_problem *p, const orr_table_assignment *a,
                     const orr_table_placer *placer, uint32_t rank)
{
    return placer->load_ns > 0 ? fmax(a->load[rank] / placer->load_ns,
                                      (a->shared_bytes + a->bytes[rank]) / p->capacity)
                               : a->load[rank];
}

/* Ranks from `first` on that the table has not taken, emptiest first. */
static uint32_t sort_ranks(const orr_table_problem *p, const orr_table_assignment *a,
                           orr_table_placer *placer, uint32_t first, uint32_t end)
{
    uint32_t n = 0;
    for (uint32_t r = first; r < end; r++)
        if (placer->taken[r] != placer->now)
            placer->order[n++] = (struct orr_table_rank_key){key_of(p, a, placer, r), r};
    qsort(placer->order, n, sizeof *placer->order, by_key);
    return n;
}

static bool has_room(const orr_table_problem *p, const orr_table_assignment *a, uint32_t rank,
                     double shared_bytes, double bytes)
{
    return a->shared_bytes + shared_bytes + a->bytes[rank] + bytes <= p->capacity;
}

/* The emptiest rank with room for one shard, without sorting. */
static uint32_t emptiest(const orr_table_problem *p, const orr_table_assignment *a,
                         const orr_table_placer *placer, double shared_bytes, double bytes)
{
    uint32_t best = UINT32_MAX;
    double least = INFINITY;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (placer->taken[r] != placer->now && has_room(p, a, r, shared_bytes, bytes)) {
            const double key = key_of(p, a, placer, r);
            if (key < least) {
                least = key;
                best = r;
            }
        }
    return best;
}

/* Puts shards first .. first + n - 1 (in the order of placer->shard) on sorted ranks. */
static bool take_sorted(const orr_table_problem *p, const orr_table_assignment *a,
                        orr_table_placer *placer, const orr_table_candidate *c, uint32_t first,
                        uint32_t n, uint32_t n_ranks, uint32_t *ret)
{
    uint32_t done = 0;
    for (uint32_t k = 0; k < n_ranks && done < n; k++) {
        const uint32_t rank = placer->order[k].rank, i = placer->shard[first + done];
        if (!has_room(p, a, rank, c->shared_bytes, c->bytes[i]))
            continue;
        ret[i] = rank;
        placer->taken[rank] = placer->now;
        done++;
    }
    return done == n;
}

/* The host on which the busiest of the ranks that a column part would take is least busy. */
static bool place_in_host(const orr_table_problem *p, const orr_table_assignment *a,
                          orr_table_placer *placer, const orr_table_candidate *c, uint32_t first,
                          uint32_t *ret)
{
    const uint32_t rows = c->split.rows;
    double least = INFINITY;
    uint32_t best = UINT32_MAX;
    for (uint32_t host = 0; host < p->ranks / p->host_ranks; host++) {
        const uint32_t begin = host * p->host_ranks,
                       n = sort_ranks(p, a, placer, begin, begin + p->host_ranks);
        double most = 0;
        uint32_t room = 0;
        for (uint32_t k = 0; k < n && room < rows; k++)
            if (has_room(p, a, placer->order[k].rank, c->shared_bytes,
                         c->bytes[placer->shard[first]])) {
                most = placer->order[k].key;
                room++;
            }
        if (room == rows && most < least) {
            least = most;
            best = host;
        }
    }
    if (best == UINT32_MAX)
        return false;
    const uint32_t n = sort_ranks(p, a, placer, best * p->host_ranks, (best + 1) * p->host_ranks);
    return take_sorted(p, a, placer, c, first, rows, n, ret);
}

/* Shards of a part, largest first; those of most tables are equal. */
static void sort_shards(const orr_table_candidate *c, uint32_t first, uint32_t n, uint32_t *shard)
{
    for (uint32_t k = first; k < first + n; k++) {
        uint32_t at = k;
        for (; at > first && c->ns[shard[at - 1]] < c->ns[k]; at--)
            shard[at] = shard[at - 1];
        shard[at] = k;
    }
}

static bool find_ranks(const orr_table_problem *p, const orr_table_assignment *a,
                       orr_table_placer *placer, const orr_table_candidate *c, uint32_t *ret)
{
    placer->now++;
    if (c->in_host) {
        for (uint32_t first = 0; first < c->n; first += c->split.rows) {
            sort_shards(c, first, c->split.rows, placer->shard);
            if (!place_in_host(p, a, placer, c, first, ret))
                return false;
        }
        return true;
    }
    if (c->n == 1) {
        ret[0] = emptiest(p, a, placer, c->shared_bytes, c->bytes[0]);
        return ret[0] != UINT32_MAX;
    }
    sort_shards(c, 0, c->n, placer->shard);
    return take_sorted(p, a, placer, c, 0, c->n, sort_ranks(p, a, placer, 0, p->ranks), ret);
}

/* What every rank would pay alike has to fit beside all that is there. */
static bool fits_shared(const orr_table_problem *p, const orr_table_assignment *a, double bytes)
{
    double most = 0;
    if (!(p->capacity < INFINITY))
        return true;
    for (uint32_t r = 0; r < p->ranks; r++)
        most = fmax(most, a->bytes[r]);
    return most + a->shared_bytes + bytes <= p->capacity;
}

bool orr_table_place(const orr_table_problem *p, orr_table_assignment *a, orr_table_placer *placer,
                     uint32_t table, uint32_t candidate)
{
    const orr_table_candidate *c = &p->candidates[candidate];
    uint32_t *ranks = orr_table_ranks_of(p, a, table);
    if (!fits_shared(p, a, c->shared_bytes) || !find_ranks(p, a, placer, c, ranks))
        return false;
    orr_table_restore(p, a, table, candidate, ranks);
    return true;
}

/* Another candidate for a table whose own found no room: the cheapest that finds some. */
static bool place_other(const orr_table_problem *p, orr_table_assignment *a,
                        orr_table_placer *placer, uint32_t table)
{
    double tried = -INFINITY;
    for (;;) {
        uint32_t next = UINT32_MAX;
        double least = INFINITY;
        for (uint32_t k = p->first[table]; k < p->first[table + 1]; k++) {
            const double ns = orr_table_mean_ns(p, &p->candidates[k]);
            if (ns > tried && ns < least) {
                least = ns;
                next = k;
            }
        }
        if (next == UINT32_MAX)
            return false;
        if (orr_table_place(p, a, placer, table, next))
            return true;
        tried = least;
    }
}

bool orr_table_pack(const orr_table_problem *p, const uint32_t *choice, orr_table_placer *placer,
                    const uint32_t *order, uint32_t n_heavy, double load_ns,
                    orr_table_assignment *ret)
{
    bool placed = true;
    orr_table_assignment_clear(p, ret);
    for (uint32_t i = 0; i < p->n && placed; i++) {
        placer->load_ns = i < n_heavy ? load_ns : 0;
        placed = orr_table_place(p, ret, placer, order[i], choice[order[i]]) ||
                 place_other(p, ret, placer, order[i]);
    }
    placer->load_ns = 0;
    return placed;
}
