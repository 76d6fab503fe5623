/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_RANDOM_TABLES_H
#define TESTS_RANDOM_TABLES_H

#include <math.h>
#include <stdio.h>

#include <orrery/table_planner.h>

#include "base/philox.h"

/* Random embedding tables, machines for them, and sharding plans of all kinds. Sizes are spread as
 * those of recommendation models are: rows over five decades, lookups over two (arXiv 2104.05158,
 * figure 5). */
typedef struct random_tables {
    orr_random random;
    orr_arena *arena;
    orr_embedding *tables;
    orr_table_planner_options options;
} random_tables;

static inline double random_between(orr_random *random, double low, double high)
{
    return low * pow(high / low, orr_random_unit(random));
}

static inline void draw_table(random_tables *r, uint32_t t)
{
    static const uint32_t columns[] = {16, 32, 64, 64, 128, 128, 256};
    static const uint8_t optimizers[] = {ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD, ORR_ROW_OPTIMIZER_SGD,
                                         ORR_ROW_OPTIMIZER_ADAGRAD};
    r->tables[t] = (orr_embedding){
        .name = orr_arena_printf(r->arena, "t%u", t),
        .rows = (int64_t)random_between(&r->random, 1e3, 1e8),
        .columns = columns[orr_random_below(&r->random, 7)],
        .pooling = floor(random_between(&r->random, 1, 100)),
        .optimizer = optimizers[orr_random_below(&r->random, 3)],
    };
}

/* Eight A100 of 80 GB in a host, of published rates; devices are equal in all cases. */
static inline orr_table_costs random_tables_costs(void)
{
    return (orr_table_costs){.memory_bytes_per_s = 1.4e12,
                             .cache_bytes_per_s = 4e12,
                             .shard_ns = 4000,
                             .exchange_ns = 30000,
                             .exchange_bytes_per_s = 20e9,
                             .gather_ns = 30000,
                             .gather_bytes_per_s = 20e9,
                             .host_bytes_per_s = 200e9,
                             .source = "a test's"};
}

/* Bytes that a table takes on all ranks together, whole on one of them. */
static inline double random_tables_bytes(const orr_table_planner_options *o, uint32_t t)
{
    const orr_embedding *e = &o->tables[t];
    const double samples = (double)o->samples * o->ranks;
    return (double)orr_embedding_bytes(e) + samples * (16.0 * e->columns + 8 * e->pooling);
}

/* Memory: from a little more than the mean rank needs to four times as much; each fourth case has
 * no limit. */
static inline void draw_tables(random_tables *r, uint32_t n, uint32_t ranks, uint32_t host_ranks,
                               uint64_t seed, orr_arena *arena)
{
    double bytes = 0;
    r->random = orr_random_of(seed, 1);
    r->arena = arena;
    r->tables = orr_arena_array(arena, orr_embedding, n);
    orr_table_planner_options_init(&r->options);
    r->options.tables = r->tables;
    r->options.n_tables = n;
    r->options.ranks = ranks;
    r->options.host_ranks = host_ranks;
    r->options.samples = 512;
    r->options.costs = random_tables_costs();
    for (uint32_t t = 0; t < n; t++) {
        draw_table(r, t);
        bytes += random_tables_bytes(&r->options, t);
    }
    const double slack = random_between(&r->random, 1.02, 4);
    if (orr_random_below(&r->random, 4) != 0)
        r->options.memory_bytes = (int64_t)(slack * bytes / ranks);
}

/* A placement of a table of a kind that it can have; all kinds are equally likely. */
static inline orr_embedding_placement draw_placement(orr_random *random, const orr_embedding *table,
                                                     uint32_t ranks, uint32_t host_ranks,
                                                     orr_arena *arena)
{
    const uint32_t blocks = (table->columns + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
    const uint32_t in_host = host_ranks > 0 ? host_ranks : ranks, hosts = ranks / in_host;
    orr_embedding_placement p = {.sharding = (uint8_t)orr_random_below(random, ORR_SHARDINGS),
                                 .columns = 1};
    uint32_t parts = 1, rows = 1, *to = orr_arena_array(arena, uint32_t, ranks);
    const uint32_t most = ranks < ORR_EMBEDDING_RANGES ? ranks : ORR_EMBEDDING_RANGES;
    if (p.sharding == ORR_SHARDING_ROW)
        rows = 1 + (uint32_t)orr_random_below(random, most);
    if (p.sharding == ORR_SHARDING_TABLE_ROW || p.sharding == ORR_SHARDING_GRID)
        rows = 1 + (uint32_t)orr_random_below(random, in_host);
    if (p.sharding == ORR_SHARDING_COLUMN)
        parts = 1 + (uint32_t)orr_random_below(random, blocks < ranks ? blocks : ranks);
    if (p.sharding == ORR_SHARDING_GRID)
        parts = 1 + (uint32_t)orr_random_below(random, blocks < hosts ? blocks : hosts);
    const bool by_host = p.sharding == ORR_SHARDING_TABLE_ROW || p.sharding == ORR_SHARDING_GRID;
    const uint32_t first = (uint32_t)orr_random_below(random, by_host ? hosts : ranks);
    for (uint32_t i = 0; i < parts * rows; i++)
        to[i] = by_host ? (first + i / rows) % hosts * in_host + i % rows : (first + i) % ranks;
    p.columns = parts;
    p.ranks = to;
    p.n_ranks = p.sharding == ORR_SHARDING_DATA ? 0 : parts * rows;
    return p;
}

/* A random plan of the options' tables; plans differ widely in what they cost: some keep to one
 * kind, some to few ranks. */
static inline orr_status draw_table_plan(const orr_table_planner_options *o, orr_random *random,
                                         orr_arena *arena, orr_embedding_plan *ret, orr_error *err)
{
    orr_embedding_placement *placements =
        orr_arena_array(arena, orr_embedding_placement, o->n_tables);
    const uint32_t only = (uint32_t)orr_random_below(random, 2 * ORR_SHARDINGS);
    *ret = (orr_embedding_plan){.ranks = o->ranks,
                                .host_ranks = o->host_ranks,
                                .groups = 1,
                                .synchronize = 1,
                                .forward = o->forward,
                                .backward = o->backward,
                                .pipeline = o->pipeline,
                                .n_tables = o->n_tables,
                                .tables = o->tables,
                                .placements = placements};
    for (uint32_t t = 0; t < o->n_tables; t++)
        do
            placements[t] = draw_placement(random, &o->tables[t], o->ranks, o->host_ranks, arena);
        while (only < ORR_SHARDINGS && placements[t].sharding != only);
    return orr_embedding_plan_shard(ret, arena, err);
}

#endif /* TESTS_RANDOM_TABLES_H */
