/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "explore/tables/planner.h"
#include "explore/tables/tiers.h"

/* Shards with their bytes and prices on each tier, and what an assignment of tables to tiers comes
 * to: memory that is left is shared as a row cache by what a byte of it saves. */

static void price_tiers(const orr_tier_options *t, orr_tier_shard *s)
{
    const double bytes = s->slot_bytes - ORR_TIER_SLOT_BYTES;
    for (int k = ORR_TIER_BYTE; k < ORR_TIERS; k++) {
        const orr_tier_rates *r = &t->tier[k];
        s->tier_bytes[k] = INFINITY;
        if (r->bytes <= 0)
            continue;
        const orr_tier_record record = orr_tier_record_of(r, bytes);
        s->tier_bytes[k] = s->rows * record.sectors * r->sector_bytes * (1 + ORR_TIER_SPARE);
        s->map_bytes[k] = s->rows * (ORR_TIER_ENTRY_BYTES + record.sectors * (1 + ORR_TIER_SPARE));
        s->miss_ns[k] = record.miss_ns;
    }
}

static void make_shard(const orr_table_planner_options *o, const orr_embedding_placement *place,
                       const orr_embedding_shard *from, uint32_t part, orr_tier_shard *ret)
{
    const orr_embedding *e = &o->tables[from->table];
    const orr_table_split split = {.kind = place->sharding,
                                   .columns = place->columns > 0 ? place->columns : 1,
                                   .rows = place->n_ranks / (place->columns ? place->columns : 1)};
    orr_table_price price;
    orr_embedding columns = *e;
    columns.columns = from->column_end - from->column_begin;
    orr_table_shard_price(o, from->table, &split, part, &price);
    const double record = (double)orr_embedding_row_bytes(&columns);
    const double rows = (double)(orr_embedding_range_begin(e->rows, from->range_end) -
                                 orr_embedding_range_begin(e->rows, from->range_begin));
    const double frac = rows / (double)e->rows;
    double share = o->range_share == NULL ? frac : 0;
    for (uint32_t k = from->range_begin; o->range_share != NULL && k < from->range_end; k++)
        share += (double)o->range_share[(size_t)from->table * ORR_EMBEDDING_RANGES + k];
    *ret = (orr_tier_shard){.table = from->table,
                            .rank = from->rank,
                            .rows = rows,
                            .frac = frac,
                            .lookups = (double)o->samples * o->ranks * e->pooling * share,
                            .pinned_rows = fmin(rows, ORR_TIER_PINNED_MARGIN * frac *
                                                          o->tiers->pinned_rows[from->table]),
                            .slot_bytes = record + ORR_TIER_SLOT_BYTES,
                            .memory_bytes = rows * record,
                            .buffer_bytes = fmax(0, price.bytes - rows * record)};
    price_tiers(o->tiers, ret);
}

/* The upper hull of a curve's points (Andrew's monotone chain). */
static void hull_of(const orr_hit_curve *curve, double from, orr_tier_hull *ret)
{
    double hits[ORR_HIT_CURVE_POINTS];
    uint32_t n = 0;
    for (uint32_t i = 0; i <= curve->n; i++) {
        const double rows = i == 0 ? from : curve->rows[i - 1];
        const double hit = i == 0 ? orr_hit_curve_at(curve, from) : curve->hit_frac[i - 1];
        if (i > 0 && !(rows > from))
            continue;
        while (n > 1 && (hits[n - 1] - hits[n - 2]) * (rows - ret->rows[n - 2]) <=
                            (hit - hits[n - 2]) * (ret->rows[n - 1] - ret->rows[n - 2]))
            n--;
        if (n == ORR_HIT_CURVE_POINTS)
            break;
        ret->rows[n] = rows;
        hits[n++] = hit;
    }
    ret->n = n;
    for (uint32_t i = 0; i < n; i++)
        ret->hits_per_row[i] =
            i + 1 < n ? (hits[i + 1] - hits[i]) / (ret->rows[i + 1] - ret->rows[i]) : 0;
}

static void price_everywhere(const orr_table_planner_options *o, const orr_embedding_plan *plan,
                             double *bytes, bool *everywhere)
{
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const orr_embedding_placement *place = &plan->placements[t];
        const uint32_t columns = place->columns > 0 ? place->columns : 1;
        const orr_table_split split = {
            .kind = place->sharding,
            .columns = columns,
            .rows = place->sharding == ORR_SHARDING_DATA ? 1 : place->n_ranks / columns};
        orr_table_price price;
        orr_table_shared_price(o, t, &split, &price);
        everywhere[t] = place->sharding == ORR_SHARDING_DATA;
        for (uint32_t r = 0; r < plan->ranks; r++)
            bytes[r] += price.bytes;
    }
}

orr_status orr_tier_problem_make(const orr_table_planner_options *o, const orr_embedding_plan *plan,
                                 orr_arena *arena, orr_tier_problem *ret, orr_error *err)
{
    orr_tier_shard *shards = orr_arena_array(arena, orr_tier_shard, plan->n_shards);
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)plan->ranks + 1);
    uint32_t *next = orr_arena_array(arena, uint32_t, plan->ranks);
    orr_tier_hull *hulls = orr_arena_array(arena, orr_tier_hull, plan->n_tables);
    double *bytes = orr_arena_array(arena, double, plan->ranks);
    bool *everywhere = orr_arena_array(arena, bool, plan->n_tables);
    double *cached = orr_arena_array(arena, double, plan->n_shards);
    double *demand = orr_arena_array(arena, double, plan->n_shards);
    if (shards == NULL || first == NULL || next == NULL || hulls == NULL || bytes == NULL ||
        everywhere == NULL || cached == NULL || demand == NULL)
        return orr_fail_memory(err);
    price_everywhere(o, plan, bytes, everywhere);
    for (uint32_t i = 0; i < plan->n_shards; i++)
        first[plan->shards[i].rank + 1] += !everywhere[plan->shards[i].table];
    for (uint32_t r = 0; r < plan->ranks; r++)
        next[r] = first[r + 1] += first[r];
    for (uint32_t r = 0; r < plan->ranks; r++)
        next[r] = first[r];
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        const orr_embedding_placement *place = &plan->placements[t];
        hull_of(&o->tiers->curves[t],
                fmin((double)o->tables[t].rows, ORR_TIER_PINNED_MARGIN * o->tiers->pinned_rows[t]),
                &hulls[t]);
        for (uint32_t i = 0; i < place->n_shards && !everywhere[t]; i++) {
            const orr_embedding_shard *s = &plan->shards[place->first_shard + i];
            make_shard(o, place, s, i, &shards[next[s->rank]]);
            bytes[s->rank] += shards[next[s->rank]++].buffer_bytes;
        }
    }
    *ret = (orr_tier_problem){.o = o,
                              .ranks = plan->ranks,
                              .n_tables = plan->n_tables,
                              .n_shards = first[plan->ranks],
                              .shards = shards,
                              .first = first,
                              .rank_bytes = bytes,
                              .hulls = hulls,
                              .everywhere = everywhere,
                              .cached = cached,
                              .demand = demand};
    for (int k = 0; k < ORR_TIERS; k++)
        ret->bytes[k] = (double)o->tiers->tier[k].bytes;
    return ORR_OK;
}

double orr_tier_hit_frac(const orr_tier_problem *p, const orr_tier_shard *s, double cached_rows)
{
    return orr_hit_curve_at(&p->o->tiers->curves[s->table], cached_rows / s->frac);
}

/* --- the cache of a rank --------------------------------------------------------------------- */

/* Time that a byte more of cache saves, of a piece of the hull. */
static double worth(const orr_tier_shard *s, const orr_tier_hull *h, uint32_t piece, uint8_t tier)
{
    return h->hits_per_row[piece] / s->frac * s->lookups * s->miss_ns[tier] / s->slot_bytes;
}

/* Pieces of the hull that are worth at least so much a byte. */
static uint32_t pieces_worth(const orr_tier_shard *s, const orr_tier_hull *h, uint8_t tier,
                             double least)
{
    uint32_t low = 0, high = h->n - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (worth(s, h, middle, tier) >= least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Gives every shard the rows that are worth `least` a byte; returns the bytes beyond pinned rows.
 */
static double take(const orr_tier_problem *p, uint32_t rank, const uint8_t *tiers, double least)
{
    double bytes = 0;
    for (uint32_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
        const orr_tier_shard *s = &p->shards[i];
        const uint8_t tier = tiers[s->table];
        if (tier == ORR_TIER_DRAM)
            continue;
        const orr_tier_hull *h = &p->hulls[s->table];
        p->cached[i] =
            fmax(s->pinned_rows, fmin(s->rows, h->rows[pieces_worth(s, h, tier, least)] * s->frac));
        bytes += (p->cached[i] - s->pinned_rows) * s->slot_bytes;
    }
    return bytes;
}

/* Pieces that are worth a little less than what was given share what is left, in the order of
 * shards. */
static void take_rest(const orr_tier_problem *p, uint32_t rank, const uint8_t *tiers, double least,
                      double left)
{
    for (uint32_t i = p->first[rank]; i < p->first[rank + 1] && left > 0; i++) {
        const orr_tier_shard *s = &p->shards[i];
        const uint8_t tier = tiers[s->table];
        if (tier == ORR_TIER_DRAM)
            continue;
        const orr_tier_hull *h = &p->hulls[s->table];
        const double most =
            fmin(s->rows, h->rows[pieces_worth(s, h, tier, least)] * s->frac) - p->cached[i];
        const double rows = fmin(fmax(0, most), left / s->slot_bytes);
        p->cached[i] += rows;
        left -= rows * s->slot_bytes;
    }
}

static void share_cache(const orr_tier_problem *p, uint32_t rank, const uint8_t *tiers, double left)
{
    double low = 0, high = 1; /* worth of a byte: too much is taken, and not */
    if (take(p, rank, tiers, 1e-300) <= left)
        return;
    while (take(p, rank, tiers, high) > left && high < 1e300)
        high *= 16;
    while (high > 1e-290 && take(p, rank, tiers, high / 16) <= left)
        high /= 16;
    low = high / 16;
    for (int i = 0; i < 60 && high > low * (1 + 1e-12); i++) {
        const double middle = low + (high - low) / 2;
        *(take(p, rank, tiers, middle) > left ? &low : &high) = middle;
    }
    take_rest(p, rank, tiers, low, left - take(p, rank, tiers, high));
}

/* --- an assignment --------------------------------------------------------------------------- */

static void note_lack(const orr_tier_problem *p, uint32_t rank, const uint8_t *tiers, uint8_t tier,
                      double lacking, orr_tier_cost *to)
{
    double most = -1;
    if (!(lacking > to->lacking))
        return;
    to->fetch_ns = INFINITY;
    to->lacking = lacking;
    to->tier = tier;
    to->busiest = rank;
    for (uint32_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
        const orr_tier_shard *s = &p->shards[i];
        const uint8_t on = tiers[s->table];
        const double bytes = on == ORR_TIER_DRAM ? s->memory_bytes
                             : tier == ORR_TIER_DRAM
                                 ? s->map_bytes[on] + s->pinned_rows * s->slot_bytes
                                 : s->tier_bytes[on];
        if ((on == tier || tier == ORR_TIER_DRAM) && bytes > most) {
            most = bytes;
            to->table = s->table;
        }
    }
}

static void evaluate_rank(const orr_tier_problem *p, uint32_t rank, const uint8_t *tiers,
                          orr_tier_cost *to)
{
    double used[ORR_TIERS] = {[ORR_TIER_DRAM] = p->rank_bytes[rank]}, ns = 0;
    for (uint32_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
        const orr_tier_shard *s = &p->shards[i];
        const uint8_t tier = tiers[s->table];
        p->cached[i] = tier == ORR_TIER_DRAM ? s->rows : s->pinned_rows;
        used[ORR_TIER_DRAM] += tier == ORR_TIER_DRAM
                                   ? s->memory_bytes
                                   : s->map_bytes[tier] + s->pinned_rows * s->slot_bytes;
        if (tier != ORR_TIER_DRAM)
            used[tier] += s->tier_bytes[tier];
    }
    bool fits = true;
    for (uint8_t k = 0; k < ORR_TIERS; k++)
        if (used[k] > p->bytes[k]) {
            fits = false;
            note_lack(p, rank, tiers, k, used[k] - p->bytes[k], to);
        }
    if (!fits)
        return;
    share_cache(p, rank, tiers, p->bytes[ORR_TIER_DRAM] - used[ORR_TIER_DRAM]);
    for (uint32_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
        const orr_tier_shard *s = &p->shards[i];
        if (tiers[s->table] != ORR_TIER_DRAM)
            ns += s->lookups * (1 - orr_tier_hit_frac(p, s, p->cached[i])) *
                  s->miss_ns[tiers[s->table]];
    }
    if (ns > to->fetch_ns || (rank == 0 && to->fetch_ns < INFINITY)) {
        to->fetch_ns = ns;
        to->busiest = rank;
    }
}

orr_tier_cost orr_tier_evaluate(const orr_tier_problem *p, const uint8_t *tiers, double enough_ns)
{
    orr_tier_cost cost = {.fetch_ns = 0};
    for (uint32_t r = 0; r < p->ranks && cost.fetch_ns < enough_ns; r++)
        evaluate_rank(p, r, tiers, &cost);
    return cost;
}
