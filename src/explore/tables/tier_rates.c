/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/table_planner.h>

/* Memory and storage of the catalogue as tiers of a rank. */

/* Transfers for which IOPS are published. Of byte-addressable memory without a granule the cache
 * line, as DDR5 has. */
enum { BLOCK_SECTOR = 4096, LINE = 64 };
/* A row of byte-addressable storage is copied to the cache and back by a thread, which waits for
 * the first byte of each: assumed. */
#define COPY_NS 500

static bool is_block(const orr_memory_tier *memory)
{
    static const char *const kinds[] = {"scm-ssd", "slc", "mlc", "tlc", "qlc"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(memory->kind, kinds[i]) == 0)
            return true;
    return false;
}

orr_tier orr_tier_of_memory(const orr_memory_tier *memory)
{
    return is_block(memory)                    ? ORR_TIER_BLOCK
           : strcmp(memory->kind, "dram") == 0 ? ORR_TIER_DRAM
                                               : ORR_TIER_BYTE;
}

orr_status orr_tier_rates_of_memory(const orr_memory_tier *memory, double count, int64_t bytes,
                                    orr_arena *arena, orr_tier_rates *ret, orr_error *err)
{
    const bool block = is_block(memory);
    const double latency = orr_fact_or(&memory->read_latency_ns, 0);
    orr_tier_rates r = {
        .name = memory->name,
        .bytes = bytes,
        .sector_bytes = (uint32_t)orr_fact_or(&memory->granule_bytes, block ? BLOCK_SECTOR : LINE),
        .read_iops = count * orr_fact_or(&memory->read_iops_4k, 0),
        .write_iops = count * orr_fact_or(&memory->write_iops_4k, 0),
        .read_bytes_per_s = count * orr_fact_or(&memory->read_bytes_per_s, 0),
        .write_bytes_per_s = count * orr_fact_or(&memory->write_bytes_per_s, 0),
        .read_ns = latency,
        .request_ns = block ? ORR_TIER_REQUEST_NS : COPY_NS + 2 * latency,
        .source = orr_arena_printf(arena, "%gx %s, of the catalogue", count, memory->name)};
    if (r.source == NULL)
        return orr_fail_memory(err);
    if (!(r.read_iops > 0) && !(r.read_bytes_per_s > 0))
        return orr_fail(err, ORR_INVALID, "how fast '%s' reads is not known", memory->name);
    if (!(r.write_iops > 0) && !(r.write_bytes_per_s > 0))
        return orr_fail(err, ORR_INVALID, "how fast '%s' writes is not known", memory->name);
    *ret = r;
    return ORR_OK;
}

/* The largest of each kind: rows of a table are on one tier, and a tier is one kind of drive. */
orr_status orr_tiers_of_host(const orr_cluster *cluster, uint32_t host_ranks, orr_arena *arena,
                             orr_tier_rates ret[ORR_TIERS], orr_error *err)
{
    orr_tier_rates all[ORR_TIERS] = {{.bytes = 0}};
    for (uint32_t i = 0; i < cluster->n_tiers; i++) {
        const orr_memory_tier *memory = cluster->tiers[i];
        const orr_tier tier = orr_tier_of_memory(memory);
        const double count = cluster->tier_counts[i] > 0 ? cluster->tier_counts[i] : 1;
        const double bytes = orr_fact_or(&memory->capacity_bytes, 0) * count / host_ranks;
        if (!(bytes > (double)all[tier].bytes) || bytes > 0x1p62)
            continue;
        ORR_TRY(orr_tier_rates_of_memory(memory, count / host_ranks, (int64_t)bytes, arena,
                                         &all[tier], err));
    }
    if (all[ORR_TIER_DRAM].bytes == 0)
        return orr_fail(err, ORR_INVALID, "how much memory a host of %s has is not known",
                        cluster->name);
    memcpy(ret, all, sizeof all);
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
