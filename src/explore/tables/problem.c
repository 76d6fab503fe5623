/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "explore/tables/planner.h"

/* Candidates of every table: the kinds that it may have, each with the numbers of parts that are
 * worth trying. */

typedef struct maker {
    const orr_table_planner_options *o;
    orr_arena *arena;
    orr_array(orr_table_candidate) candidates;
    uint32_t host_ranks, hosts;
    double capacity;
    double smallest_bytes; /* of this table: the least that a rank needs with any candidate */
    struct orr_table_dropped *dropped;
    orr_error *err;
} maker;

void orr_table_shard_price_of(const orr_table_planner_options *o, uint32_t table,
                              const orr_table_split *split, uint32_t i, orr_table_price *ret)
{
    orr_table_shard_price(o, table, split, i, ret);
    if (o->pricing == ORR_TABLE_PRICING_TORCHREC) {
        orr_table_price price;
        orr_torchrec_shard_price(o, table, split, i, &price);
        price.bytes = ret->bytes;
        *ret = price;
    }
}

void orr_table_shared_price_of(const orr_table_planner_options *o, uint32_t table,
                               const orr_table_split *split, orr_table_price *ret)
{
    orr_table_shared_price(o, table, split, ret);
    if (o->pricing == ORR_TABLE_PRICING_TORCHREC) {
        orr_table_price price;
        orr_torchrec_shared_price(o, table, split, &price);
        price.bytes = ret->bytes;
        *ret = price;
    }
}

orr_status orr_table_candidate_make(const orr_table_planner_options *o, uint32_t table,
                                    const orr_table_split *split, orr_arena *arena,
                                    orr_table_candidate *ret, orr_error *err)
{
    const uint32_t n = orr_split_shards(split);
    double *ns = orr_arena_array(arena, double, n), *bytes = orr_arena_array(arena, double, n);
    orr_table_price price;
    if (ns == NULL || bytes == NULL)
        return orr_fail_memory(err);
    orr_table_shared_price_of(o, table, split, &price);
    orr_table_candidate c = {.split = *split,
                             .n = n,
                             .in_host = split->kind == ORR_SHARDING_TABLE_ROW ||
                                        split->kind == ORR_SHARDING_GRID,
                             .ns = ns,
                             .bytes = bytes,
                             .shared_ns = orr_table_price_ns(&price),
                             .shared_bytes = price.bytes};
    for (uint32_t i = 0; i < n; i++) {
        orr_table_shard_price_of(o, table, split, i, &price);
        ns[i] = orr_table_price_ns(&price);
        bytes[i] = price.bytes;
        c.sum_ns += ns[i];
        c.sum_bytes += bytes[i];
        c.largest_ns = fmax(c.largest_ns, ns[i]);
        c.largest_bytes = fmax(c.largest_bytes, bytes[i]);
    }
    *ret = c;
    return ORR_OK;
}

static orr_status add(maker *m, uint32_t table, uint8_t kind, uint32_t columns, uint32_t rows)
{
    const orr_table_split split = {.kind = kind, .columns = columns, .rows = rows};
    const orr_arena_mark mark = orr_arena_get_mark(m->arena);
    orr_table_candidate c;
    ORR_TRY(orr_table_candidate_make(m->o, table, &split, m->arena, &c, m->err));
    const double needed = c.shared_bytes + c.largest_bytes;
    m->smallest_bytes = fmin(m->smallest_bytes, needed);
    if (needed > m->capacity) {
        const double mean_ns = c.shared_ns + c.sum_ns / m->o->ranks;
        if (!(m->dropped[table].bytes > 0) || mean_ns < m->dropped[table].mean_ns)
            m->dropped[table] = (struct orr_table_dropped){mean_ns, needed, kind};
        orr_arena_rewind(m->arena, mark);
        return ORR_OK;
    }
    return orr_array_push(&m->candidates, c) ? ORR_OK : orr_fail_memory(m->err);
}

/* The next number of parts to try after n: all to 8, then 1.25 to 1.5 times as many; `most` last.
 */
static uint32_t next_parts(uint32_t n, uint32_t most)
{
    const uint32_t next = n < 8 ? n + 1 : n + n / 4;
    return n < most && next > most ? most : next;
}

/* Numbers of row parts: powers of two, which are whole subtrees of ranges, and `most`. TorchRec
 * knows `most` alone. */
static uint32_t next_row_parts(const maker *m, uint32_t n, uint32_t most)
{
    if (m->o->pricing == ORR_TABLE_PRICING_TORCHREC)
        return n < most ? most : most + 1;
    const uint32_t next = n < 2 ? 2 : 2 * n;
    return n < most && next > most ? most : next;
}

static orr_status add_kind(maker *m, uint32_t table, uint8_t kind)
{
    const uint32_t ranks = m->o->ranks,
                   blocks = (m->o->tables[table].columns + ORR_EMBEDDING_BLOCK - 1) /
                            ORR_EMBEDDING_BLOCK;
    const uint32_t in_host =
        m->host_ranks < ORR_EMBEDDING_RANGES ? m->host_ranks : ORR_EMBEDDING_RANGES;
    const uint32_t rows = ranks < ORR_EMBEDDING_RANGES ? ranks : ORR_EMBEDDING_RANGES;
    switch (kind) {
    case ORR_SHARDING_TABLE:
        return add(m, table, kind, 1, 1);
    case ORR_SHARDING_DATA:
        return add(m, table, kind, 1, 1);
    case ORR_SHARDING_ROW:
        for (uint32_t n = next_row_parts(m, 1, rows); n <= rows; n = next_row_parts(m, n, rows))
            ORR_TRY(add(m, table, kind, 1, n));
        return ORR_OK;
    case ORR_SHARDING_COLUMN:
        for (uint32_t n = 2, most = blocks < ranks ? blocks : ranks; n <= most;
             n = next_parts(n, most))
            ORR_TRY(add(m, table, kind, n, 1));
        return ORR_OK;
    case ORR_SHARDING_TABLE_ROW:
        for (uint32_t n = next_row_parts(m, 1, in_host); n <= in_host;
             n = next_row_parts(m, n, in_host))
            ORR_TRY(add(m, table, kind, 1, n));
        return ORR_OK;
    default: /* GRID: each column part on all ranks of a host */
        for (uint32_t n = 2, most = blocks < m->hosts ? blocks : m->hosts;
             n <= most && in_host == m->host_ranks && in_host > 1; n = next_parts(n, most))
            ORR_TRY(add(m, table, kind, n, in_host));
        return ORR_OK;
    }
}

static bool within(double a, double b)
{
    return a <= b * (1 + 1e-12);
}

/* Whether `a` serves wherever `b` does and never costs more: the same number of shards, and no
 * host to keep to that `b` need not. */
static bool replaces(const orr_table_candidate *a, const orr_table_candidate *b)
{
    if (a->n != b->n || (a->in_host && !b->in_host) || !within(a->shared_ns, b->shared_ns) ||
        !within(a->shared_bytes, b->shared_bytes))
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!within(a->ns[i], b->ns[i]) || !within(a->bytes[i], b->bytes[i]))
            return false;
    return true;
}

static void remove_replaced(maker *m, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < m->candidates.n; i++) {
        const orr_table_candidate c = m->candidates.at[i];
        bool replaced = false;
        for (size_t k = first; k < m->candidates.n && !replaced; k++)
            replaced = k != i && replaces(&m->candidates.at[k], &c) &&
                       (k < i || !replaces(&c, &m->candidates.at[k]));
        if (!replaced)
            m->candidates.at[kept++] = c;
    }
    m->candidates.n = kept;
}

static orr_status add_table(maker *m, uint32_t table)
{
    const uint8_t kinds = m->o->kinds != NULL ? m->o->kinds[table] : (1 << ORR_SHARDINGS) - 1;
    const size_t first = m->candidates.n;
    m->smallest_bytes = INFINITY;
    for (uint8_t kind = 0; kind < ORR_SHARDINGS; kind++)
        if (kinds >> kind & 1)
            ORR_TRY(add_kind(m, table, kind));
    if (m->candidates.n == first && !(m->smallest_bytes < INFINITY))
        return orr_fail(m->err, ORR_INVALID,
                        "table '%s': none of the kinds that it may have can be on %u ranks",
                        m->o->tables[table].name, m->o->ranks);
    remove_replaced(m, first);
    return ORR_OK;
}

static void sum_least(orr_table_problem *p, double *table_shared)
{
    for (uint32_t t = 0; t < p->n; t++) {
        double ns = INFINITY, bytes = INFINITY;
        for (uint32_t k = p->first[t]; k < p->first[t + 1]; k++) {
            ns = fmin(ns, p->candidates[k].shared_ns);
            bytes = fmin(bytes, p->candidates[k].shared_bytes);
            if (p->candidates[k].n > p->most_shards)
                p->most_shards = p->candidates[k].n;
        }
        table_shared[t] = ns;
        p->least_shared_ns += ns;
        p->least_shared_bytes += bytes;
    }
}

static orr_status finish(maker *m, uint32_t *first, orr_table_problem *ret)
{
    orr_table_problem p = *ret;
    double *shared = orr_arena_array(m->arena, double, p.n);
    orr_table_candidate *all = orr_arena_array(m->arena, orr_table_candidate, m->candidates.n);
    if (all == NULL || shared == NULL)
        return orr_fail_memory(m->err);
    memcpy(all, m->candidates.at, m->candidates.n * sizeof *all);
    p.candidates = all;
    p.first = first;
    p.table_shared_ns = shared;
    sum_least(&p, shared);
    *ret = p;
    return ORR_OK;
}

orr_status orr_table_problem_make(const orr_table_planner_options *o, orr_arena *arena,
                                  orr_table_problem *ret, uint32_t *ret_refused, double *ret_bytes,
                                  orr_error *err)
{
    maker m = {.o = o,
               .arena = arena,
               .host_ranks = o->host_ranks > 0 ? o->host_ranks : o->ranks,
               .capacity = o->memory_bytes > 0 ? (double)o->memory_bytes : INFINITY,
               .err = err};
    m.hosts = o->ranks / m.host_ranks;
    orr_table_problem p = {.o = o,
                           .n = o->n_tables,
                           .ranks = o->ranks,
                           .host_ranks = m.host_ranks,
                           .most_shards = 1,
                           .capacity = m.capacity};
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)p.n + 1);
    m.dropped = orr_arena_array(arena, struct orr_table_dropped, p.n);
    p.dropped = m.dropped;
    orr_status status = first != NULL && m.dropped != NULL ? ORR_OK : orr_fail_memory(err);
    *ret_refused = UINT32_MAX;
    for (uint32_t t = 0; t < p.n && status == ORR_OK; t++) {
        first[t] = (uint32_t)m.candidates.n;
        status = add_table(&m, t);
        if (status == ORR_OK && m.candidates.n == first[t]) {
            *ret_refused = t;
            *ret_bytes = m.smallest_bytes;
            goto out;
        }
        first[t + 1] = (uint32_t)m.candidates.n;
    }
    if (status == ORR_OK)
        status = finish(&m, first, &p);
    if (status == ORR_OK)
        *ret = p;
out:
    orr_array_done(&m.candidates);
    return status;
}
