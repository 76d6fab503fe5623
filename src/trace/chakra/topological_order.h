/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_TOPOLOGICAL_ORDER_H
#define ORR_TRACE_CHAKRA_TOPOLOGICAL_ORDER_H

#include "base/array.h"
#include "trace/chakra/lower.h"

typedef struct orr_chakra_edge {
    orr_node_id node, on;
} orr_chakra_edge;
typedef orr_array(orr_chakra_edge) orr_chakra_edges;

/* Fills order, place, dep_first, dep and dropped of the plan: a topological order in which
 * dependencies (and plan->ctrl) come first and starts rise as far as they can, and the edges in
 * rows without duplicates. A plan->ctrl that cannot come first is removed. */
orr_status orr_chakra_topological_order(const orr_graph *graph, const orr_chakra_edges *edges,
                                        orr_arena *arena, orr_chakra_lowering *plan,
                                        orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_CHAKRA_TOPOLOGICAL_ORDER_H */
