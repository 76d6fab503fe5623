/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_VALIDATE_H
#define ORR_GRAPH_VALIDATE_H

#include "graph/builder.h"

/* Every id and value in the columns stands for something that exists; INVALID says which
 * node does not. Dependencies too, as they were added. Lanes are checked where
 * they are sorted. */
orr_status orr_check_columns(const orr_graph_builder *builder, orr_error *err) ORR_MUST_CHECK;

/* Each node is a start and an end; nesting and dependencies say which point comes not before
 * which other (see ORR_DEP_MAP). INVALID names a cycle among these points by its
 * nodes: "cycle: 12 'a' -> 40 'b' -> 12", where an arrow leads to who waits; parents are
 * among them. O(N + E), 13 to 17 bytes a node of scratch. */
orr_status orr_check_acyclic(const orr_graph *graph, orr_error *err) ORR_MUST_CHECK;

/* The points of a frozen graph, 2 * node + (1 for its end), in an order in which each comes after
 * all that it waits for. Shape (2N). Errors: LIMIT: over 2^31 - 1 nodes; NO_MEMORY. */
orr_status orr_order_points(const orr_graph *graph, uint32_t *ret_order,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_GRAPH_VALIDATE_H */
