/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_BRIDGE_H
#define ORR_GRAPH_BRIDGE_H

#include <orrery/graph.h>

/* What a part of a graph keeps of the order of the whole.
 *
 * Nodes are left out, and what waited for them then waits for the nearest kept points before them:
 * points, the start and the end of a node, because that is what dependencies and nesting tie
 * (validate.h). So a point of a kept node is reached from another in the part exactly where it is
 * in the whole. A point is written 2 * node + (1 for its end).
 *
 * A dropped point becomes a node without duration where the part could not say otherwise what comes
 * after what: where over ORR_BRIDGE_MAX kept points are the nearest before it, or where the end of
 * a node would wait for the start of another, for which there is no kind of dependency. A kept node
 * may also wait for what was on its way from before the part, or for work of a stream that is left
 * out: where that ended after the part began, its end becomes a node too, so that a replay has its
 * time. */
enum { ORR_BRIDGE_MAX = 16 };

typedef struct orr_bridges {
    const orr_graph *graph;
    const uint8_t *keep;        /* shape (N): is the node kept?                              */
    const uint8_t *is_node;     /* shape (2N): does the dropped point become a node?         */
    const orr_node_id *parent;  /* shape (N): the nearest kept node above it, or ORR_NONE    */
    const uint32_t *near_first; /* shape (2N) */
    const uint32_t *near_n;     /* shape (2N) */
    const uint32_t *near; /* near[near_first[p]] ..: the nearest points before the dropped point p
                           * that are in the part: of kept nodes, or points that became nodes.
                           * None where nothing that is kept comes after p */
    orr_node_id *child, *sister; /* shape (N): first child and next sibling, or ORR_NONE */
} orr_bridges;

/* Lives in `arena`. O(N + E), with lists of at most ORR_BRIDGE_MAX points. Errors: LIMIT: over
 * 2^31 - 1 nodes, or 2^32 - 1 points in the lists; NO_MEMORY. */
orr_status orr_bridges_find(const orr_graph *graph, const uint8_t *keep, orr_arena *arena,
                            orr_bridges *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_GRAPH_BRIDGE_H */
