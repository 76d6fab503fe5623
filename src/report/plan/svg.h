/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_PLAN_SVG_H
#define ORR_REPORT_PLAN_SVG_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* The pictures of a plan's page. Labels of rows stand in a column of ORR_PLAN_LABEL. */
enum { ORR_PLAN_LABEL = 150 };

/* From ideal FLOP time to step time, a bar for each part that is not empty. `whole_ns`: as wide as
 * the picture. */
void orr_svg_waterfall(orr_output *out, const orr_outcome *outcome, int64_t whole_ns);

/* One timeline for each stage, in order of stages; those of slower ranks are left out. Shape
 * (*ret_n), in the arena; NULL: out of memory. */
const orr_timeline *const *orr_stage_timelines(const orr_outcome *outcome, orr_arena *arena,
                                               uint32_t *ret_n);
/* The pipeline: a row for each stage, work by phase, what travels below it, bubbles shaded. */
orr_status orr_svg_gantt(orr_output *out, const orr_outcome *outcome, orr_arena *arena,
                         orr_error *err) ORR_MUST_CHECK;
/* Memory of the worst stage over the step, by kind, with the peak named. */
orr_status orr_svg_memory(orr_output *out, const orr_outcome *outcome, orr_arena *arena,
                          orr_error *err) ORR_MUST_CHECK;
/* How busy each level's links are, by axis. */
void orr_svg_links(orr_output *out, const orr_outcome *outcome);
/* The first hosts of the machine, a device coloured by its stage. */
void orr_svg_machine(orr_output *out, const orr_outcome *outcome);

#endif /* ORR_REPORT_PLAN_SVG_H */
