/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model/tables/tables.h"

/* Tables in memory and tables in storage, where nobody said which: small tables are looked up as
 * often as large ones, so that a byte of memory serves most lookups where the smallest are whole in
 * it, and the row caches of the large ones have the rest. */

int64_t orr_embedding_shard_bytes(const orr_embedding_plan *plan, const orr_embedding_shard *s)
{
    const orr_embedding *t = &plan->tables[s->table];
    const uint32_t columns = s->column_end - s->column_begin;
    const int64_t rows = orr_embedding_range_begin(t->rows, s->range_end) -
                         orr_embedding_range_begin(t->rows, s->range_begin);
    const int64_t row = orr_row_format_bytes((orr_row_format)t->format, columns) +
                        orr_row_optimizer_bytes((orr_row_optimizer)t->optimizer, columns);
    int64_t bytes;
    return columns == 0 ? 0 : __builtin_mul_overflow(rows, row, &bytes) ? INT64_MAX : bytes;
}

static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Adds the shards of a table to the ranks, if none then has more than `most`. */
static bool fits(const orr_embedding_plan *plan, uint32_t table, int64_t most, int64_t *load)
{
    const orr_embedding_placement *p = &plan->placements[table];
    const orr_embedding_shard *shards = plan->shards + p->first_shard;
    for (uint32_t i = 0; i < p->n_shards; i++)
        if (add(load[shards[i].rank], orr_embedding_shard_bytes(plan, &shards[i])) > most)
            return false;
    for (uint32_t i = 0; i < p->n_shards; i++)
        load[shards[i].rank] += orr_embedding_shard_bytes(plan, &shards[i]);
    return true;
}

typedef struct sized_table {
    int64_t bytes;
    uint32_t table;
} sized_table;

static int by_bytes(const void *a_, const void *b_)
{
    const sized_table *a = a_, *b = b_;
    return a->bytes != b->bytes ? (a->bytes > b->bytes) - (a->bytes < b->bytes)
                                : (a->table > b->table) - (a->table < b->table);
}

orr_status orr_embedding_plan_place_rows(orr_embedding_plan *plan, orr_tier tier, int64_t memory,
                                         orr_arena *arena, uint32_t *ret_n, orr_error *err)
{
    const uint32_t n = plan->n_tables;
    orr_embedding_placement *placements = orr_arena_array(arena, orr_embedding_placement, n);
    sized_table *order = orr_arena_array(arena, sized_table, n);
    int64_t *load = orr_arena_array(arena, int64_t, plan->ranks);
    uint32_t all = 0;
    if (placements == NULL || order == NULL || load == NULL)
        return orr_fail_memory(err);
    memcpy(placements, plan->placements, n * sizeof *placements);
    for (uint32_t t = 0; t < n; t++)
        order[t] = (sized_table){orr_embedding_bytes(&plan->tables[t]), t};
    qsort(order, n, sizeof *order, by_bytes);
    while (all < n && fits(plan, order[all].table, memory, load))
        all++;
    *ret_n = 0;
    memset(load, 0, plan->ranks * sizeof *load);
    for (uint32_t i = 0; i < n && all < n; i++)
        if (!fits(plan, order[i].table, memory / 2, load)) {
            placements[order[i].table].tier = (uint8_t)tier;
            ++*ret_n;
        }
    plan->placements = placements;
    return ORR_OK;
}
