/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TIMELINE_TIMELINE_H
#define ORR_REPORT_TIMELINE_TIMELINE_H

#include <orrery/analysis.h>

/* What the page draws. Letters: V events shown, W rows.
 *
 * A lane is drawn as rows: in a row events follow one another without overlap, and what
 * is nested deeper stands in a lower row. Events are numbered row by row, by start within a row, so
 * a row is a range of events and finding one at a time is a binary search. */
typedef struct orr_timeline_event {
    uint32_t graph;
    orr_node_id node;
} orr_timeline_event;

typedef struct orr_timeline_row {
    uint32_t graph;
    uint16_t lane;
    uint16_t depth;        /* 0: outermost */
    uint32_t first, count; /* its events */
} orr_timeline_row;

typedef struct orr_timeline_view {
    const orr_timeline_event *events; /* shape (V) */
    const orr_timeline_row *rows;     /* shape (W), by graph, lane in order of display, depth */
    const uint32_t *const *event_of;  /* shape (D)(N_d): event of a node, or ORR_NONE */
    uint32_t n_events, n_rows;
    uint64_t thinned; /* left out to stay within max_events                   */
    uint64_t untimed; /* without a start: they have no place on an axis       */
} orr_timeline_view;

/* Deepest row of a lane; what is nested deeper is counted as thinned. */
enum { ORR_TIMELINE_DEPTH_MAX = 96 };

/* At most `max_events` of the job: of each run of neighbours in a lane the longest stay.
 * Everything in the arena. Errors: NO_MEMORY. */
orr_status orr_timeline_build(const orr_job *job, uint32_t max_events, orr_arena *arena,
                              orr_timeline_view *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_TIMELINE_TIMELINE_H */
