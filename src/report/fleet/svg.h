/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_FLEET_SVG_H
#define ORR_REPORT_FLEET_SVG_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* The pictures of a fleet's page. `names`: of the policies, shape (fleet->n). */

/* A bar a policy: what stands, and what is lost to what. */
void orr_svg_fleet_losses(orr_output *out, const orr_fleet *fleet, const char *const *names);
/* Effective time against the number of replicas, beside that of the policies that have none. */
void orr_svg_fleet_replicas(orr_output *out, const orr_fleet *fleet);
/* A day of each policy: how many contribute, and why nobody does. */
void orr_svg_fleet_day(orr_output *out, const orr_fleet *fleet, const char *const *names);
/* What settings move, for one policy. */
void orr_svg_fleet_sensitivity(orr_output *out, const orr_fleet *fleet, uint32_t policy);

#endif /* ORR_REPORT_FLEET_SVG_H */
