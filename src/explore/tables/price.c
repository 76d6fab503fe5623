/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "explore/tables/planner.h"

/* Prices of shards by the stages of a step: include/orrery/table_planner.h has the terms. */

#define ID_BYTES 8.0

/* The fewest aligned subtrees of the ranges from `begin` to `end`: vectors that a shard sends of a
 * bag. */
static uint32_t subtrees(uint32_t begin, uint32_t end)
{
    uint32_t n = 0;
    while (begin < end) {
        uint32_t count = begin == 0 ? ORR_EMBEDDING_RANGES : begin & -begin;
        while (begin + count > end)
            count /= 2;
        begin += count;
        n++;
    }
    return n;
}

/* One shard in numbers. */
typedef struct shard_size {
    double rows, lookups, distinct; /* of the shard, in a step */
    double samples;                 /* B */
    double vectors;                 /* of a bag */
    uint32_t columns;
} shard_size;

/* Expected number of different rows among m lookups that are all equally likely. */
static double distinct_rows(double rows, double m)
{
    return rows * -expm1(m * log1p(-1 / fmax(rows, 1 + 1e-9)));
}

static double range_share(const orr_table_planner_options *o, uint32_t table, uint32_t begin,
                          uint32_t end)
{
    double share = 0;
    if (o->range_share == NULL)
        return (double)(orr_embedding_range_begin(o->tables[table].rows, end) -
                        orr_embedding_range_begin(o->tables[table].rows, begin)) /
               (double)o->tables[table].rows;
    for (uint32_t k = begin; k < end; k++)
        share += (double)o->range_share[(size_t)table * ORR_EMBEDDING_RANGES + k];
    return share;
}

static shard_size size_of(const orr_table_planner_options *o, uint32_t table, uint32_t begin,
                          uint32_t end, uint32_t columns)
{
    const orr_embedding *e = &o->tables[table];
    const double samples = (double)o->samples * o->ranks, all = samples * e->pooling;
    const double rows = (double)(orr_embedding_range_begin(e->rows, end) -
                                 orr_embedding_range_begin(e->rows, begin));
    const double distinct =
        o->distinct != NULL ? o->distinct[table] : distinct_rows((double)e->rows, all);
    return (shard_size){.rows = rows,
                        .lookups = all * range_share(o, table, begin, end),
                        .distinct = fmin(distinct, (double)e->rows) * rows / (double)e->rows,
                        .samples = samples,
                        .vectors = subtrees(begin, end),
                        .columns = columns};
}

static double row_bytes(const orr_embedding *table, uint32_t columns, bool with_state)
{
    orr_embedding part = *table;
    part.columns = columns;
    if (!with_state)
        part.optimizer = ORR_ROW_OPTIMIZER_SGD; /* without any */
    return (double)orr_embedding_row_bytes(&part);
}

static double memory_ns(const orr_table_costs *c, double bytes)
{
    return 1e9 * bytes / c->memory_bytes_per_s;
}

static double cache_ns(const orr_table_costs *c, double bytes)
{
    return 1e9 * bytes / c->cache_bytes_per_s;
}

static double lookup_ns(const orr_table_costs *c, const orr_embedding *e, const shard_size *s)
{
    return s->lookups * c->lookup_ns + memory_ns(c, s->distinct * row_bytes(e, s->columns, false)) +
           cache_ns(c, s->lookups * s->columns * sizeof(float));
}

static double update_ns(const orr_table_costs *c, const orr_embedding *e, const shard_size *s)
{
    return s->distinct * c->row_ns +
           memory_ns(c, 2 * s->distinct * row_bytes(e, s->columns, true)) +
           cache_ns(c, s->lookups * s->columns * sizeof(float));
}

/* Vectors of all samples between a shard and the samples' ranks. Where a host joins the sums of its
 * `rows` shards first, a shard sends those of its part of the samples. */
static double vectors_ns(const orr_table_costs *c, const shard_size *s, uint8_t codec,
                         double vectors, uint32_t rows, bool in_host)
{
    const double bytes = s->samples * vectors *
                         (double)orr_embedding_codec_bytes((orr_embedding_codec)codec, s->columns);
    if (!in_host || !(c->host_bytes_per_s > 0) || rows <= 1)
        return 1e9 * bytes / c->exchange_bytes_per_s;
    return 1e9 * (bytes / c->host_bytes_per_s + bytes / vectors / rows / c->exchange_bytes_per_s);
}

static bool is_in_host(uint8_t kind)
{
    return kind == ORR_SHARDING_TABLE_ROW || kind == ORR_SHARDING_GRID;
}

void orr_table_shard_price(const orr_table_planner_options *o, uint32_t table,
                           const orr_table_split *split, uint32_t i, orr_table_price *ret)
{
    const orr_embedding *e = &o->tables[table];
    const uint32_t column = i / split->rows, row = i % split->rows;
    const shard_size s =
        size_of(o, table, orr_embedding_range_split(split->rows, row),
                orr_embedding_range_split(split->rows, row + 1),
                orr_embedding_column_split(e->columns, split->columns, column + 1) -
                    orr_embedding_column_split(e->columns, split->columns, column));
    const orr_table_costs *c = &o->costs;
    const bool in_host = is_in_host(split->kind);
    *ret = (orr_table_price){
        .stage_ns = {[ORR_TABLE_STAGE_IDS] =
                         o->pipeline >= 2 ? 0
                                          : 1e9 * ID_BYTES * s.lookups / c->exchange_bytes_per_s,
                     [ORR_TABLE_STAGE_LOOKUP] = c->shard_ns + lookup_ns(c, e, &s),
                     [ORR_TABLE_STAGE_BAGS] =
                         vectors_ns(c, &s, o->forward, s.vectors, split->rows, in_host),
                     [ORR_TABLE_STAGE_GRADIENTS] =
                         vectors_ns(c, &s, o->backward, 1, split->rows, in_host),
                     [ORR_TABLE_STAGE_UPDATE] = c->shard_ns + update_ns(c, e, &s)},
        .bytes = s.rows * row_bytes(e, s.columns, true) + s.lookups * ID_BYTES +
                 s.samples * (s.vectors + 1) * s.columns * sizeof(float)};
}

/* A table on every rank: its own samples' lookups, everyone's ids and gradients, and the update. */
static void data_price(const orr_table_planner_options *o, uint32_t table, orr_table_price *ret)
{
    const orr_embedding *e = &o->tables[table];
    const orr_table_costs *c = &o->costs;
    const shard_size all = size_of(o, table, 0, ORR_EMBEDDING_RANGES, e->columns);
    shard_size own = all;
    own.lookups /= o->ranks;
    own.distinct = fmin(all.distinct, own.lookups);
    const double vectors = all.samples * (double)orr_embedding_codec_bytes(
                                             (orr_embedding_codec)o->backward, e->columns);
    *ret = (orr_table_price){
        .stage_ns = {[ORR_TABLE_STAGE_IDS] =
                         o->pipeline >= 2 ? 0
                                          : 1e9 * ID_BYTES * all.lookups / c->gather_bytes_per_s,
                     [ORR_TABLE_STAGE_LOOKUP] = c->shard_ns + lookup_ns(c, e, &own),
                     [ORR_TABLE_STAGE_GRADIENTS] = 1e9 * vectors / c->gather_bytes_per_s,
                     [ORR_TABLE_STAGE_UPDATE] = c->shard_ns + update_ns(c, e, &all)},
        .bytes = all.rows * row_bytes(e, e->columns, true) + all.lookups * ID_BYTES +
                 all.samples * e->columns * sizeof(float)};
    if (o->ranks == 1)
        ret->stage_ns[ORR_TABLE_STAGE_IDS] = ret->stage_ns[ORR_TABLE_STAGE_GRADIENTS] = 0;
}

void orr_table_shared_price(const orr_table_planner_options *o, uint32_t table,
                            const orr_table_split *split, orr_table_price *ret)
{
    const orr_embedding *e = &o->tables[table];
    const double bag_bytes = (double)o->samples * e->columns * sizeof(float);
    double vectors = 0;
    *ret = (orr_table_price){.bytes = 0};
    if (split->kind == ORR_SHARDING_DATA)
        data_price(o, table, ret);
    for (uint32_t r = 0; r < split->rows; r++)
        vectors += subtrees(orr_embedding_range_split(split->rows, r),
                            orr_embedding_range_split(split->rows, r + 1));
    if (is_in_host(split->kind) && o->costs.host_bytes_per_s > 0)
        vectors = 1;
    /* The pooled embedding and its gradient; vectors that are added up to it. */
    ret->bytes += 2 * bag_bytes;
    if (split->kind != ORR_SHARDING_DATA)
        ret->stage_ns[ORR_TABLE_STAGE_BAGS] += cache_ns(&o->costs, (1 + vectors) * bag_bytes);
}

double orr_table_latency_ns(const orr_table_planner_options *o)
{
    if (o->pricing == ORR_TABLE_PRICING_TORCHREC || o->ranks == 1)
        return 0;
    return (o->pipeline >= 2 ? 2 : 3) * o->costs.exchange_ns;
}
