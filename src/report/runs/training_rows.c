/* SPDX-License-Identifier: Apache-2.0 */
/* Training with rows of embedding tables that do not live in memory: what each tier had to do. */
#include <math.h>

#include "report/analyses/registry.h"

typedef struct tier_row {
    int64_t step;
    const char *tier;
    orr_train_rows rows;
    double hit_frac, row_hit_frac, reads_per_s;
} tier_row;

#define C(field, type)        ORR_COL_(tier_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(tier_row, field, type, name)
#define COUNTS                                                                                     \
    AS(rows.lookups, I64, "lookups"), C(hit_frac, FRAC), AS(rows.rows, I64, "rows"),               \
        C(row_hit_frac, FRAC), AS(rows.demand_misses, I64, "demand_misses"),                       \
        AS(rows.stall_ns, NS, "stall_ns"), AS(rows.reads, I64, "reads"), C(reads_per_s, NUMBER),   \
        AS(rows.read_bytes, BYTES, "read_bytes"), AS(rows.written_bytes, BYTES, "written_bytes")
static const orr_column total_columns[] = {C(tier, TEXT), COUNTS};
static const orr_column step_columns[] = {C(step, I64), C(tier, TEXT), COUNTS};
#undef COUNTS
#undef C
#undef AS

static double frac(int64_t part, int64_t all)
{
    return all > 0 ? (double)part / (double)all : NAN;
}

static tier_row row_of(int64_t step, int tier, const orr_train_rows *rows, int64_t ns)
{
    return (tier_row){.step = step,
                      .tier = orr_tier_name((orr_tier)tier),
                      .rows = *rows,
                      .hit_frac = frac(rows->hits, rows->lookups),
                      .row_hit_frac = frac(rows->row_hits, rows->rows),
                      .reads_per_s = ns > 0 ? (double)rows->reads / ((double)ns / 1e9) : 0};
}

orr_status orr_training_row_tables(const orr_train_result *r, orr_arena *arena,
                                   orr_named_table ret[ORR_TRAINING_ROW_TABLES], orr_error *err)
{
    const size_t steps = (size_t)r->steps;
    tier_row *all = orr_arena_array(arena, tier_row, ORR_TIERS);
    tier_row *each = orr_arena_array(arena, tier_row, steps * ORR_TIERS);
    size_t n_all = 0, n = 0;
    int64_t ns = 0;
    if (all == NULL || each == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < steps; i++)
        ns += r->history[i].step_ns;
    for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS; tier++)
        if (r->tiers[tier])
            all[n_all++] = row_of(0, tier, &r->rows[tier], ns);
    for (size_t i = 0; i < steps; i++)
        for (int tier = ORR_TIER_DRAM + 1; tier < ORR_TIERS; tier++)
            if (r->tiers[tier])
                each[n++] = row_of(r->history[i].step, tier, &r->history[i].rows[tier],
                                   r->history[i].step_ns);
    ret[0] = (orr_named_table){"tiers", ORR_TABLE_("orrery.training_tiers/1",
                                                   "rows that do not live in memory, of all steps",
                                                   total_columns, all, n_all)};
    ret[1] = (orr_named_table){"rows", ORR_TABLE_("orrery.training_rows/1",
                                                  "rows that do not live in memory, by step",
                                                  step_columns, each, n)};
    return ORR_OK;
}
