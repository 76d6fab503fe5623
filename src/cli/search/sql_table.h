/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_SEARCH_SQL_TABLE_H
#define ORR_CLI_SEARCH_SQL_TABLE_H

#include <orrery/report.h>

#include "io/database/database.h"

/* What a query gives, as a table in the arena: integers, numbers and texts by what its rows hold; a
 * column whose name says a unit (step_ns, peak_bytes, mfu_frac) has it. Columns of one name are
 * told apart. Runs the query to its end. Errors: those of the query; LIMIT: more values than are
 * sensible to hold. */
orr_status orr_sql_table(orr_query *query, orr_arena *arena, orr_table *ret,
                         orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_CLI_SEARCH_SQL_TABLE_H */
