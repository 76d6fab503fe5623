/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tables/tables.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 16 };

orr_status orr_embedding_plan_check_ranks(const orr_embedding_plan *plan, orr_error *err)
{
    if (plan->n_tables == 0 || plan->n_tables > ORR_TABLES_MAX)
        return orr_fail(err, ORR_INVALID, "%u tables: there may be from 1 to %d", plan->n_tables,
                        ORR_TABLES_MAX);
    if (plan->ranks == 0 || plan->ranks > MOST_RANKS)
        return orr_fail(err, ORR_INVALID, "tables over %u ranks: there may be from 1 to %d",
                        plan->ranks, MOST_RANKS);
    if (plan->host_ranks != 0 && plan->ranks % plan->host_ranks != 0)
        return orr_fail(err, ORR_INVALID, "%u ranks are not whole hosts of %u", plan->ranks,
                        plan->host_ranks);
    if (plan->groups > MOST_RANKS / plan->ranks)
        return orr_fail(err, ORR_INVALID, "%u groups of %u ranks are more than %d ranks",
                        plan->groups, plan->ranks, MOST_RANKS);
    return ORR_OK;
}

static uint32_t host_of(const orr_embedding_plan *plan, uint32_t rank)
{
    return plan->host_ranks == 0 ? 0 : rank / plan->host_ranks;
}

/* Rows of a TABLE_ROW table, and rows of each column part of a GRID, stay within a host. */
static orr_status check_hosts(const orr_embedding_plan *plan, const orr_embedding *table,
                              const orr_embedding_placement *p, orr_error *err)
{
    const uint32_t rows = p->n_ranks / p->columns;
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        const uint32_t first = p->ranks[i / rows * rows];
        if (host_of(plan, p->ranks[i]) != host_of(plan, first))
            return orr_fail(err, ORR_INVALID,
                            "table '%s': %s keeps rows within a host of %u ranks, and ranks %u and "
                            "%u are of two",
                            table->name, orr_embedding_sharding_name(p->sharding), plan->host_ranks,
                            first, p->ranks[i]);
    }
    return ORR_OK;
}

/* How many parts of columns and of rows there may be, and that each has its rank. */
static orr_status check_parts(const orr_embedding *table, const orr_embedding_placement *p,
                              orr_error *err)
{
    const char *kind = orr_embedding_sharding_name(p->sharding);
    const uint32_t blocks = (table->columns + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
    const bool by_column = p->sharding == ORR_SHARDING_COLUMN || p->sharding == ORR_SHARDING_GRID;
    if (p->columns == 0 || (!by_column && p->columns != 1))
        return orr_fail(err, ORR_INVALID, "table '%s': %u parts of columns, where %s has %s",
                        table->name, p->columns, kind, by_column ? "one or more" : "one");
    if (p->columns > blocks)
        return orr_fail(err, ORR_INVALID,
                        "table '%s': %u parts of %u columns, which are blocks of %d: at most %u",
                        table->name, p->columns, table->columns, ORR_EMBEDDING_BLOCK, blocks);
    if (p->n_ranks == 0 || p->n_ranks % p->columns != 0)
        return orr_fail(err, ORR_INVALID, "table '%s': %u ranks for %u parts of columns",
                        table->name, p->n_ranks, p->columns);
    const uint32_t rows = p->n_ranks / p->columns;
    if (rows > ORR_EMBEDDING_RANGES)
        return orr_fail(err, ORR_INVALID, "table '%s': rows over %u ranks: at most %d", table->name,
                        rows, ORR_EMBEDDING_RANGES);
    if (rows != 1 && (p->sharding == ORR_SHARDING_TABLE || p->sharding == ORR_SHARDING_COLUMN))
        return orr_fail(err, ORR_INVALID, "table '%s': %s needs %u rank%s, not %u", table->name,
                        kind, p->columns, p->columns == 1 ? "" : "s", p->n_ranks);
    return ORR_OK;
}

orr_status orr_embedding_placement_check(const orr_embedding_plan *plan, uint32_t t, uint32_t *seen,
                                         orr_error *err)
{
    const orr_embedding *table = &plan->tables[t];
    const orr_embedding_placement *p = &plan->placements[t];
    if (p->sharding >= ORR_SHARDINGS)
        return orr_fail(err, ORR_INVALID, "table '%s': no kind of sharding has the number %u",
                        table->name, p->sharding);
    if (p->tier >= ORR_TIERS)
        return orr_fail(err, ORR_INVALID, "table '%s': no tier has the number %u", table->name,
                        p->tier);
    if (p->tier == ORR_TIER_DRAM && p->cached_rows != 0)
        return orr_fail(err, ORR_INVALID,
                        "table '%s': its rows are all in memory: cached_rows is for tiers byte and "
                        "block",
                        table->name);
    if (p->sharding == ORR_SHARDING_DATA)
        return p->n_ranks == 0 && p->columns <= 1
                   ? ORR_OK
                   : orr_fail(err, ORR_INVALID,
                              "table '%s': data puts it whole on every rank: name none",
                              table->name);
    ORR_TRY(check_parts(table, p, err));
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        const uint32_t rank = p->ranks[i];
        if (rank >= plan->ranks)
            return orr_fail(err, ORR_INVALID, "table '%s': rank %u is none of the %u", table->name,
                            rank, plan->ranks);
        if (seen[rank] == t + 1)
            return orr_fail(err, ORR_INVALID, "table '%s': rank %u is named twice", table->name,
                            rank);
        seen[rank] = t + 1;
    }
    return p->sharding == ORR_SHARDING_TABLE_ROW || p->sharding == ORR_SHARDING_GRID
               ? check_hosts(plan, table, p, err)
               : ORR_OK;
}

static orr_status check_placements(const orr_embedding_plan *plan, orr_arena *arena, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    uint32_t *seen = orr_arena_array(arena, uint32_t, plan->ranks);
    orr_status status = seen != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t t = 0; t < plan->n_tables && status == ORR_OK; t++)
        status = orr_embedding_placement_check(plan, t, seen, err);
    orr_arena_rewind(arena, mark);
    return status;
}

static uint32_t shards_of(const orr_embedding_plan *plan, const orr_embedding_placement *p)
{
    return p->sharding == ORR_SHARDING_DATA ? plan->ranks : p->n_ranks;
}

static void shard_table(const orr_embedding_plan *plan, uint32_t t,
                        const orr_embedding_placement *p, orr_embedding_shard *ret)
{
    const uint32_t columns = plan->tables[t].columns;
    const bool copies = p->sharding == ORR_SHARDING_DATA;
    const uint32_t rows = copies ? 1 : p->n_ranks / p->columns;
    for (uint32_t i = 0; i < p->n_shards; i++) {
        const uint32_t c = copies ? 0 : i / rows, r = i % rows;
        ret[i] = (orr_embedding_shard){
            .table = t,
            .rank = copies ? i : p->ranks[i],
            .range_begin = orr_embedding_range_split(rows, r),
            .range_end = orr_embedding_range_split(rows, r + 1),
            .column_begin = copies ? 0 : orr_embedding_column_split(columns, p->columns, c),
            .column_end = copies ? columns : orr_embedding_column_split(columns, p->columns, c + 1),
        };
    }
}

orr_status orr_embedding_plan_shard(orr_embedding_plan *plan, orr_arena *arena, orr_error *err)
{
    ORR_TRY(orr_embedding_plan_check_ranks(plan, err));
    ORR_TRY(check_placements(plan, arena, err));
    uint64_t n = 0;
    for (uint32_t t = 0; t < plan->n_tables; t++)
        n += shards_of(plan, &plan->placements[t]);
    if (n > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%llu shards are more than can be numbered",
                        (unsigned long long)n);
    orr_embedding_placement *placements =
        orr_arena_array(arena, orr_embedding_placement, plan->n_tables);
    orr_embedding_shard *shards = orr_arena_array(arena, orr_embedding_shard, n);
    if (placements == NULL || shards == NULL)
        return orr_fail_memory(err);
    memcpy(placements, plan->placements, plan->n_tables * sizeof *placements);
    for (uint32_t t = 0, first = 0; t < plan->n_tables; first += placements[t++].n_shards) {
        placements[t].first_shard = first;
        placements[t].n_shards = shards_of(plan, &placements[t]);
        shard_table(plan, t, &placements[t], shards + first);
    }
    plan->placements = placements;
    plan->shards = shards;
    plan->n_shards = (uint32_t)n;
    return ORR_OK;
}

typedef struct sized_table {
    int64_t bytes;
    uint32_t table;
} sized_table;

static int by_bytes_descending(const void *a, const void *b)
{
    const sized_table *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : (x->table > y->table) - (x->table < y->table);
}

static uint32_t emptiest(const double *load, uint32_t ranks)
{
    uint32_t least = 0;
    for (uint32_t r = 1; r < ranks; r++)
        if (load[r] < load[least])
            least = r;
    return least;
}

orr_status orr_embedding_plan_default(const orr_embedding *tables, uint32_t n, uint32_t ranks,
                                      orr_arena *arena, orr_embedding_plan *ret, orr_error *err)
{
    orr_embedding_plan plan = {
        .ranks = ranks, .groups = 1, .synchronize = 1, .n_tables = n, .tables = tables};
    ORR_TRY(orr_embedding_plan_check_ranks(&plan, err));
    orr_embedding_placement *placements = orr_arena_array(arena, orr_embedding_placement, n);
    uint32_t *rank_of = orr_arena_array(arena, uint32_t, n);
    sized_table *order = orr_arena_array(arena, sized_table, n);
    double *load = orr_arena_array(arena, double, ranks);
    if (placements == NULL || rank_of == NULL || order == NULL || load == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < n; t++)
        order[t] = (sized_table){orr_embedding_bytes(&tables[t]), t};
    qsort(order, n, sizeof *order, by_bytes_descending);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = order[i].table;
        rank_of[t] = emptiest(load, ranks);
        load[rank_of[t]] += (double)order[i].bytes;
        placements[t] = (orr_embedding_placement){
            .sharding = ORR_SHARDING_TABLE, .columns = 1, .ranks = &rank_of[t], .n_ranks = 1};
    }
    plan.placements = placements;
    ORR_TRY(orr_embedding_plan_shard(&plan, arena, err));
    *ret = plan;
    return ORR_OK;
}

const char *orr_embedding_plan_kinds(const orr_embedding_plan *plan, orr_arena *arena)
{
    uint32_t n[ORR_SHARDINGS] = {0};
    const char *text = "";
    for (uint32_t t = 0; t < plan->n_tables; t++)
        n[plan->placements[t].sharding]++;
    for (int k = 0; k < ORR_SHARDINGS && text != NULL; k++)
        if (n[k] > 0)
            text = orr_arena_printf(arena, "%s%s%u %s", text, *text != '\0' ? ", " : "", n[k],
                                    orr_embedding_sharding_name((orr_embedding_sharding)k));
    return text != NULL ? text : "";
}
