/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_PAGE_HTML_H
#define ORR_REPORT_PAGE_HTML_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* Text as HTML text or as an attribute in double quotes: nothing of it is markup. */
void orr_html_text(orr_output *out, const char *text);
ORR_PRINTF(2, 3) void orr_html_printf(orr_output *out, const char *format, ...);

/* A table with exact values beside readable ones, so that the page can sort it; the first
 * `max_rows` rows, of `order` (shape (n_rows)) where that is not NULL. `name`: of its analysis, or
 * NULL: it is none. */
void orr_html_table(orr_output *out, const char *name, const char *about, const orr_table *table,
                    const uint32_t *order, size_t max_rows);

/* Stacked bar of each rank's span: computing, exposed communication and memory, idle. A whole <svg>
 * element with its own colours; in the page the style sheet has the last word. */
void orr_svg_breakdown(orr_output *out, const orr_temporal *rows, size_t n_rows);
/* Legend and bar of what bounds a path; completes a <figcaption> that is open. */
void orr_svg_critical_path(orr_output *out, const orr_critical_path *path);
const char *orr_bound_label(orr_bound bound); /* for people: "host (CPU)" */

/* What the top of the page says, gathered before it is written. */
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

#endif /* ORR_REPORT_PAGE_HTML_H */
