/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TIMELINE_PACK_H
#define ORR_REPORT_TIMELINE_PACK_H

#include "io/stream/output.h"
#include "report/timeline/blob.h"
#include "report/timeline/timeline.h"

/* A timeline as the page reads it: `meta` is JSON (names, lanes, rows, counters, and
 * where each column lies), `columns` are varints, column after column. Read by timeline/model.js,
 * which says the same from the other side:
 *
 *   gap       V  start - end of the previous event of the row; of the first: - timeline start
 *   duration  V  ns
 *   name      V  index in meta.names, which are sorted by use, so that most take a byte
 *   detail    V  index in meta.details, 0 none
 *   edge         (event - previous edge's event, zigzag(event depended on - event), dep kind)
 *   peer         groups of events of one communication: count, then zigzag differences
 *   path         (rank index, event + 1 or 0, bound * 2 + wait, ns, name where event is 0)
 *
 * What the lane order says by itself (THREAD and STREAM dependencies) is not an edge. */
typedef struct orr_timeline_input {
    const orr_job *job;
    const orr_timeline_view *timeline;
    const orr_critical_path *path;    /* or NULL */
    const orr_series_sample *samples; /* memory held over time; shape (n_samples) */
    size_t n_samples;
} orr_timeline_input;

orr_status orr_timeline_pack(const orr_timeline_input *input, orr_output *meta, orr_blob *columns,
                             orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_REPORT_TIMELINE_PACK_H */
