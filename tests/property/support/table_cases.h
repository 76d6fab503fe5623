/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TABLE_CASES_H
#define TESTS_TABLE_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/tables/tables.h"
#include "seeds.h"

/* Random embedding tables, sharding plans and lookups. What a sample looks up depends on the seed,
 * the step and its number alone. */
enum { TABLES_MOST = 12, STEPS = 4, STEPS_MOST = 12 };

typedef struct table_case {
    uint64_t seed;
    uint32_t n_tables;
    orr_embedding tables[TABLES_MOST];
    int64_t batch, columns;
} table_case;

static inline uint64_t draw(orr_random *r, uint64_t from, uint64_t to)
{
    return from + orr_random_below(r, to - from + 1);
}

static inline orr_embedding random_table(orr_random *r, uint32_t number)
{
    static const char *const NAMES[] = {"t0", "t1", "t2", "t3", "t4",  "t5",
                                        "t6", "t7", "t8", "t9", "t10", "t11"};
    static const uint8_t FORMATS[] = {ORR_ROW_FORMAT_FP32, ORR_ROW_FORMAT_FP32, ORR_ROW_FORMAT_FP16,
                                      ORR_ROW_FORMAT_BF16};
    const int64_t few = (int64_t)draw(r, 1, 40), many = (int64_t)draw(r, 1, 5000);
    const double pooling = (double)draw(r, 1, orr_random_below(r, 6) == 0 ? 40 : 6);
    orr_embedding table = {.name = NAMES[number],
                           .rows = orr_random_below(r, 2) == 0 ? few : many,
                           .columns = (uint32_t)draw(r, 1, 100),
                           .pooling = pooling,
                           .length = (uint8_t)orr_random_below(r, ORR_BAG_LENGTHS),
                           .format = FORMATS[orr_random_below(r, 4)],
                           .optimizer = (uint8_t)orr_random_below(r, ORR_ROW_OPTIMIZERS)};
    if (table.length != ORR_BAG_LENGTH_FIXED)
        table.pooling -= 0.5;
    return table;
}

static inline table_case table_case_of(uint64_t seed)
{
    orr_random r = orr_random_of(seed, 1);
    table_case c = {.seed = seed,
                    .n_tables = (uint32_t)draw(&r, 1, TABLES_MOST),
                    .batch = 12 * (int64_t)draw(&r, 1, 3)};
    for (uint32_t t = 0; t < c.n_tables; t++) {
        c.tables[t] = random_table(&r, t);
        c.columns += c.tables[t].columns;
    }
    return c;
}

static inline uint32_t blocks_of(uint32_t columns)
{
    return (columns + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
}

static inline orr_embedding_placement random_placement(orr_random *r, const orr_embedding *table,
                                                       uint32_t ranks, orr_arena *arena)
{
    uint32_t *rank = orr_arena_array(arena, uint32_t, ranks);
    orr_embedding_placement p = {.sharding = (uint8_t)orr_random_below(r, ORR_SHARDINGS),
                                 .columns = 1,
                                 .ranks = rank,
                                 .n_ranks = 1};
    const uint32_t blocks = blocks_of(table->columns);
    for (uint32_t i = 0; i < ranks; i++) {
        const uint32_t at = (uint32_t)orr_random_below(r, i + 1);
        rank[i] = rank[at];
        rank[at] = i;
    }
    if (p.sharding == ORR_SHARDING_DATA)
        p.n_ranks = 0;
    if (p.sharding == ORR_SHARDING_ROW || p.sharding == ORR_SHARDING_TABLE_ROW)
        p.n_ranks = (uint32_t)draw(r, 1, ranks);
    if (p.sharding == ORR_SHARDING_COLUMN || p.sharding == ORR_SHARDING_GRID)
        p.n_ranks = p.columns = (uint32_t)draw(r, 1, blocks < ranks ? blocks : ranks);
    if (p.sharding == ORR_SHARDING_GRID)
        p.n_ranks *= (uint32_t)draw(r, 1, ranks / p.columns);
    return p;
}

static inline orr_embedding_plan random_table_plan(const table_case *c, uint32_t ranks,
                                                   orr_random *r, orr_arena *arena)
{
    orr_embedding_placement *p = orr_arena_array(arena, orr_embedding_placement, c->n_tables);
    orr_error err = {0};
    for (uint32_t t = 0; t < c->n_tables; t++)
        p[t] = random_placement(r, &c->tables[t], ranks, arena);
    orr_embedding_plan plan = {.ranks = ranks,
                               .groups = 1,
                               .synchronize = 1,
                               .pipeline = (uint8_t)orr_random_below(r, 4),
                               .n_tables = c->n_tables,
                               .tables = c->tables,
                               .placements = p};
    if (orr_embedding_plan_shard(&plan, arena, &err) != ORR_OK)
        seed_fail(c->seed, "%s", err.text);
    return plan;
}

static inline orr_random random_of_sample(const table_case *c, uint64_t step, int64_t sample,
                                          uint32_t what)
{
    return orr_random_of(c->seed, 2 + (step << 40) + ((uint64_t)sample << 16) + what);
}

static inline int32_t random_length(const orr_embedding *table, orr_random *r)
{
    const double u = orr_random_unit(r), mean = table->pooling;
    switch ((orr_bag_length)table->length) {
    case ORR_BAG_LENGTH_GEOMETRIC:
        return (int32_t)(log(1 - u) / log(mean / (1 + mean)));
    case ORR_BAG_LENGTH_UNIFORM:
        return (int32_t)draw(r, 0, (uint64_t)(2 * mean));
    default:
        return (int32_t)mean;
    }
}

/* Lookups of samples [first, first + n): half of them in the first few rows, so that rows have many
 * lookups. */
static inline orr_tables_batch lookups_of_samples(const table_case *c, uint64_t step, int64_t first,
                                                  int64_t n, orr_arena *arena)
{
    enum { BAG_MOST = 1000 };
    int32_t *lengths = orr_arena_array(arena, int32_t, (size_t)(c->n_tables * n));
    int64_t *ids = orr_arena_array(arena, int64_t, (size_t)(c->n_tables * n * BAG_MOST)), at = 0;
    for (uint32_t t = 0; t < c->n_tables; t++)
        for (int64_t s = 0; s < n; s++) {
            const uint64_t rows = (uint64_t)c->tables[t].rows;
            orr_random r = random_of_sample(c, step, first + s, t);
            const int32_t length = random_length(&c->tables[t], &r);
            lengths[t * n + s] = length < BAG_MOST ? length : BAG_MOST;
            for (int32_t i = 0; i < lengths[t * n + s]; i++)
                ids[at++] = (int64_t)orr_random_below(
                    &r, orr_random_below(&r, 2) == 0 && rows > 3 ? 3 : rows);
        }
    return (orr_tables_batch){lengths, ids};
}

/* The gradient of a sample's bags: in part of the bags, so that errors are carried on. */
static inline void gradient_of_sample(const table_case *c, uint64_t step, int64_t sample,
                                      const float *bag, float *ret)
{
    orr_random r = random_of_sample(c, step, sample, UINT16_MAX);
    for (int64_t i = 0; i < c->columns; i++)
        ret[i] = (float)(orr_random_unit(&r) - 0.5) * 0.2f + 0.05f * bag[i];
}

static inline orr_update update_of_step(uint64_t step)
{
    return (orr_update){.rate = 0.05,
                        .beta1 = 0.9,
                        .beta2 = 0.99,
                        .epsilon = 0.01,
                        .step = (int64_t)step + 1,
                        .gradient_scale = 0.5};
}

#endif /* TESTS_TABLE_CASES_H */
