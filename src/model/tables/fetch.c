/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tables/fetch.h"

#include <math.h>

#include "base/alloc.h"
#include "model/tables/tier_record.h"

uint32_t orr_tables_ahead(const orr_embedding_plan *plan)
{
    return plan->lookahead > 0 ? plan->lookahead : plan->pipeline;
}

bool orr_tables_are_fetched(const orr_embedding_plan *plan)
{
    for (uint32_t t = 0; t < plan->n_tables; t++)
        if (plan->placements[t].tier != ORR_TIER_DRAM)
            return true;
    return false;
}

static double lookups_of(const orr_embedding_plan *plan, uint32_t table,
                         const orr_tables_demand *demand)
{
    return (double)demand->samples * plan->ranks * plan->tables[table].pooling;
}

/* Caches that each have rows of the whole table. */
static double copies_of(const orr_embedding_plan *plan, const orr_embedding_placement *p)
{
    return p->sharding == ORR_SHARDING_DATA ? plan->ranks : fmax(1, p->columns);
}

double orr_tables_cached_rows(const orr_embedding_plan *plan, uint32_t table,
                              const orr_tables_demand *demand)
{
    const orr_embedding_placement *p = &plan->placements[table];
    const int64_t rows = plan->tables[table].rows;
    const orr_popularity popularity =
        orr_popularity_of((orr_popularity_kind)demand->popularity, rows);
    const double flying = lookups_of(plan, table, demand) * (1.0 + orr_tables_ahead(plan));
    const double pinned = ORR_TIER_PINNED_MARGIN *
                          orr_popularity_distinct(&popularity, (int64_t)fmin(flying, 0x1p60));
    return fmin((double)rows, fmax(pinned, p->cached_rows / copies_of(plan, p)));
}

static double missed_frac(const orr_embedding_plan *plan, uint32_t table,
                          const orr_tables_demand *demand)
{
    const orr_popularity popularity =
        orr_popularity_of((orr_popularity_kind)demand->popularity, plan->tables[table].rows);
    const orr_hit_terms terms = {.policy = ORR_HIT_LOOKAHEAD,
                                 .batch = lookups_of(plan, table, demand),
                                 .window = orr_tables_ahead(plan)};
    return 1 - orr_hit_rate(&popularity, &terms, orr_tables_cached_rows(plan, table, demand));
}

/* Lookups of each part of the rows. */
static void share_rows(const orr_embedding *t, uint32_t parts, uint8_t popularity, double *ret)
{
    int64_t begin[ORR_EMBEDDING_RANGES + 1];
    const orr_popularity p = orr_popularity_of((orr_popularity_kind)popularity, t->rows);
    ret[0] = 1;
    for (uint32_t i = 0; i <= parts; i++)
        begin[i] = orr_embedding_range_begin(t->rows, orr_embedding_range_split(parts, i));
    if (parts > 1)
        orr_popularity_shares(&p, begin, parts, ret);
}

static void add_table(const orr_embedding_plan *plan, uint32_t table,
                      const orr_tables_demand *demand, const orr_tier_rates *rates,
                      orr_tables_fetch *ranks)
{
    double share[ORR_EMBEDDING_RANGES];
    const orr_embedding *t = &plan->tables[table];
    const orr_embedding_placement *p = &plan->placements[table];
    const uint32_t parts =
        p->sharding == ORR_SHARDING_DATA ? 1 : p->n_ranks / (p->columns > 0 ? p->columns : 1);
    const double missed = lookups_of(plan, table, demand) * missed_frac(plan, table, demand);
    share_rows(t, parts, demand->popularity, share);
    for (uint32_t i = 0; i < p->n_shards; i++) {
        const orr_embedding_shard *s = &plan->shards[p->first_shard + i];
        const uint32_t columns = s->column_end - s->column_begin;
        if (columns == 0)
            continue;
        const int64_t bytes = orr_row_format_bytes((orr_row_format)t->format, columns) +
                              orr_row_optimizer_bytes((orr_row_optimizer)t->optimizer, columns);
        const orr_tier_record record = orr_tier_record_of(rates, (double)bytes);
        orr_tables_fetch *to = &ranks[s->rank];
        const double reads = missed * share[i % parts];
        to->ns += reads * record.miss_ns;
        to->reads += reads;
        to->read_bytes += reads * fmax(1, record.sectors) * rates->sector_bytes;
        to->first_ns = fmax(to->first_ns, rates->read_ns);
    }
}

orr_status orr_tables_fetch_of(const orr_embedding_plan *plan, const orr_tables_demand *demand,
                               const orr_tier_rates *tiers, orr_tables_fetch *ret, orr_error *err)
{
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const uint8_t tier = plan->placements[t].tier;
        if (tier != ORR_TIER_DRAM && !(tiers[tier].bytes > 0))
            return orr_fail(err, ORR_INVALID,
                            "table '%s' lives on tier %s, which the cluster's hosts do not have",
                            plan->tables[t].name, orr_tier_name((orr_tier)tier));
    }
    orr_tables_fetch *ranks = orr_calloc(plan->ranks, sizeof *ranks);
    if (ranks == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < plan->n_tables; t++)
        if (plan->placements[t].tier != ORR_TIER_DRAM)
            add_table(plan, t, demand, &tiers[plan->placements[t].tier], ranks);
    orr_tables_fetch most = ranks[0];
    for (uint32_t r = 1; r < plan->ranks; r++)
        if (ranks[r].ns > most.ns)
            most = ranks[r];
    orr_free(ranks);
    most.ahead = orr_tables_ahead(plan);
    *ret = most;
    return ORR_OK;
}
