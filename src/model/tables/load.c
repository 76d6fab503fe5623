/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tables/load.h"

#include <math.h>

#include "base/alloc.h"
#include "model/tables/fetch.h"

enum {
    ID_BYTES = 8,
    LENGTH_BYTES = 4,
    ENTRY_BYTES = 8,   /* of the map of rows outside memory */
    SORTED_BYTES = 16, /* a lookup with its sample, while lookups are sorted by row */
    SECTOR_BYTES = 32, /* of memory: the least that a read of one state costs */
};

/* A table as one step looks it up. Tables one after another are often alike: what depends on rows
 * and lookups alone is found once for them. */
typedef struct looked_up {
    const orr_embedding *table;
    const orr_embedding_plan *plan;
    orr_popularity popularity;
    double length;       /* ids of a bag that travel: more than the mean where bags are padded */
    double samples;      /* B */
    double updated;      /* distinct rows of them */
    double stored_frac;  /* of the rows that are in memory: 1, or what row caches hold */
    bool padded, mapped; /* mapped: its rows are found by a map of them */
    uint32_t parts;      /* of the rows that `share` is of; 0: none yet */
    double share[ORR_EMBEDDING_RANGES]; /* of the lookups, by part */
} looked_up;

/* The longest of B bags, expected. Of geometric lengths the quantile at which one of B is beyond
 * it. */
static double longest(const orr_embedding *t, double samples)
{
    if (t->length == ORR_BAG_LENGTH_UNIFORM)
        return 2 * t->pooling;
    if (t->length == ORR_BAG_LENGTH_GEOMETRIC)
        return fmax(t->pooling, log(fmax(samples, 1)) / log1p(1 / t->pooling));
    return t->pooling;
}

uint32_t orr_embedding_subtrees(uint32_t begin, uint32_t end)
{
    uint32_t n = 0;
    for (; begin < end; n++) {
        uint32_t count = begin == 0 ? ORR_EMBEDDING_RANGES : begin & -begin;
        while (begin + count > end)
            count /= 2;
        begin += count;
    }
    return n;
}

static double sectors(double bytes)
{
    return bytes > 0 ? SECTOR_BYTES * ceil(bytes / SECTOR_BYTES) : 0;
}

static double row_bytes(const orr_embedding *t, uint32_t columns)
{
    return (double)orr_row_format_bytes((orr_row_format)t->format, columns);
}

/* State of a row's columns; one number a row is on every shard of its columns. */
static double state_bytes(const orr_embedding *t, uint32_t columns)
{
    return (double)orr_row_optimizer_bytes((orr_row_optimizer)t->optimizer, columns);
}

static double distinct(const orr_popularity *popularity, double lookups)
{
    return orr_popularity_distinct(popularity, (int64_t)fmin(lookups, 0x1p60));
}

/* Rows and state, of `rows` rows and these columns. */
static void add_stored(const looked_up *l, double rows, uint32_t columns, orr_tables_load *to)
{
    const double stored = rows * l->stored_frac;
    to->rows += stored * row_bytes(l->table, columns) + (l->mapped ? rows * ENTRY_BYTES : 0);
    to->state += stored * state_bytes(l->table, columns);
}

/* Lookups of so many samples in so many distinct rows, and what the update of B samples changes;
 * `share`: of both. */
static void add_lookups(const looked_up *l, double samples, double rows, double share,
                        uint32_t columns, orr_tables_load *to)
{
    const orr_embedding *t = l->table;
    const double row = sectors(row_bytes(t, columns)), ids = samples * l->length * share;
    to->sorted += l->samples * t->pooling * share * SORTED_BYTES;
    to->read += ids * row;
    to->touched += rows * share * row;
    to->gradients += l->samples * t->pooling * share * columns * (double)sizeof(float);
    to->update += 2 * l->updated * share * (row + sectors(state_bytes(t, columns)));
}

/* A table on every rank: each looks up its own samples, gathers ids and gradients of all, and makes
 * the whole update. */
static void add_copy(const looked_up *l, double own_samples, orr_tables_load *to)
{
    const orr_embedding *t = l->table;
    const double sum =
        (double)orr_embedding_codec_bytes((orr_embedding_codec)l->plan->backward, t->columns);
    const double ids = l->length * ID_BYTES + (l->padded ? 0 : LENGTH_BYTES);
    add_stored(l, (double)t->rows, t->columns, to);
    add_lookups(l, own_samples, distinct(&l->popularity, own_samples * t->pooling), 1, t->columns,
                to);
    to->summed += own_samples * t->columns * (double)sizeof(float);
    to->gathered += l->samples * (ids + sum);
    to->buffers += l->samples * (ids + sum + t->pooling * SORTED_BYTES);
}

/* Row parts of a placement stand one after another for each column part. */
static uint32_t row_parts(const orr_embedding_placement *p)
{
    return p->columns > 0 ? p->n_ranks / p->columns : p->n_ranks;
}

static void add_transfers(const looked_up *l, const orr_embedding_placement *p,
                          const orr_embedding_shard *s, double share, orr_tables_load *to)
{
    const bool in_host = p->sharding == ORR_SHARDING_TABLE_ROW || p->sharding == ORR_SHARDING_GRID;
    const double parts = in_host ? row_parts(p) : 1;
    const uint32_t columns = s->column_end - s->column_begin;
    /* All row parts of a host are the whole tree: what they add up to is one sum a bag. */
    const double joined = l->samples * (double)orr_embedding_codec_bytes(
                                           (orr_embedding_codec)l->plan->forward, columns);
    const double out = joined * orr_embedding_subtrees(s->range_begin, s->range_end);
    const double back = l->samples * (double)orr_embedding_codec_bytes(
                                         (orr_embedding_codec)l->plan->backward, columns);
    const double ids = l->samples * (l->length * share * ID_BYTES + (l->padded ? 0 : LENGTH_BYTES));
    to->ids += ids;
    to->summed += out;
    to->bags += parts > 1 ? joined / parts : out;
    to->bag_gradients += back / parts;
    to->host_bags += parts > 1 ? out : 0;
    to->host_gradients += parts > 1 ? back : 0;
    to->buffers += ids * (1 + l->plan->pipeline) + out + back +
                   l->samples * l->table->pooling * share * SORTED_BYTES;
}

static void add_shard(const looked_up *l, const orr_embedding_placement *p,
                      const orr_embedding_shard *s, double share, orr_tables_load *to)
{
    const orr_embedding *t = l->table;
    const uint32_t columns = s->column_end - s->column_begin;
    const double rows = (double)(orr_embedding_range_begin(t->rows, s->range_end) -
                                 orr_embedding_range_begin(t->rows, s->range_begin));
    const bool whole_row = t->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD ||
                           t->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
    if (columns == 0)
        return;
    add_stored(l, rows, columns, to);
    add_lookups(l, l->samples, l->updated, share, columns, to);
    add_transfers(l, p, s, share, to);
    if (whole_row && p->columns > 1)
        to->squares +=
            share * l->updated * sizeof(float) * ceil((double)columns / ORR_EMBEDDING_BLOCK);
}

/* Lookups of each row part, by the popularity of its rows. */
static void find_shares(looked_up *l, uint32_t parts)
{
    int64_t begin[ORR_EMBEDDING_RANGES + 1];
    if (l->parts == parts)
        return;
    l->parts = parts;
    l->share[0] = 1;
    if (parts < 2)
        return;
    for (uint32_t i = 0; i <= parts; i++)
        begin[i] = orr_embedding_range_begin(l->table->rows, orr_embedding_range_split(parts, i));
    orr_popularity_shares(&l->popularity, begin, parts, l->share);
}

static void look_up(const orr_embedding *t, const orr_tables_demand *demand, looked_up *l)
{
    const orr_embedding *before = l->table;
    l->table = t;
    if (before != NULL && before->rows == t->rows && before->pooling == t->pooling &&
        before->length == t->length)
        return;
    l->popularity = orr_popularity_of(demand->popularity, t->rows);
    l->length = l->padded ? longest(t, l->samples) : t->pooling;
    l->updated = distinct(&l->popularity, l->samples * t->pooling);
    l->parts = 0;
}

static void add_table(looked_up *l, uint32_t table, const orr_tables_demand *demand,
                      orr_tables_load *ret, orr_tables_load *ret_everywhere)
{
    const orr_embedding_placement *p = &l->plan->placements[table];
    look_up(&l->plan->tables[table], demand, l);
    l->mapped = p->tier != ORR_TIER_DRAM;
    l->stored_frac =
        l->mapped ? orr_tables_cached_rows(l->plan, table, demand) / (double)l->table->rows : 1;
    if (p->sharding == ORR_SHARDING_DATA) {
        add_copy(l, (double)demand->samples, ret_everywhere);
        return;
    }
    const uint32_t parts = row_parts(p);
    find_shares(l, parts);
    for (uint32_t i = 0; i < p->n_shards; i++) {
        const orr_embedding_shard *s = &l->plan->shards[p->first_shard + i];
        add_shard(l, p, s, l->share[i % parts], &ret[s->rank]);
    }
}

static void add(orr_tables_load *to, const orr_tables_load *from, double times)
{
#define ADD_(name, text) to->name += times * from->name;
    ORR_TABLES_LOAD_MAP(ADD_)
#undef ADD_
}

static void raise(orr_tables_load *to, const orr_tables_load *from)
{
#define RAISE_(name, text) to->name = fmax(to->name, from->name);
    ORR_TABLES_LOAD_MAP(RAISE_)
#undef RAISE_
}

orr_status orr_tables_loads(const orr_embedding_plan *plan, const orr_tables_demand *demand,
                            orr_tables_load *ret, orr_error *err)
{
    orr_tables_load everywhere = {0};
    looked_up l = {
        .plan = plan, .samples = (double)demand->samples * plan->ranks, .padded = demand->padded};
    if (demand->samples <= 0 || demand->popularity >= ORR_POPULARITIES)
        return orr_fail(err, ORR_INVALID, "%lld samples of a rank, popularity %u",
                        (long long)demand->samples, demand->popularity);
    for (uint32_t r = 0; r < plan->ranks; r++)
        ret[r] = (orr_tables_load){0};
    for (uint32_t t = 0; t < plan->n_tables; t++)
        add_table(&l, t, demand, ret, &everywhere);
    for (uint32_t r = 0; r < plan->ranks; r++)
        add(&ret[r], &everywhere, 1);
    return ORR_OK;
}

orr_status orr_tables_work_of(const orr_embedding_plan *plan, const orr_tables_demand *demand,
                              orr_tables_work *ret, orr_error *err)
{
    orr_tables_work work = {.ranks = plan->ranks,
                            .host_ranks = plan->host_ranks > 0 ? plan->host_ranks : plan->ranks,
                            .groups = plan->groups > 0 ? plan->groups : 1,
                            .synchronize = plan->synchronize > 0 ? plan->synchronize : 1,
                            .pipeline = plan->pipeline,
                            .samples = (double)demand->samples,
                            .fetched = orr_tables_are_fetched(plan) ? plan : NULL,
                            .demand = *demand};
    orr_tables_load *loads = orr_calloc(plan->ranks, sizeof *loads);
    if (loads == NULL)
        return orr_fail_memory(err);
    const orr_status status = orr_tables_loads(plan, demand, loads, err);
    for (uint32_t r = 0; r < plan->ranks; r++) {
        add(&work.mean, &loads[r], 1.0 / plan->ranks);
        raise(&work.most, &loads[r]);
    }
    orr_free(loads);
    ORR_TRY(status);
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const uint32_t columns = plan->tables[t].columns;
        work.columns += columns;
        work.decoded += work.samples * (double)orr_embedding_codec_bytes(
                                           (orr_embedding_codec)plan->forward, columns);
    }
    *ret = work;
    return ORR_OK;
}
