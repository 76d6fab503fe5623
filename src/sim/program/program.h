/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_PROGRAM_H
#define ORR_SIM_PROGRAM_PROGRAM_H

#include <orrery/sim.h>

/* A program: the timing graph of an execution graph, as in static timing analysis. Points of time
 * are joined by edges with a minimal lag:
 *
 *   time(to) = max over edges (time(from) + lag), and at least floor
 *
 * The compiler (compile.c) makes it, and the engine (engine.c) knows nothing else of a graph.
 * The start and the end of a node are points. Host time is an edge from one point of a thread to
 * the next; stream order, launches, events, hand-offs and synchronisation are edges with the
 * latency as their lag. Device work and communication are no edges but works: from a start point
 * to an end point, with a length that the engine finds. */
typedef uint32_t orr_point_id;

/* What a lag is, and whether it was read from the recording as it stands for want of a cause. */
typedef enum orr_edge_kind {
    ORR_EDGE_LATENCY,     /* a constant                                                       */
    ORR_EDGE_DEVICE_GAP,  /* read: device work that nothing known led to                      */
    ORR_EDGE_HOST_WORK,   /* time of a thread inside operators, calls and Python functions    */
    ORR_EDGE_HOST_OWN,    /* a constant for each name: own time of a call that may wait       */
    ORR_EDGE_HOST_GAP,    /* read: time of a thread outside of all that executes              */
    ORR_EDGE_HOST_WAIT,   /* read: a call that waits for devices, for nothing that is recorded */
    ORR_EDGE_HOST_ANCHOR, /* read: a thread that wakes or begins without a hand-off           */
    ORR_EDGE_KINDS
} orr_edge_kind;
static inline bool orr_edge_is_host(uint32_t kind) /* is it divided by host_speed? */
{
    return kind >= ORR_EDGE_HOST_WORK;
}
static inline bool orr_edge_is_read(uint32_t kind)
{
    return kind == ORR_EDGE_DEVICE_GAP || kind >= ORR_EDGE_HOST_GAP;
}

typedef struct orr_edge {
    orr_point_id to;
    uint32_t kind;  /* orr_edge_kind */
    int64_t lag_ns; /* never negative */
} orr_edge;

typedef enum orr_work_class {
    ORR_WORK_COMPUTE,
    ORR_WORK_COMM,
    ORR_WORK_MEMORY,
    ORR_WORK_HOST
} orr_work_class;

typedef struct orr_sim_work {
    orr_node_id node;
    orr_point_id start, end;
    uint8_t work_class;  /* orr_work_class; HOST: communication on a thread (gloo), on no device */
    int32_t device;      /* of the stream; -1: on a thread */
    int64_t duration_ns; /* from the ensemble; -1: from the network */
    int64_t posted_ns;   /* HOST: recorded time of `start`; else ORR_TIME_NONE */
    uint32_t comm;       /* row of the graph's comms, or ORR_NONE: no partners */
} orr_sim_work;

typedef struct orr_sim_program {
    const orr_graph *graph;
    uint32_t n_points, n_edges, n_works;
    const uint32_t *edge_first; /* shape (n_points + 1): edges that leave a point */
    const orr_edge *edges;      /* shape (n_edges) */
    const int64_t
        *floor_ns; /* shape (n_points): earliest time, from the rank's start; else INT64_MIN */
    const orr_sim_work *works; /* shape (n_works) */
    const uint32_t *work_at;   /* shape (n_points): work that starts here, or ORR_NONE */
    const orr_point_id *start_point, *end_point; /* shape (N); ORR_NONE: not simulated */
} orr_sim_program;

/* Compiles a graph. `duration_ns`: shape (N), or NULL: the graph's own. `constants`: none is -1.
 * `costs`: of recording, to be taken away, or NULL. In the arena; reads the graph's start times
 * only as compile.h says. Errors: NO_MEMORY; LIMIT: over 2^31 points. */
orr_status orr_sim_program_compile(const orr_graph *graph, const int64_t *duration_ns,
                                   const orr_sim_latencies *constants,
                                   const orr_recording_costs *costs, uint32_t queue_depth,
                                   orr_arena *arena, orr_sim_program *ret,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_PROGRAM_PROGRAM_H */
