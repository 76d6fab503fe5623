/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPLORE_SVG_H
#define ORR_REPORT_EXPLORE_SVG_H

#include "io/stream/output.h"
#include "report/explore/summary.h"

/* The pictures of an exploration's page. Labels of rows stand in a column of ORR_EXPLORE_LABEL. */
enum { ORR_EXPLORE_LABEL = 150 };

/* The plan over the sites: a box for each, as wide as it has devices, stages inside; below, what
 * crosses between them. Errors: NO_MEMORY. */
orr_status orr_svg_explore_sites(orr_output *out, const orr_explore_report *report,
                                 orr_arena *arena, orr_error *err) ORR_MUST_CHECK;
/* Objective against second objective: the front, what the bound rules out, what is worse, and who
 * else was asked. */
void orr_svg_explore_front(orr_output *out, const orr_explore_report *report);
/* A bar a plan, of the parts of its step. */
void orr_svg_explore_waterfalls(orr_output *out, const orr_explore_report *report);
/* What other numbers of the machine do to the winner, and where another wins. */
void orr_svg_explore_tornado(orr_output *out, const orr_explore_report *report);
/* Steps of other searchers' plans. */
void orr_svg_explore_baselines(orr_output *out, const orr_explore_report *report);
/* What became of the plans of the space. */
void orr_svg_explore_space(orr_output *out, const orr_explore_report *report);

#endif /* ORR_REPORT_EXPLORE_SVG_H */
