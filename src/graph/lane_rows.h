/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_LANE_ROWS_H
#define ORR_GRAPH_LANE_ROWS_H

#include "graph/builder.h"

/* The columns that lane rows are made of. */
typedef struct orr_lane_columns {
    uint32_t n_nodes, n_lanes;
    const uint16_t *lane;       /* shape (n_nodes) */
    const int64_t *start_ns;    /* shape (n_nodes) */
    const int64_t *duration_ns; /* shape (n_nodes) */
} orr_lane_columns;

/* Nodes of each lane by start, then longer first, then id. The rows are the caller's to
 * free; on failure there are none. Lanes that are in order already cost one look at each
 * node; others take 32 bytes a node of the largest of them while they are sorted.
 * Errors: NO_MEMORY; INVALID: a lane that does not exist. */
orr_status orr_lane_rows_sort(const orr_lane_columns *columns, orr_lane_rows *ret,
                              orr_error *err) ORR_MUST_CHECK;
/* Do rows made of as many nodes and lanes still hold for these columns? */
bool orr_lane_rows_valid(const orr_lane_rows *rows, const orr_lane_columns *columns);
void orr_lane_rows_done(orr_lane_rows *rows);

#endif /* ORR_GRAPH_LANE_ROWS_H */
