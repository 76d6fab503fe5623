/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/tables/tiers.h"

#include <math.h>
#include <string.h>

/* The public face of tiers: what is refused, what the tables of a plan come to, and what more of
 * each tier would buy. */

#define GIB 0x1p30

static orr_status check_tier(const orr_tier_rates *r, uint8_t tier, orr_error *err)
{
    if (r->bytes < 0 || !(r->read_iops >= 0) || !(r->write_iops >= 0) ||
        !(r->read_bytes_per_s >= 0) || !(r->write_bytes_per_s >= 0) || !(r->request_ns >= 0) ||
        !(r->read_ns >= 0))
        return orr_fail(err, ORR_INVALID, "tier %s: a size or rate is below 0, or no number",
                        orr_tier_name((orr_tier)tier));
    if (tier != ORR_TIER_DRAM && r->bytes > 0 &&
        (r->sector_bytes < 64 || r->sector_bytes > 1 << 16))
        return orr_fail(err, ORR_INVALID, "tier %s: sectors of %u bytes: there are 64 to 65536",
                        orr_tier_name((orr_tier)tier), r->sector_bytes);
    return ORR_OK;
}

static orr_status check(const orr_table_planner_options *o, const orr_embedding_plan *plan,
                        orr_error *err)
{
    const orr_tier_options *t = o->tiers;
    if (t == NULL || t->curves == NULL || t->pinned_rows == NULL)
        return orr_fail(err, ORR_INVALID, "tiers need curves of hit rates and rows in flight");
    if (plan->n_tables != o->n_tables || plan->ranks != o->ranks)
        return orr_fail(err, ORR_INVALID,
                        "a plan of %u tables on %u ranks, where there are %u on %u", plan->n_tables,
                        plan->ranks, o->n_tables, o->ranks);
    if (t->tier[ORR_TIER_DRAM].bytes <= 0)
        return orr_fail(err, ORR_INVALID, "tiers without memory: rows are computed with in dram");
    for (uint8_t k = 0; k < ORR_TIERS; k++)
        ORR_TRY(check_tier(&t->tier[k], k, err));
    for (uint32_t i = 0; i < o->n_tables; i++)
        if (!(t->pinned_rows[i] >= 0) || t->curves[i].n < 2)
            return orr_fail(err, ORR_INVALID, "table '%s' has no curve, or no rows in flight",
                            o->tables[i].name);
    return ORR_OK;
}

/* What a step stalls: with look-ahead what of its fetch is left when all else has ended, else all
 * of it and the time until the first row is there. */
static double stall_of(const orr_table_planner_options *o, double fetch_ns, double busy_ns)
{
    double latency_ns = 0;
    for (int k = ORR_TIER_BYTE; k < ORR_TIERS; k++)
        if (o->tiers->tier[k].bytes > 0)
            latency_ns = fmax(latency_ns, o->tiers->tier[k].read_ns);
    if (!(fetch_ns > 0))
        return 0;
    return o->tiers->lookahead > 0 ? fmax(0, fetch_ns - busy_ns - o->tiers->hidden_ns)
                                   : fetch_ns + latency_ns;
}

static orr_status refuse(const orr_tier_problem *p, const orr_tier_cost *cost, orr_arena *arena,
                         orr_tiering *ret, orr_error *err)
{
    const char *tier = orr_tier_name((orr_tier)cost->tier);
    *ret = (orr_tiering){
        .infeasible_table = cost->table,
        .infeasible_bytes = (int64_t)fmin(ceil(cost->lacking), 0x1p62),
        .infeasible = orr_arena_printf(
            arena, "table '%s' does not fit: rank %u has %.3f GiB of %s and needs %.3f GiB more%s",
            p->o->tables[cost->table].name, cost->busiest, p->bytes[cost->tier] / GIB, tier,
            cost->lacking / GIB,
            cost->tier == ORR_TIER_DRAM
                ? ", with the map of all rows on other tiers and the rows of batches in flight"
                : "")};
    return ret->infeasible != NULL ? ORR_OK : orr_fail_memory(err);
}

/* Reads of one rank in a step; of each tier in `ret`, shape (ORR_TIERS), or NULL. */
static double reads_of(const orr_tier_problem *p, const uint8_t *tiers, uint32_t rank,
                       orr_tier_load *ret)
{
    double sum = 0;
    for (uint32_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
        const orr_tier_shard *s = &p->shards[i];
        const uint8_t tier = tiers[s->table];
        if (tier == ORR_TIER_DRAM)
            continue;
        const double reads = s->lookups * (1 - orr_tier_hit_frac(p, s, p->cached[i]));
        sum += reads;
        if (ret == NULL)
            continue;
        ret[tier].reads += reads;
        ret[tier].writes += reads;
        ret[tier].fetch_ns += reads * s->miss_ns[tier];
    }
    return sum;
}

static void add_bytes(const orr_tier_problem *p, const uint8_t *tiers, orr_tiering *ret)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        double bytes[ORR_TIERS] = {[ORR_TIER_DRAM] = p->rank_bytes[r]}, cache = 0;
        for (uint32_t i = p->first[r]; i < p->first[r + 1]; i++) {
            const orr_tier_shard *s = &p->shards[i];
            const uint8_t tier = tiers[s->table];
            if (tier == ORR_TIER_DRAM) {
                bytes[tier] += s->memory_bytes;
                continue;
            }
            bytes[tier] += s->tier_bytes[tier];
            bytes[ORR_TIER_DRAM] += s->map_bytes[tier];
            cache += p->cached[i] * s->slot_bytes;
        }
        bytes[ORR_TIER_DRAM] += cache;
        ret->cache_bytes = fmax(ret->cache_bytes, cache);
        for (int k = 0; k < ORR_TIERS; k++)
            ret->load[k].bytes = (int64_t)fmax((double)ret->load[k].bytes, fmin(bytes[k], 0x1p62));
    }
}

static void add_choices(const orr_tier_problem *p, const uint8_t *tiers, orr_tier_choice *to)
{
    for (uint32_t t = 0; t < p->n_tables; t++) {
        to[t] = (orr_tier_choice){.tier = tiers[t]};
        if (tiers[t] == ORR_TIER_DRAM) {
            to[t].cached_rows = (double)p->o->tables[t].rows;
            to[t].hit_frac = 1;
        }
        if (p->everywhere[t])
            to[t].bytes =
                (int64_t)fmin((double)orr_embedding_bytes(&p->o->tables[t]) * p->ranks, 0x1p62);
    }
    /* Column parts of a table have caches of their own, each of rows of the table. */
    for (uint32_t i = 0; i < p->n_shards; i++) {
        const orr_tier_shard *s = &p->shards[i];
        orr_tier_choice *c = &to[s->table];
        c->bytes += (int64_t)(c->tier == ORR_TIER_DRAM ? s->memory_bytes : s->tier_bytes[c->tier]);
        if (c->tier == ORR_TIER_DRAM)
            continue;
        c->reads += s->lookups * (1 - orr_tier_hit_frac(p, s, p->cached[i]));
        c->cached_rows += p->cached[i];
        c->hit_frac += s->lookups; /* of all parts, for now */
    }
    for (uint32_t t = 0; t < p->n_tables; t++)
        if (to[t].tier != ORR_TIER_DRAM && to[t].hit_frac > 0)
            to[t].hit_frac = 1 - to[t].reads / to[t].hit_frac;
}

/* What a GiB more of each tier on every rank would save. */
static orr_status find_worth(orr_tier_problem *p, double busy_ns, double reads, orr_arena *arena,
                             orr_tiering *ret, orr_error *err)
{
    uint8_t *tiers = orr_arena_array(arena, uint8_t, p->n_tables);
    if (tiers == NULL)
        return orr_fail_memory(err);
    for (uint8_t k = 0; k < ORR_TIERS && ret->fetch_ns > 0; k++) {
        const double bytes = p->bytes[k];
        orr_tier_cost cost;
        if (!(bytes > 0))
            continue;
        p->bytes[k] = bytes + GIB;
        const orr_status status = orr_tier_search(p, arena, tiers, &cost, err);
        if (status == ORR_OK)
            (void)orr_tier_evaluate(p, tiers, INFINITY);
        p->bytes[k] = bytes;
        ORR_TRY(status);
        ret->load[k].next_gib_fetch_ns = fmax(0, ret->fetch_ns - cost.fetch_ns);
        ret->load[k].next_gib_ns = fmax(0, ret->stall_ns - stall_of(p->o, cost.fetch_ns, busy_ns));
        ret->load[k].next_gib_reads = reads - reads_of(p, tiers, cost.busiest, NULL);
    }
    return ORR_OK;
}

static orr_status tell(orr_tier_problem *p, const orr_tier_cost *cost, const uint8_t *tiers,
                       double busy_ns, orr_arena *arena, orr_tiering *ret, orr_error *err)
{
    orr_tier_choice *choices = orr_arena_array(arena, orr_tier_choice, p->n_tables);
    if (choices == NULL)
        return orr_fail_memory(err);
    const orr_tier_cost whole = orr_tier_evaluate(p, tiers, INFINITY);
    *ret = (orr_tiering){.busiest = whole.busiest,
                         .fetch_ns = cost->fetch_ns,
                         .stall_ns = stall_of(p->o, cost->fetch_ns, busy_ns),
                         .choices = choices};
    for (uint32_t t = 0; t < p->n_tables; t++)
        ret->load[tiers[t]].tables++;
    const double reads = reads_of(p, tiers, ret->busiest, ret->load);
    add_bytes(p, tiers, ret);
    add_choices(p, tiers, choices);
    return find_worth(p, busy_ns, reads, arena, ret, err);
}

static orr_status place(const orr_embedding_plan *plan, const orr_tiering *tiering,
                        orr_arena *arena, const orr_embedding_placement **ret, orr_error *err)
{
    orr_embedding_placement *placements =
        orr_arena_array(arena, orr_embedding_placement, plan->n_tables);
    if (placements == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < plan->n_tables; t++) {
        placements[t] = plan->placements[t];
        placements[t].tier = tiering->choices[t].tier;
        placements[t].cached_rows =
            tiering->choices[t].tier != ORR_TIER_DRAM ? floor(tiering->choices[t].cached_rows) : 0;
    }
    *ret = placements;
    return ORR_OK;
}

orr_status orr_tier_tables(const orr_table_planner_options *options, const orr_embedding_plan *plan,
                           double busy_ns, orr_arena *arena, orr_tiering *ret,
                           const orr_embedding_placement **ret_placements, orr_error *err)
{
    orr_tier_problem p;
    orr_tier_cost cost;
    orr_tiering tiering;
    const orr_embedding_placement *placements = plan->placements;
    ORR_TRY(check(options, plan, err));
    uint8_t *tiers = orr_arena_array(arena, uint8_t, plan->n_tables);
    if (tiers == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_tier_problem_make(options, plan, arena, &p, err));
    ORR_TRY(orr_tier_search(&p, arena, tiers, &cost, err));
    if (cost.fetch_ns < INFINITY) {
        ORR_TRY(tell(&p, &cost, tiers, busy_ns, arena, &tiering, err));
        ORR_TRY(place(plan, &tiering, arena, &placements, err));
    } else {
        ORR_TRY(refuse(&p, &cost, arena, &tiering, err));
    }
    *ret = tiering;
    *ret_placements = placements;
    return ORR_OK;
}

orr_status orr_tier_options_fill(const orr_table_planner_options *o, orr_popularity_kind popularity,
                                 orr_arena *arena, orr_tier_options *ret, orr_error *err)
{
    orr_hit_curve *curves = orr_arena_array(arena, orr_hit_curve, o->n_tables);
    double *pinned = orr_arena_array(arena, double, o->n_tables);
    if (curves == NULL || pinned == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < o->n_tables; t++) {
        const orr_embedding *e = &o->tables[t], *before = t > 0 ? &o->tables[t - 1] : NULL;
        const double lookups = (double)o->samples * o->ranks * e->pooling;
        const orr_hit_terms terms = {
            .policy = ORR_HIT_LOOKAHEAD, .batch = lookups, .window = ret->lookahead};
        if (before != NULL && before->rows == e->rows && before->pooling == e->pooling) {
            curves[t] = curves[t - 1];
            pinned[t] = pinned[t - 1];
            continue;
        }
        const orr_popularity p = orr_popularity_of(popularity, e->rows);
        orr_hit_curve_of(&p, &terms, &curves[t]);
        pinned[t] =
            orr_popularity_distinct(&p, (int64_t)fmin(lookups * (1.0 + ret->lookahead), 0x1p60));
    }
    ret->curves = curves;
    ret->pinned_rows = pinned;
    return ORR_OK;
}
