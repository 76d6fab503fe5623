/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TRACE_SECTIONS_H
#define ORR_REPORT_TRACE_SECTIONS_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* The tables of the page, section by section, and the links to them. A table that has nothing to
 * say is left out, and a section without tables. */
typedef struct orr_trace_sections orr_trace_sections;

/* Runs the analyses; tables in the arena. Errors: NO_MEMORY; an analysis that fails for another
 * reason is shown with that reason. */
orr_status orr_trace_sections_run(const orr_job *job, const orr_analysis_options *options,
                                  orr_arena *arena, const orr_trace_sections **ret,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_trace_sections_write(const orr_trace_sections *sections, orr_output *out);
void orr_trace_sections_write_nav(const orr_trace_sections *sections, orr_output *out);

#endif /* ORR_REPORT_TRACE_SECTIONS_H */
