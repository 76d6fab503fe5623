/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_LOWER_H
#define ORR_TRACE_CHAKRA_LOWER_H

#include <orrery/graph.h>

/* A graph in the terms of Chakra, where a node is one stretch of time and waits for the end of
 * all its dependencies. Ours are richer: operators nest, and dependencies tie points. So:
 *
 *   - An operator becomes the time that it spent itself, placed before what is nested in it;
 *     then come its children. A thread is a chain in the order of starts.
 *   - Who waits for the end of an operator waits for the last node of its subtree.
 *   - Who waits for the start of an operator waits for what comes before it in its thread.
 *   - Device work waits for the call that launched it.
 *   - A call that waits for device work waits for it there if it is a leaf that launched nothing;
 *     else the node after the call waits. What a call spent waiting is left out of its time.
 *
 * The order is such that dependencies come first. Should recorded clocks contradict each
 * other so that there is a cycle, the dependencies that close it are left out and counted. */
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
