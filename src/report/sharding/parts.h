/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_SHARDING_PARTS_H
#define ORR_REPORT_SHARDING_PARTS_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* Parts of what is told of a sharding plan, for tables, summary, document and page. */

/* Ranks of a placement for people: "0-3, 8"; of DATA "all". In the arena; NULL: no memory. */
const char *orr_sharding_ranks_text(const orr_embedding_placement *placement, orr_arena *arena);
/* The rank with most time, with most memory. */
uint32_t orr_sharding_busiest_rank(const orr_table_planning *planning);
uint32_t orr_sharding_fullest_rank(const orr_table_planning *planning);
/* Samples of a step over all ranks; rows and states of all tables, saturating. */
int64_t orr_sharding_batch(const orr_sharding_report *report);
int64_t orr_sharding_table_bytes(const orr_sharding_report *report);
/* "optimal", "within the gap", "stopped", "interrupted" or "no plan". */
const char *orr_sharding_status(const orr_sharding_report *report);

/* Tables on tiers: no rows where there are none. */
orr_status orr_sharding_tier_table(const orr_sharding_report *report, orr_arena *arena,
                                   orr_table *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_sharding_placed_table(const orr_sharding_report *report, orr_arena *arena,
                                     orr_table *ret, orr_error *err) ORR_MUST_CHECK;
/* The same in lines, of a plan with tiers. */
void orr_sharding_tell_tiers(const orr_sharding_report *report, orr_output *out);

/* The answer in a few lines for people. */
void orr_sharding_summary(const orr_sharding_report *report, orr_output *out);
/* The document "orrery.tables/1": the question, the answer, then all tables. */
void orr_sharding_json(const orr_sharding_report *report,
                       const orr_named_table tables[ORR_SHARDING_TABLES], orr_output *out);

#endif /* ORR_REPORT_SHARDING_PARTS_H */
