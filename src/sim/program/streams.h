/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_STREAMS_H
#define ORR_SIM_PROGRAM_STREAMS_H

#include <orrery/graph.h>

/* Streams: device work in the order in which each stream ran it, and the call that launched it. The
 * compiler, the measurement of latencies and the explanation of deviations use it.
 *
 * A stream runs in order: a work follows the one before it, whatever a microsecond of rounding
 * says. Only work of one call (a CUDA graph), or of no known call, may run concurrently on a
 * stream, and does where it overlaps by more than half of the shorter.
 *
 * Letters: N nodes, S device nodes that occupy a stream. */
typedef struct orr_streams {
    uint32_t n;
    const orr_node_id *node;    /* shape (S), lane after lane, each in recorded order */
    const uint32_t *lane_first; /* shape (L + 1): rows of a lane */
    const uint32_t *first;      /* shape (S + 1): predecessors of row i are before[first[i]].. */
    const orr_node_id *before;  /* on the same stream; mostly one, none for the first */
    const uint32_t *row_of;     /* shape (N), or ORR_NONE */
    const orr_node_id *launch;  /* shape (S): launch call, or ORR_NONE */
    const bool *inner;          /* shape (S): of a CUDA graph, or not the first work of its call,
                                 * so that the call does not determine its start */
    const int64_t *start_ns;    /* shape (S): recorded start, but not before the launch nor
                                 * before its predecessors: never falls along an edge;
                                 * ORR_TIME_NONE if not recorded */
} orr_streams;

/* Finds the streams of a graph. Lives in `arena`. O(N) but for concurrent work. Errors:
 * NO_MEMORY. */
orr_status orr_streams_find(const orr_graph *graph, orr_arena *arena, orr_streams *ret,
                            orr_error *err) ORR_MUST_CHECK;

/* Does the node occupy a stream? COMPUTE..SYNC do, except for CUDA's own records of
 * synchronisation, which shadow calls of the host. */
bool orr_occupies(const orr_graph *graph, orr_node_id node);

/* Recorded end; ORR_TIME_NONE if the start was not recorded. */
static inline int64_t orr_recorded_end(const orr_graph *g, orr_node_id v)
{
    int64_t end;
    if (g->start_ns[v] == ORR_TIME_NONE)
        return ORR_TIME_NONE;
    return __builtin_add_overflow(g->start_ns[v], g->duration_ns[v], &end) ? INT64_MAX : end;
}
static inline bool orr_communicates(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND ||
           g->kind[v] == ORR_NODE_RECV;
}
static inline bool orr_on_thread(const orr_graph *g, orr_node_id v)
{
    return g->lanes[g->lane[v]].kind == ORR_LANE_HOST;
}

#endif /* ORR_SIM_PROGRAM_STREAMS_H */
