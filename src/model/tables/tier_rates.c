/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/tables/tier_record.h"

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

/* A record on a tier begins with its row's number; a sector ends with its hash. */
enum { NUMBER_BYTES = 8, HASH_BYTES = 8 };

static double slower(double a, double per_s)
{
    return per_s > 0 ? fmax(a, 1e9 / per_s) : a;
}

static double miss_ns(const orr_tier_rates *r, double record, double sectors)
{
    const double bytes = sectors * r->sector_bytes;
    const double read = slower(slower(0, r->read_iops), r->read_bytes_per_s / bytes);
    const double in_place = slower(slower(0, r->write_iops), r->write_bytes_per_s / bytes);
    const double extent = slower(0, r->write_bytes_per_s / (record * ORR_TIER_CLEANING));
    const bool sequential = r->write_bytes_per_s > 0;
    return fmax(r->request_ns, read + (sequential ? fmin(in_place, extent) : in_place));
}

/* As many records to a sector as it holds, or as many sectors to a record as it needs. */
orr_tier_record orr_tier_record_of(const orr_tier_rates *rates, double bytes)
{
    const double record = bytes + NUMBER_BYTES, room = rates->sector_bytes - HASH_BYTES;
    const double sectors = record <= room ? 1 / floor(room / record) : ceil(record / room);
    return (orr_tier_record){sectors, miss_ns(rates, record, fmax(1, sectors))};
}
