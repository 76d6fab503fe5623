/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_FLEET_PARTS_H
#define ORR_REPORT_FLEET_PARTS_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* Parts of the report on a fleet. "ft12", "spares64", "sync"; NULL: out of memory. */
const char *orr_fleet_policy_text(const orr_fleet_policy *policy, orr_arena *arena);

/* What every rate of the catalogue would mean on so many nodes. */
orr_status orr_fleet_rate_table(const orr_fleet *fleet, const orr_failure_catalog *catalog,
                                orr_arena *arena, orr_table *ret, orr_error *err) ORR_MUST_CHECK;
/* Every setting, with what it rests on. */
orr_status orr_fleet_setting_table(const orr_fleet *fleet, orr_arena *arena, orr_table *ret,
                                   orr_error *err) ORR_MUST_CHECK;

/* Pictures, each a whole <svg>, as wide as the page. `names`: of the policies, shape (fleet->n). */
enum { ORR_FLEET_WIDTH = 1400, ORR_FLEET_LABEL = 110 };
/* A bar a policy: what stands, and what is lost to what. */
void orr_svg_fleet_losses(orr_output *out, const orr_fleet *fleet, const char *const *names);
/* Effective time against the number of replicas, beside that of the policies that have none. */
void orr_svg_fleet_replicas(orr_output *out, const orr_fleet *fleet);
/* A day of each policy: how many contribute, and why nobody does. */
void orr_svg_fleet_day(orr_output *out, const orr_fleet *fleet, const char *const *names);
/* What settings move, for one policy. */
void orr_svg_fleet_sensitivity(orr_output *out, const orr_fleet *fleet, uint32_t policy);

#endif /* ORR_REPORT_FLEET_PARTS_H */
