/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_TABLES_TIERS_H
#define ORR_EXPLORE_TABLES_TIERS_H

#include <orrery/table_planner.h>

#include "model/tables/tier_record.h"

/* The problem of tiers: shards with what they take on each tier, and what an assignment of tables
 * to tiers comes to. */

/* A slot of the row cache beside its record; an entry of the map of rows: src/store/. */
enum { ORR_TIER_SLOT_BYTES = 33, ORR_TIER_ENTRY_BYTES = 8 };

typedef struct orr_tier_shard {
    uint32_t table, rank;
    double rows, lookups;                               /* of a step */
    double frac;                                        /* of the table's rows */
    double pinned_rows;                                 /* slots that it needs at least */
    double slot_bytes;                                  /* of a cached row */
    double memory_bytes;                                /* of its rows in DRAM */
    double buffer_bytes;                                /* of DRAM, wherever its rows are */
    double map_bytes[ORR_TIERS], tier_bytes[ORR_TIERS]; /* of DRAM, of the tier */
    double miss_ns[ORR_TIERS];                          /* a row that is read and written back */
} orr_tier_shard;

/* The concave hull of a table's curve beyond its pinned rows, as hits gained a row. */
typedef struct orr_tier_hull {
    uint32_t n;
    double rows[ORR_HIT_CURVE_POINTS], hits_per_row[ORR_HIT_CURVE_POINTS]; /* to the next point */
} orr_tier_hull;

typedef struct orr_tier_problem {
    const orr_table_planner_options *o;
    uint32_t ranks, n_tables, n_shards;
    const orr_tier_shard *shards; /* by rank */
    const uint32_t *first;        /* shape (ranks + 1), in shards */
    const double *rank_bytes;     /* shape (ranks): DRAM that a rank needs whatever tiers are */
    const orr_tier_hull *hulls;   /* shape (n_tables) */
    const bool *everywhere;       /* shape (n_tables): on every rank, which is in memory */
    double bytes[ORR_TIERS];      /* that a rank has */
    double *cached; /* shape (n_shards): rows that the last evaluation gave each shard */
    double *demand; /* shape (n_shards): workspace */
} orr_tier_problem;
orr_status orr_tier_problem_make(const orr_table_planner_options *o, const orr_embedding_plan *plan,
                                 orr_arena *arena, orr_tier_problem *ret,
                                 orr_error *err) ORR_MUST_CHECK;

/* What an assignment of tables to tiers, shape (n_tables), comes to. */
typedef struct orr_tier_cost {
    double fetch_ns; /* of the rank with most; INFINITY: it does not fit */
    uint32_t busiest;
    double lacking; /* bytes that do not fit, of the rank and the tier where most are lacking */
    uint32_t table; /* the largest one there */
    uint8_t tier;
} orr_tier_cost;
/* Fills `cached` as well. Ranks beyond one that takes `enough_ns` or does not fit are left out. */
orr_tier_cost orr_tier_evaluate(const orr_tier_problem *p, const uint8_t *tiers, double enough_ns);
/* Hit rate of a shard with so many cached rows. */
double orr_tier_hit_frac(const orr_tier_problem *p, const orr_tier_shard *s, double cached_rows);

/* The best assignment that is found: `ret`, shape (n_tables). Where none fits, that which lacks
 * least. */
orr_status orr_tier_search(const orr_tier_problem *p, orr_arena *arena, uint8_t *ret,
                           orr_tier_cost *ret_cost, orr_error *err) ORR_MUST_CHECK;

/* The plan with tables in memory alone: options without their tiers. */
orr_status orr_table_plan_in_memory(const orr_table_planner_options *options, orr_arena *arena,
                                    orr_table_planning *ret, orr_error *err) ORR_MUST_CHECK;
/* The plan with tiers, which the options have. */
orr_status orr_table_plan_on_tiers(const orr_table_planner_options *options, orr_arena *arena,
                                   orr_table_planning *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_TABLES_TIERS_H */
