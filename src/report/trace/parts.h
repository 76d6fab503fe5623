/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TRACE_PARTS_H
#define ORR_REPORT_TRACE_PARTS_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* Parts of the page of a recording that stand above its timeline. */

/* A bar for each rank, as long as its span: computing, exposed transfers, bubble, exposed
 * memory, idle. */
void orr_svg_breakdown(orr_output *out, const orr_temporal *rows, size_t n_rows);
/* Legend and bar of what bounds the critical path. */
void orr_svg_critical_path(orr_output *out, const orr_critical_path *path);
const char *orr_bound_label(orr_bound bound); /* for people: "host (CPU)" */

/* What the tiles at the top rest on, gathered before the page is written. */
typedef struct orr_trace_headline {
    const orr_temporal *temporal;
    size_t n_temporal;
    const orr_step_summary *steps;
    size_t n_steps;
    const orr_critical_path *path; /* or NULL */
    uint64_t events;
} orr_trace_headline;
void orr_html_trace_headline(orr_output *out, const orr_job *job,
                             const orr_trace_headline *headline);

#endif /* ORR_REPORT_TRACE_PARTS_H */
