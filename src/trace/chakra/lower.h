/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_LOWER_H
#define ORR_TRACE_CHAKRA_LOWER_H

#include <orrery/graph.h>

/* Lowers a graph to Chakra's terms, where a node is one stretch of time that waits for the end of
 * all its dependencies. Our graphs are richer: operators nest, and dependencies tie points (starts
 * and ends). So:
 *
 *   - An operator becomes its self time, placed before what is nested in it; then come its
 * children. A thread is a chain in the order of starts.
 *   - Waiting for the end of an operator becomes waiting for the last node of its subtree.
 *   - Waiting for the start of an operator becomes waiting for what comes before it in its thread.
 *   - Device work waits for the call that launched it.
 *   - A call that waits for device work waits there if it is a leaf that launched nothing;
 * otherwise the node after the call waits. The time that a call spent waiting is left out of its
 * duration.
 *
 * The order is topological. If recorded clocks contradict each other so that there is a cycle, the
 * dependencies that close it are dropped and counted. */
typedef struct orr_chakra_lowering {
    orr_node_id *order;  /* shape (N): the nodes in the order of the file */
    uint32_t *place;     /* shape (N): where in it a node stands */
    orr_node_id *ctrl;   /* shape (N): what it is nested in, or launched by; or ORR_NONE */
    uint32_t *dep_first; /* shape (N + 1), by node: rows of dep */
    orr_node_id *dep;    /* no node twice in a row */
    int64_t *self_ns;    /* shape (N) */
    uint32_t dropped;    /* dependencies left out to break a cycle */
} orr_chakra_lowering;

/* Everything lives in `arena`. Errors: NO_MEMORY. */
orr_status orr_chakra_lower(const orr_graph *graph, orr_arena *arena, orr_chakra_lowering *ret,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_CHAKRA_LOWER_H */
