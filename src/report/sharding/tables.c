/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <math.h>

#include "report/sharding/parts.h"

/* --- figures ---------------------------------------------------------------------------------- */

typedef struct figure_row {
    const char *figure, *unit;
    double value;
} figure_row;

static const orr_column figure_columns[] = {
    ORR_COL_(figure_row, figure, TEXT),
    ORR_COL_(figure_row, value, NUMBER),
    ORR_COL_(figure_row, unit, TEXT),
};

static orr_status figure_table(const orr_sharding_report *r, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    const orr_table_planning *p = r->best;
    const bool found = p->infeasible == NULL;
    const uint32_t busiest = orr_sharding_busiest_rank(p), fullest = orr_sharding_fullest_rank(p);
    const figure_row all[] = {
        {"ranks", "", p->plan.ranks},
        {"tables", "", p->plan.n_tables},
        {"shards", "", p->plan.n_shards},
        {"batch", "samples", (double)orr_sharding_batch(r)},
        {"time", "ns", p->ns},
        {"shared_time", "ns", p->shared_ns},
        {"synchronous_time", "ns", p->synchronous_ns},
        {"bound", "ns", p->bound_ns},
        {"gap", "", p->gap_frac},
        {"busiest_rank", "", busiest},
        {"fullest_rank", "", fullest},
        {"memory", "bytes", found ? (double)p->ranks[fullest].memory_bytes : NAN},
        {"memory_limit", "bytes",
         r->options->memory_bytes > 0 ? (double)r->options->memory_bytes : NAN},
        {"worth_of_a_gib", "ns", p->tiering != NULL ? NAN : p->memory_ns_per_gib},
        {"fetch", "ns", p->tiering != NULL ? p->tiering->fetch_ns : NAN},
        {"stall", "ns", p->tiering != NULL ? p->tiering->stall_ns : NAN},
    };
    enum { N = sizeof all / sizeof *all };
    figure_row *rows = orr_arena_array(arena, figure_row, N);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; found && i < N; i++)
        if (isfinite(all[i].value))
            rows[n++] = all[i];
    *ret = ORR_TABLE_("orrery.sharding_figures/1", "figures of the plan", figure_columns, rows, n);
    return ORR_OK;
}

/* --- kinds ------------------------------------------------------------------------------------ */

typedef struct kind_row {
    const char *kind;
    uint32_t tables, shards;
    int64_t memory_bytes;
    double mean_time_ns;
} kind_row;

static const orr_column kind_columns[] = {
    ORR_COL_(kind_row, kind, TEXT),
    ORR_COL_(kind_row, tables, U32),
    ORR_COL_(kind_row, shards, U32),
    ORR_COL_(kind_row, memory_bytes, BYTES),
    ORR_COL_(kind_row, mean_time_ns, NS_MEAN),
};

static orr_status kind_table(const orr_table_planning *p, orr_arena *arena, orr_table *ret,
                             orr_error *err)
{
    kind_row all[ORR_SHARDINGS] = {0}, *rows = orr_arena_array(arena, kind_row, ORR_SHARDINGS);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < p->plan.n_tables; t++) {
        kind_row *row = &all[p->plan.placements[t].sharding];
        row->tables++;
        row->shards += p->plan.placements[t].n_shards;
        row->memory_bytes += p->choices[t].memory_bytes;
        row->mean_time_ns += p->choices[t].ns;
    }
    for (int k = 0; k < ORR_SHARDINGS; k++)
        if (all[k].tables > 0) {
            all[k].kind = orr_embedding_sharding_name((orr_embedding_sharding)k);
            rows[n++] = all[k];
        }
    *ret = ORR_TABLE_("orrery.sharding_kinds/1", "by kind of sharding", kind_columns, rows, n);
    return ORR_OK;
}

/* --- a row a table ---------------------------------------------------------------------------- */

typedef struct table_row {
    const char *table, *kind, *ranks, *bound_by, *reason, *other, *why;
    uint32_t column_parts, columns;
    int64_t rows, memory_bytes;
    double pooling, mean_time_ns, largest_shard_ns, other_ns;
} table_row;

static const orr_column table_columns[] = {
    ORR_COL_(table_row, table, TEXT),
    ORR_COL_(table_row, kind, TEXT),
    ORR_COL_(table_row, ranks, TEXT),
    ORR_COL_(table_row, column_parts, U32),
    ORR_COL_(table_row, rows, I64),
    ORR_COL_(table_row, columns, U32),
    ORR_COL_(table_row, pooling, NUMBER),
    ORR_COL_(table_row, memory_bytes, BYTES),
    ORR_COL_(table_row, mean_time_ns, NS_MEAN),
    ORR_COL_(table_row, largest_shard_ns, NS_MEAN),
    ORR_COL_(table_row, bound_by, TEXT),
    ORR_COL_(table_row, reason, TEXT),
    ORR_COL_AS_(table_row, other, TEXT, "other_kind"),
    ORR_COL_(table_row, other_ns, NS_MEAN),
    ORR_COL_(table_row, why, TEXT),
};

static table_row table_row_of(const orr_table_planning *p, uint32_t t, bool chosen)
{
    const orr_embedding *table = &p->plan.tables[t];
    const orr_embedding_placement *place = &p->plan.placements[t];
    const orr_table_choice *choice = &p->choices[t];
    const bool other = chosen && choice->has_other;
    return (table_row){
        .table = table->name,
        .kind = orr_embedding_sharding_name((orr_embedding_sharding)place->sharding),
        .column_parts = place->columns > 1 ? place->columns : ORR_NONE,
        .rows = table->rows,
        .columns = table->columns,
        .pooling = table->pooling,
        .memory_bytes = choice->memory_bytes,
        .mean_time_ns = choice->ns,
        .largest_shard_ns = place->sharding == ORR_SHARDING_DATA ? NAN : choice->largest_shard_ns,
        .bound_by = orr_table_stage_name((orr_table_stage)choice->bound_by),
        .reason = chosen ? orr_table_reason_name((orr_table_reason)choice->reason) : "",
        .other = other ? orr_embedding_sharding_name((orr_embedding_sharding)choice->other) : "",
        .other_ns = other ? choice->other_ns : NAN,
        .why = chosen && choice->why != NULL ? choice->why : "",
    };
}

static orr_status table_table(const orr_table_planning *p, bool chosen, orr_arena *arena,
                              orr_table *ret, orr_error *err)
{
    const uint32_t n = p != NULL ? p->plan.n_tables : 0;
    table_row *rows = orr_arena_array(arena, table_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < n; t++) {
        rows[t] = table_row_of(p, t, chosen);
        rows[t].ranks = orr_sharding_ranks_text(&p->plan.placements[t], arena);
        if (rows[t].ranks == NULL)
            return orr_fail_memory(err);
    }
    *ret = chosen ? ORR_TABLE_("orrery.sharding_tables/1", "tables", table_columns, rows, n)
                  : ORR_TABLE_("orrery.sharding_given_tables/1", "tables of the given plan",
                               table_columns, rows, n);
    return ORR_OK;
}

/* --- a row a rank ----------------------------------------------------------------------------- */

typedef struct rank_row {
    uint32_t rank, shards;
    int64_t memory_bytes;
    double memory_frac, ids_ns, lookup_ns, bags_ns, gradients_ns, update_ns, total_ns;
} rank_row;

static const orr_column rank_columns[] = {
    ORR_COL_(rank_row, rank, U32),           ORR_COL_(rank_row, shards, U32),
    ORR_COL_(rank_row, memory_bytes, BYTES), ORR_COL_(rank_row, memory_frac, FRAC),
    ORR_COL_(rank_row, ids_ns, NS_MEAN),     ORR_COL_(rank_row, lookup_ns, NS_MEAN),
    ORR_COL_(rank_row, bags_ns, NS_MEAN),    ORR_COL_(rank_row, gradients_ns, NS_MEAN),
    ORR_COL_(rank_row, update_ns, NS_MEAN),  ORR_COL_(rank_row, total_ns, NS_MEAN),
};

static orr_status rank_table(const orr_sharding_report *r, const orr_table_planning *p, bool chosen,
                             orr_arena *arena, orr_table *ret, orr_error *err)
{
    /* With tiers a rank's bytes are on all of them. */
    const double room = p != NULL && p->tiering != NULL ? 0 : (double)r->options->memory_bytes;
    const uint32_t n = p != NULL ? p->plan.ranks : 0;
    rank_row *rows = orr_arena_array(arena, rank_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_table_rank_cost *cost = &p->ranks[i];
        rows[i] = (rank_row){
            .rank = i,
            .shards = cost->shards,
            .memory_bytes = cost->memory_bytes,
            .memory_frac = room > 0 ? (double)cost->memory_bytes / room : NAN,
            .ids_ns = cost->stage_ns[ORR_TABLE_STAGE_IDS],
            .lookup_ns = cost->stage_ns[ORR_TABLE_STAGE_LOOKUP],
            .bags_ns = cost->stage_ns[ORR_TABLE_STAGE_BAGS],
            .gradients_ns = cost->stage_ns[ORR_TABLE_STAGE_GRADIENTS],
            .update_ns = cost->stage_ns[ORR_TABLE_STAGE_UPDATE],
            .total_ns = cost->ns,
        };
    }
    *ret = chosen ? ORR_TABLE_("orrery.sharding_ranks/1", "ranks", rank_columns, rows, n)
                  : ORR_TABLE_("orrery.sharding_given_ranks/1", "ranks of the given plan",
                               rank_columns, rows, n);
    return ORR_OK;
}

/* --- a given plan beside the best ------------------------------------------------------------- */

typedef struct comparison_row {
    const char *plan;
    double time_ns, over_best_frac, shared_ns, synchronous_ns;
    int64_t memory_bytes;
    uint32_t shards, moved;
} comparison_row;

static const orr_column comparison_columns[] = {
    ORR_COL_(comparison_row, plan, TEXT),
    ORR_COL_(comparison_row, time_ns, NS_MEAN),
    ORR_COL_(comparison_row, over_best_frac, FRAC),
    ORR_COL_(comparison_row, shared_ns, NS_MEAN),
    ORR_COL_(comparison_row, synchronous_ns, NS_MEAN),
    ORR_COL_(comparison_row, memory_bytes, BYTES),
    ORR_COL_(comparison_row, shards, U32),
    ORR_COL_AS_(comparison_row, moved, U32, "tables_of_another_kind"),
};

static comparison_row compare(const orr_sharding_report *r, const orr_table_planning *p,
                              const char *name)
{
    const bool found = r->best->infeasible == NULL;
    uint32_t moved = 0;
    for (uint32_t t = 0; found && t < p->plan.n_tables; t++)
        moved += p->plan.placements[t].sharding != r->best->plan.placements[t].sharding;
    return (comparison_row){
        .plan = name,
        .time_ns = p->ns,
        .over_best_frac = found && r->best->ns > 0 ? p->ns / r->best->ns - 1 : NAN,
        .shared_ns = p->shared_ns,
        .synchronous_ns = p->synchronous_ns,
        .memory_bytes = p->ranks[orr_sharding_fullest_rank(p)].memory_bytes,
        .shards = p->plan.n_shards,
        .moved = found ? moved : ORR_NONE,
    };
}

static orr_status comparison_table(const orr_sharding_report *r, orr_arena *arena, orr_table *ret,
                                   orr_error *err)
{
    const orr_table_planning *both[] = {r->given, r->best};
    comparison_row *rows = orr_arena_array(arena, comparison_row, 2);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int i = 0; r->given != NULL && i < 2; i++)
        if (both[i]->infeasible == NULL)
            rows[n++] = compare(r, both[i], i == 0 ? "given" : "best");
    *ret = ORR_TABLE_("orrery.sharding_comparison/1", "the given plan beside the best",
                      comparison_columns, rows, n);
    return ORR_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

orr_status orr_sharding_tables(const orr_sharding_report *report, orr_arena *arena,
                               orr_named_table ret[ORR_SHARDING_TABLES], orr_error *err)
{
    static const char *const names[ORR_SHARDING_TABLES] = {
        "figures",      "comparison",  "kinds", "tables", "ranks",
        "given_tables", "given_ranks", "tiers", "placed"};
    const orr_table_planning *best = report->best, *given = report->given;
    for (int i = 0; i < ORR_SHARDING_TABLES; i++)
        ret[i].name = names[i];
    ORR_TRY(figure_table(report, arena, &ret[0].table, err));
    ORR_TRY(comparison_table(report, arena, &ret[1].table, err));
    ORR_TRY(kind_table(best, arena, &ret[2].table, err));
    ORR_TRY(table_table(best, true, arena, &ret[3].table, err));
    ORR_TRY(rank_table(report, best, true, arena, &ret[4].table, err));
    ORR_TRY(table_table(given, false, arena, &ret[5].table, err));
    ORR_TRY(rank_table(report, given, false, arena, &ret[6].table, err));
    ORR_TRY(orr_sharding_tier_table(report, arena, &ret[7].table, err));
    return orr_sharding_placed_table(report, arena, &ret[8].table, err);
}
