/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PROGRAM_PROGRAM_H
#define ORR_SIM_PROGRAM_PROGRAM_H

#include <orrery/sim.h>

/* Program: a graph as points of time and the least distance between them. What the compiler
 * (compile.c) makes of a graph, and all that the engine (engine.c) knows of it.
 *
 *   time(to) = max over edges (time(from) + lag), and at least floor
 *
 * The start and the end of a node are points. Host time is an edge from one point of a thread to
 * the next; order on a stream, launches, events, hand-offs and synchronisation are edges with the
 * latency as their lag. What takes time on a device or meets others is not an edge but work: from
 * its start point to its end point, as long as the engine finds that it takes. */
typedef uint32_t orr_point_id;

typedef struct orr_edge {
    orr_point_id to;
    uint32_t host;  /* 1: host time, which host_speed divides */
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
    uint8_t work_class;  /* orr_work_class; HOST: communicates on a thread (gloo), on no device */
    int32_t device;      /* of the stream; -1 on a thread */
    int64_t duration_ns; /* of the ensemble; -1: the network has to say */
    uint32_t comm;       /* row of the graph's comms, or ORR_NONE: meets nobody */
} orr_sim_work;

typedef struct orr_sim_program {
    const orr_graph *graph;
    uint32_t n_points, n_edges, n_works;
    const uint32_t *edge_first; /* shape (n_points + 1): edges that leave a point */
    const orr_edge *edges;      /* shape (n_edges) */
    const int64_t
        *floor_ns; /* shape (n_points): not before, from the rank's start; else INT64_MIN */
    const orr_sim_work *works; /* shape (n_works) */
    const uint32_t *work_at;   /* shape (n_points): the work that starts here, or ORR_NONE */
    const orr_point_id *start_point, *end_point; /* shape (N); ORR_NONE: not simulated */
} orr_sim_program;

/* `duration_ns`: shape (N), or NULL: the graph's own. `constants`: none -1. In the arena; reads the
 * graph's start times only for the order of each lane and for the host time between neighbouring
 * points of a thread. Errors: NO_MEMORY; LIMIT: over 2^31 points. */
orr_status orr_sim_program_compile(const orr_graph *graph, const int64_t *duration_ns,
                                   const orr_sim_latencies *constants, uint32_t queue_depth,
                                   orr_arena *arena, orr_sim_program *ret,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_PROGRAM_PROGRAM_H */
