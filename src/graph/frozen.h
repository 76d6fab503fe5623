/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_FROZEN_H
#define ORR_GRAPH_FROZEN_H

#include "base/strtab.h"
#include "graph/attrs.h"

/* A frozen graph with what its public face does not show. The builder's arrays end up here. */
typedef struct orr_frozen {
    orr_graph graph; /* first: a graph is a frozen one seen from outside */
    orr_strtab *strings;
    orr_attr_heap attr_heap;
    const uint32_t *attrs; /* shape (N): number of the node's list */
    uint32_t recording_attrs;
    bool retimed; /* all but times and lane rows belongs to another graph */
} orr_frozen;

static inline const orr_frozen *orr_frozen_of(const orr_graph *graph)
{
    return (const orr_frozen *)graph;
}

#endif /* ORR_GRAPH_FROZEN_H */
