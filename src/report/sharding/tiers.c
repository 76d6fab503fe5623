/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <math.h>

#include "report/humanize/human.h"
#include "report/sharding/parts.h"

/* Tables on tiers: what each tier holds and what more of it would buy, where each table is. */

/* --- a row a tier ----------------------------------------------------------------------------- */

typedef struct tier_row {
    const char *tier, *device;
    uint32_t tables;
    int64_t bytes, capacity_bytes;
    double used_frac, reads, writes, fetch_ns, busy_frac, next_gib_ns, next_gib_fetch_ns,
        next_gib_reads;
} tier_row;

static const orr_column tier_columns[] = {
    ORR_COL_(tier_row, tier, TEXT),
    ORR_COL_(tier_row, device, TEXT),
    ORR_COL_(tier_row, tables, U32),
    ORR_COL_(tier_row, bytes, BYTES),
    ORR_COL_(tier_row, capacity_bytes, BYTES),
    ORR_COL_(tier_row, used_frac, FRAC),
    ORR_COL_(tier_row, reads, NUMBER),
    ORR_COL_(tier_row, writes, NUMBER),
    ORR_COL_(tier_row, fetch_ns, NS_MEAN),
    ORR_COL_(tier_row, busy_frac, FRAC),
    ORR_COL_(tier_row, next_gib_ns, NS_MEAN),
    ORR_COL_(tier_row, next_gib_fetch_ns, NS_MEAN),
    ORR_COL_(tier_row, next_gib_reads, NUMBER),
};

orr_status orr_sharding_tier_table(const orr_sharding_report *r, orr_arena *arena, orr_table *ret,
                                   orr_error *err)
{
    const orr_tiering *t = r->best->tiering;
    const orr_tier_options *o = r->options->tiers;
    tier_row *rows = orr_arena_array(arena, tier_row, ORR_TIERS);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int k = 0; k < ORR_TIERS && t != NULL; k++) {
        const orr_tier_load *load = &t->load[k];
        const double bytes = (double)o->tier[k].bytes, step_ns = r->best->ns + t->stall_ns;
        const bool fetched = k != ORR_TIER_DRAM;
        if (!(bytes > 0))
            continue;
        rows[n++] = (tier_row){
            .tier = orr_tier_name((orr_tier)k),
            .device = o->tier[k].name != NULL ? o->tier[k].name : "",
            .tables = load->tables,
            .bytes = load->bytes,
            .capacity_bytes = o->tier[k].bytes,
            .used_frac = (double)load->bytes / bytes,
            .reads = fetched ? load->reads : NAN,
            .writes = fetched ? load->writes : NAN,
            .fetch_ns = fetched ? load->fetch_ns : NAN,
            .busy_frac = fetched && step_ns > 0 ? load->fetch_ns / step_ns : NAN,
            .next_gib_ns = load->next_gib_ns,
            .next_gib_fetch_ns = load->next_gib_fetch_ns,
            .next_gib_reads = load->next_gib_reads,
        };
    }
    *ret = ORR_TABLE_("orrery.sharding_tiers/1", "tiers of a rank", tier_columns, rows, n);
    return ORR_OK;
}

/* --- a row a table ---------------------------------------------------------------------------- */

typedef struct placed_row {
    const char *table, *tier;
    int64_t rows, bytes;
    double cached_rows, cached_frac, hit_frac, reads;
} placed_row;

static const orr_column placed_columns[] = {
    ORR_COL_(placed_row, table, TEXT),         ORR_COL_(placed_row, tier, TEXT),
    ORR_COL_(placed_row, rows, I64),           ORR_COL_(placed_row, bytes, BYTES),
    ORR_COL_(placed_row, cached_rows, NUMBER), ORR_COL_(placed_row, cached_frac, FRAC),
    ORR_COL_(placed_row, hit_frac, FRAC),      ORR_COL_(placed_row, reads, NUMBER),
};

orr_status orr_sharding_placed_table(const orr_sharding_report *r, orr_arena *arena, orr_table *ret,
                                     orr_error *err)
{
    const orr_tiering *t = r->best->tiering;
    const uint32_t n = t != NULL ? r->best->plan.n_tables : 0;
    placed_row *rows = orr_arena_array(arena, placed_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_embedding *e = &r->best->plan.tables[i];
        const orr_embedding_placement *place = &r->best->plan.placements[i];
        const orr_tier_choice *c = &t->choices[i];
        /* Each part of the columns has a cache of its own. */
        const double all = (double)e->rows * (place->columns > 0 ? place->columns : 1);
        const double cached = c->tier == ORR_TIER_DRAM ? (double)e->rows : floor(c->cached_rows);
        rows[i] = (placed_row){
            .table = e->name,
            .tier = orr_tier_name((orr_tier)c->tier),
            .rows = e->rows,
            .bytes = c->bytes,
            .cached_rows = cached,
            .cached_frac = c->tier == ORR_TIER_DRAM ? 1 : c->cached_rows / all,
            .hit_frac = c->hit_frac,
            .reads = c->reads,
        };
    }
    *ret = ORR_TABLE_("orrery.sharding_placed/1", "tables on tiers", placed_columns, rows, n);
    return ORR_OK;
}

/* --- for people ------------------------------------------------------------------------------- */

static void tell_next(const orr_tier_load *load, const char *tier, orr_output *out)
{
    char step[ORR_HUMAN_MAX], fetch[ORR_HUMAN_MAX], reads[ORR_HUMAN_MAX];
    if (load->next_gib_ns > 0)
        orr_output_printf(out, "; a GiB more of %s on every rank would make the step %s shorter",
                          tier, orr_human_ns(step, load->next_gib_ns));
    else if (load->next_gib_fetch_ns > 0)
        orr_output_printf(out, "; a GiB more of %s would save %s of hidden fetch, %s reads", tier,
                          orr_human_ns(fetch, load->next_gib_fetch_ns),
                          orr_human_count(reads, (uint64_t)fmax(0, load->next_gib_reads)));
    else
        orr_output_printf(out, "; more of %s would buy nothing", tier);
}

void orr_sharding_tell_tiers(const orr_sharding_report *r, orr_output *out)
{
    const orr_tiering *t = r->best->tiering;
    const orr_tier_options *o = r->options->tiers;
    char used[ORR_HUMAN_MAX], room[ORR_HUMAN_MAX], fetch[ORR_HUMAN_MAX], stall[ORR_HUMAN_MAX];
    for (int k = 0; k < ORR_TIERS; k++) {
        const char *name = orr_tier_name((orr_tier)k);
        if (!(o->tier[k].bytes > 0))
            continue;
        orr_output_printf(out, "%s: %u table%s, %s of %s", name, t->load[k].tables,
                          t->load[k].tables == 1 ? "" : "s",
                          orr_human_bytes(used, (double)t->load[k].bytes),
                          orr_human_bytes(room, (double)o->tier[k].bytes));
        if (k == ORR_TIER_DRAM && t->cache_bytes > 0)
            orr_output_printf(out, ", of it %s row cache", orr_human_bytes(fetch, t->cache_bytes));
        tell_next(&t->load[k], name, out);
        orr_output_text(out, "\n");
    }
    if (t->fetch_ns > 0)
        orr_output_printf(
            out,
            "fetch: %s on rank %u, which reads and writes back most; %s of it a stall, with %u "
            "batch%s ahead\n",
            orr_human_ns(fetch, t->fetch_ns), t->busiest, orr_human_ns(stall, t->stall_ns),
            o->lookahead, o->lookahead == 1 ? "" : "es");
    else
        orr_output_text(out, "fetch: none, all rows are in memory\n");
}
