/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "explore/tables/planner.h"
#include "model/tables/load.h"

/* Prices of shards by the stages of a step: include/orrery/table_planner.h has the terms. */

#define ID_BYTES 8.0

/* One shard in numbers. */
typedef struct shard_size {
    double rows, lookups, distinct; /* of the shard, in a step */
    double samples;                 /* B */
    double vectors;                 /* of a bag */
    double fetch_ns;                /* of a distinct row */
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
                        .vectors = orr_embedding_subtrees(begin, end),
                        .fetch_ns = o->fetch_ns != NULL ? o->fetch_ns[table] : 0,
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

static double sectors(const orr_table_costs *c, double bytes)
{
    return c->sector_bytes > 0 ? c->sector_bytes * ceil(bytes / c->sector_bytes) : bytes;
}

static double memory_ns(const orr_table_costs *c, double bytes)
{
    return 1e9 * bytes / c->memory_bytes_per_s;
}

/* Bytes that were touched just before: from caches, as far as they hold them. */
static double again_ns(const orr_table_costs *c, double bytes)
{
    return 1e9 * bytes * (1 - c->miss_frac) / c->cache_bytes_per_s +
           memory_ns(c, bytes * c->miss_frac);
}

static double touched_bytes(const orr_table_costs *c, const orr_embedding *e, const shard_size *s)
{
    return s->distinct * sectors(c, row_bytes(e, s->columns, false));
}

static double repeated_bytes(const orr_table_costs *c, const orr_embedding *e, const shard_size *s)
{
    return fmax(0, s->lookups - s->distinct) * sectors(c, row_bytes(e, s->columns, false));
}

static double lookup_ns(const orr_table_costs *c, const orr_embedding *e, const shard_size *s)
{
    return s->lookups * c->lookup_ns + memory_ns(c, touched_bytes(c, e, s)) +
           again_ns(c, repeated_bytes(c, e, s)) +
           memory_ns(c, s->samples * s->vectors * s->columns * sizeof(float));
}

/* Gradients are read for each lookup, in the order of rows. A cache of known size is taken to hold
 * rows alone, as in simulated steps. */
static double update_ns(const orr_table_costs *c, const orr_embedding *e, const shard_size *s)
{
    const double gradients = s->lookups * s->columns * sizeof(float);
    const double row = row_bytes(e, s->columns, false),
                 state = row_bytes(e, s->columns, true) - row;
    return s->distinct * (c->row_ns + s->fetch_ns) + s->lookups * c->sort_ns +
           memory_ns(c, 2 * s->distinct * (sectors(c, row) + sectors(c, state))) +
           (c->cache_bytes > 0 ? memory_ns(c, gradients) : again_ns(c, gradients));
}

/* Sums of squares of the blocks of a row, where its columns are on several ranks and its optimizer
 * has one state for all of them. */
static double squares_ns(const orr_table_costs *c, const orr_embedding *e, const shard_size *s)
{
    const bool whole_row = e->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD ||
                           e->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
    const double blocks = ceil((double)s->columns / ORR_EMBEDDING_BLOCK);
    return whole_row && s->columns < e->columns
               ? 1e9 * s->distinct * blocks * sizeof(float) / c->exchange_bytes_per_s
               : 0;
}

double orr_table_miss_frac(const orr_table_planner_options *o)
{
    double touched = 0;
    if (!(o->costs.cache_bytes > 0))
        return o->costs.miss_frac;
    for (uint32_t t = 0; t < o->n_tables; t++) {
        const orr_embedding *e = &o->tables[t];
        const shard_size s = size_of(o, t, 0, ORR_EMBEDDING_RANGES, e->columns);
        touched += touched_bytes(&o->costs, e, &s) / o->ranks;
    }
    return 1 - fmin(1, o->costs.cache_bytes / fmax(touched, 1));
}

double orr_table_more_misses_ns(const orr_table_costs *c, double touched, double repeated)
{
    const double miss_frac = 1 - fmin(1, c->cache_bytes / fmax(touched, 1));
    return c->cache_bytes > 0 ? 1e9 * repeated * (miss_frac - c->miss_frac) *
                                    (1 / c->memory_bytes_per_s - 1 / c->cache_bytes_per_s)
                              : 0;
}

/* Vectors of all samples between a shard and the samples' ranks. Where a host joins the sums of its
 * `rows` shards first (`in_host`), a shard sends those of its part of the samples; what that takes
 * within the host is in *ret_host_ns, too. */
static double vectors_ns(const orr_table_costs *c, const shard_size *s, uint8_t codec,
                         double vectors, uint32_t rows, bool in_host, double *ret_host_ns)
{
    const double bytes = s->samples * vectors *
                         (double)orr_embedding_codec_bytes((orr_embedding_codec)codec, s->columns);
    if (!in_host || !(c->host_bytes_per_s > 0) || rows <= 1)
        return 1e9 * bytes / c->exchange_bytes_per_s;
    *ret_host_ns = 1e9 * bytes / c->host_bytes_per_s;
    return *ret_host_ns + 1e9 * bytes / vectors / rows / c->exchange_bytes_per_s;
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
    double apart[ORR_TABLE_TRANSFERS] = {0};
    const double bags_ns = vectors_ns(c, &s, o->forward, s.vectors, split->rows, in_host,
                                      &apart[ORR_TABLE_TRANSFER_HOST_BAGS]);
    const double gradients_ns = vectors_ns(c, &s, o->backward, 1, split->rows, in_host,
                                           &apart[ORR_TABLE_TRANSFER_HOST_GRADIENTS]);
    *ret = (orr_table_price){
        .stage_ns = {[ORR_TABLE_STAGE_IDS] =
                         o->pipeline >= 2 ? 0
                                          : 1e9 * ID_BYTES * s.lookups / c->exchange_bytes_per_s,
                     [ORR_TABLE_STAGE_LOOKUP] = c->shard_ns + lookup_ns(c, e, &s),
                     [ORR_TABLE_STAGE_BAGS] = bags_ns,
                     [ORR_TABLE_STAGE_GRADIENTS] = gradients_ns,
                     [ORR_TABLE_STAGE_UPDATE] =
                         c->shard_ns + update_ns(c, e, &s) + squares_ns(c, e, &s)},
        .bytes = s.rows * row_bytes(e, s.columns, true) + s.lookups * ID_BYTES +
                 s.samples * (s.vectors + 1) * s.columns * sizeof(float),
        .touched_bytes = touched_bytes(c, e, &s),
        .repeated_bytes = repeated_bytes(c, e, &s)};
    memcpy(ret->apart_ns, apart, sizeof apart);
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
        vectors += orr_embedding_subtrees(orr_embedding_range_split(split->rows, r),
                                          orr_embedding_range_split(split->rows, r + 1));
    if (is_in_host(split->kind) && o->costs.host_bytes_per_s > 0)
        vectors = 1;
    /* The pooled embedding and its gradient; vectors that are added up to it. */
    ret->bytes += 2 * bag_bytes;
    if (split->kind != ORR_SHARDING_DATA)
        ret->stage_ns[ORR_TABLE_STAGE_BAGS] += again_ns(&o->costs, (1 + vectors) * bag_bytes);
}

double orr_table_latency_ns(const orr_table_planner_options *o)
{
    if (o->pricing == ORR_TABLE_PRICING_TORCHREC || o->ranks == 1)
        return 0;
    return (o->pipeline >= 2 ? 2 : 3) * o->costs.exchange_ns;
}

double orr_table_kind_latency_ns(const orr_table_planner_options *o, uint32_t kinds)
{
    const bool hosts = (kinds & (1u << ORR_SHARDING_TABLE_ROW | 1u << ORR_SHARDING_GRID)) != 0 &&
                       o->costs.host_bytes_per_s > 0;
    const bool sharded = (kinds & ~(1u << ORR_SHARDING_DATA)) != 0;
    if (o->pricing == ORR_TABLE_PRICING_TORCHREC || o->ranks == 1)
        return 0;
    return (sharded ? orr_table_latency_ns(o) : 0) + (hosts ? 2 * o->costs.host_ns : 0) +
           (kinds >> ORR_SHARDING_DATA & 1 ? o->costs.gather_ns : 0);
}
