/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_FLEET_PARTS_H
#define ORR_REPORT_FLEET_PARTS_H

#include <orrery/report.h>

/* Parts of the report on a fleet. "ft12", "spares64", "sync"; NULL: out of memory. */
const char *orr_fleet_policy_text(const orr_fleet_policy *policy, orr_arena *arena);

/* What every rate of the catalogue would mean on so many nodes. */
orr_status orr_fleet_rate_table(const orr_fleet *fleet, const orr_failure_catalog *catalog,
                                orr_arena *arena, orr_table *ret, orr_error *err) ORR_MUST_CHECK;
/* Every setting, with what it rests on. */
orr_status orr_fleet_setting_table(const orr_fleet *fleet, orr_arena *arena, orr_table *ret,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_FLEET_PARTS_H */
