/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_LINK_MERGE_H
#define ORR_TRACE_LINK_MERGE_H

#include "graph/builder.h"
#include "trace/link/link.h"
#include "trace/comm/process_groups.h"

/* The linked graph: the nodes of the device trace with their own numbers, followed by those of the
 * host trace without a counterpart. Strings and lanes of the device trace come first, with the same
 * numbers. */
typedef struct orr_link_merger {
    const orr_linker *link;
    const orr_graph *host, *device;
    orr_graph_builder *b;
    bool loose;
    orr_str *str;      /* shape (S): strings of the host trace ... */
    orr_lane_id *lane; /* shape (L): ... its lanes                 */
    orr_node_id *node; /* shape (H): ... and its nodes             */
    orr_group_id *host_group, *device_group;
    bool *moved; /* shape (D): takes its parent from the host trace */
    orr_process_groups groups;
    orr_array(orr_attr) attrs;
    orr_arena *values; /* of the attributes of one node */
} orr_link_merger;

/* Parents of all nodes, and dependencies of both traces (merge_deps.c). */
void orr_link_merger_set_parents(orr_link_merger *m);
orr_status orr_link_merger_add_deps(orr_link_merger *m, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_LINK_MERGE_H */
