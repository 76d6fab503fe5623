/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_TABLES_FETCH_H
#define ORR_MODEL_TABLES_FETCH_H

#include <orrery/hit_rate.h>

#include "model/tables/load.h"

/* What a micro-batch reads from storage, and writes back there, on the rank that takes longest: of
 * a table outside memory the lookups that miss its row cache. The terms are those of the planner of
 * tables (orrery/table_tiers.h); rows in the cache are the placement's `cached_rows`, shared evenly
 * by its shards, and never fewer than the rows of the batches in flight. */
typedef struct orr_tables_fetch {
    double ns;       /* reads and writes; 0: all tables live in memory */
    double first_ns; /* until the first row is there: latency of the slowest tier in use */
    double reads, read_bytes;
    uint32_t ahead; /* batches that are fetched before they are needed; 0: each is waited for */
} orr_tables_fetch;

/* Batches whose rows are known and fetched ahead. */
uint32_t orr_tables_ahead(const orr_embedding_plan *plan);
/* Whether any table of the plan lives outside memory. */
bool orr_tables_are_fetched(const orr_embedding_plan *plan);
/* Rows of a table that row caches hold, of the table: a column part caches its own. */
double orr_tables_cached_rows(const orr_embedding_plan *plan, uint32_t table,
                              const orr_tables_demand *demand);
/* `tiers`, shape (ORR_TIERS): what a rank has. INVALID: a table lives on a tier that it has not.
 * NO_MEMORY. */
orr_status orr_tables_fetch_of(const orr_embedding_plan *plan, const orr_tables_demand *demand,
                               const orr_tier_rates *tiers, orr_tables_fetch *ret,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_TABLES_FETCH_H */
