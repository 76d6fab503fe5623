/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TIMELINE_META_H
#define ORR_REPORT_TIMELINE_META_H

#include "report/timeline/name_index.h"
#include "report/timeline/pack.h"

/* The columns of a packed timeline, in the order in which they lie. */
#define ORR_TIMELINE_COLUMN_MAP(X)                                                                 \
    X(GAP, "gap")                                                                                  \
    X(DURATION, "duration")                                                                        \
    X(NAME, "name") X(DETAIL, "detail") X(EDGE, "edge") X(PEER, "peer") X(PATH, "path")
enum {
#define ORR_TIMELINE_COLUMN_ENUM_(name, text) ORR_TIMELINE_##name,
    ORR_TIMELINE_COLUMN_MAP(ORR_TIMELINE_COLUMN_ENUM_)
#undef ORR_TIMELINE_COLUMN_ENUM_
        ORR_TIMELINE_COLUMNS
};

/* The JSON that goes with the columns; `begin`: where each starts, and the end. */
void orr_timeline_write_meta(const orr_timeline_input *input, const orr_name_index *names,
                             const orr_name_index *details,
                             const size_t begin[ORR_TIMELINE_COLUMNS + 1],
                             uint64_t details_left_out, orr_output *meta);

#endif /* ORR_REPORT_TIMELINE_META_H */
