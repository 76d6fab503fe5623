/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_STREAMS_H
#define ORR_SIM_PROGRAM_STREAMS_H

#include <orrery/graph.h>

/* Device work in the order in which each stream ran it, and who launched it. What the compiler, the
 * measurement of constants and the explanation of errors all ask of a recording.
 *
 * A stream runs in order: work follows the work before it, whatever a microsecond of rounding says.
 * Only what one call launched (a CUDA graph), or what nobody is known to have launched, may run
 * side by side on a stream, and does where it overlaps by more than half of the shorter.
 *
 * Letters: N nodes, S device nodes that occupy a stream. */
typedef struct orr_streams {
    uint32_t n;
    const orr_node_id *node;    /* shape (S), lane after lane, each in recorded order   */
    const uint32_t *lane_first; /* shape (L + 1): rows of a lane                        */
    const uint32_t *first;      /* shape (S + 1): row i waits for before[first[i]]..    */
    const orr_node_id *before;  /* on the same stream; mostly one, none for the first   */
    const uint32_t *row_of;     /* shape (N), or ORR_NONE                               */
    const orr_node_id *launch;  /* shape (S): the call that launched it, or ORR_NONE    */
    const bool *inner;          /* shape (S): a CUDA graph's, or its call launched other work
                                 * before it: the call does not say when it may begin   */
    const int64_t *start_ns;    /* shape (S): recorded start, but not before the launch nor
                                 * before what precedes it: never falls along an edge;
                                 * ORR_TIME_NONE if not recorded                        */
} orr_streams;

/* Lives in `arena`. O(N) but for work that runs side by side. Errors: NO_MEMORY. */
orr_status orr_streams_find(const orr_graph *graph, orr_arena *arena, orr_streams *ret,
                            orr_error *err) ORR_MUST_CHECK;

/* COMPUTE..SYNC on a stream, but for CUDA's own records of synchronisation, which are shadows of
 * host calls. */
bool orr_occupies(const orr_graph *graph, orr_node_id node);

/* ORR_TIME_NONE if the start was not recorded. */
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
