/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPLORE_TABLES_H
#define ORR_REPORT_EXPLORE_TABLES_H

#include <orrery/report.h>

/* Tables of the report on a search, a function each; tables.c lists them. */
#define ORR_EXPLORE_TABLE_(name)                                                                   \
    orr_status orr_explore_table_##name(const orr_explore_report *report, orr_arena *arena,        \
                                        orr_table *ret, orr_error *err) ORR_MUST_CHECK
ORR_EXPLORE_TABLE_(plans);
ORR_EXPLORE_TABLE_(decision);
ORR_EXPLORE_TABLE_(published);
ORR_EXPLORE_TABLE_(front);
ORR_EXPLORE_TABLE_(search);
ORR_EXPLORE_TABLE_(baselines);
ORR_EXPLORE_TABLE_(bottlenecks);
ORR_EXPLORE_TABLE_(cuts);
ORR_EXPLORE_TABLE_(alternatives);
ORR_EXPLORE_TABLE_(waterfalls);
ORR_EXPLORE_TABLE_(break_even);
ORR_EXPLORE_TABLE_(sensitivity);
ORR_EXPLORE_TABLE_(relaxations);
ORR_EXPLORE_TABLE_(answers);
ORR_EXPLORE_TABLE_(probes);
ORR_EXPLORE_TABLE_(network);

#endif /* ORR_REPORT_EXPLORE_TABLES_H */
