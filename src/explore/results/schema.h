/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_RESULTS_SCHEMA_H
#define ORR_EXPLORE_RESULTS_SCHEMA_H

#include "io/database/database.h"
#include "model/plan/plan.h"
#include "explore/results/store.h"

/* Tables of the results database, and their SQL. Rows are inserted into pending tables of the same
 * shape in memory, and moved from there into the file in one short transaction. */
enum { ORR_RESULTS_APPLICATION = 0x4f727279, /* "Orry" */ ORR_RESULTS_VERSION = 1 };

typedef struct orr_results_column {
    const char *name, *type;
} orr_results_column;
enum { ORR_RESULTS_COLUMNS = 24 + ORR_OBJECTIVES + ORR_PLAN_NUMBERS + ORR_PLAN_CHOICES };
/* The first two columns are the primary key. Columns from `fields` on follow from the key; n: none
 * do. */
typedef struct orr_results_table {
    const char *name;
    size_t n, fields;
    orr_results_column columns[ORR_RESULTS_COLUMNS];
} orr_results_table;
/* plan: search, plan, family, figures, objectives | numbers, choices, order, sites, sections. */
orr_results_table orr_results_plan_table(void);
orr_results_table orr_results_family_table(void); /* search, family, counts, reasons to prune */
orr_results_table orr_results_note_table(void);   /* search, name, value */

/* SQL in the arena; NULL: out of memory. Schema of a new file; schema of the pending tables. */
const char *orr_results_schema_sql(orr_arena *arena);
const char *orr_results_pending_schema_sql(orr_arena *arena);
/* Inserts a row into the pending table; moves all pending rows into the file. */
const char *orr_results_insert_sql(const orr_results_table *table, orr_arena *arena);
const char *orr_results_move_sql(const orr_results_table *table, orr_arena *arena);
/* Selects the row with key (?1, ?2), plans only if simulated; selects the plans of families that
 * are done in search ?1. */
const char *orr_results_find_sql(const orr_results_table *table, orr_arena *arena);
const char *orr_results_candidates_sql(const orr_results_table *plan, orr_arena *arena);

/* Adds the columns that a file of an earlier build lacks (schema migration). */
orr_status orr_results_add_missing_columns(orr_database *db, orr_arena *arena,
                                           orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_RESULTS_SCHEMA_H */
