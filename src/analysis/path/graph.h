/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ANALYSIS_PATH_GRAPH_H
#define ORR_ANALYSIS_PATH_GRAPH_H

#include "analysis/common.h"

/* What both critical-path analyses stand on: begin and end of every host node as points of time,
 * thread by thread, and the pieces that a path is made of. */

/* Points of the host threads. Between two neighbours of a thread the innermost node that
 * had begun and not ended ran; nodes that overlap without one holding the other are cut
 * at the end of the outer one, so that time never falls along a thread. */
typedef struct orr_points {
    uint32_t n;
    const int64_t *time_ns;      /* shape (n), on the axis of the graph                    */
    const orr_node_id *node;     /* shape (n)                                              */
    const orr_node_id *inside;   /* shape (n): what runs from here to the next; or NONE    */
    const uint8_t *bound;        /* shape (n), orr_bound: of that; under an annotation of
                                  * PyTorch's data loader DATA_LOADING, where nothing
                                  * executes HOST_GAP, mostly CPU                          */
    const uint32_t *work_before; /* shape (n): last point of an executing node before it on
                                  * its thread, or ORR_NONE                               */
    const uint32_t *lane_first;  /* shape (L + 1)                                          */
    const uint32_t *start_at;    /* shape (N): the point where a node starts, or ORR_NONE  */
    const uint32_t *end_at;      /* shape (N)                                              */
} orr_points;

typedef struct orr_points_filter {
    uint32_t kinds;          /* set of 1u << orr_node_kind                           */
    int64_t from_ns, to_ns;  /* nodes that touch this time...                        */
    bool starts_inside;      /* ... or start in it                                   */
    int64_t duration_min_ns; /* and last this long                                   */
    bool with_pollers;       /* threads that only poll, too                          */
    bool joins;              /* thread `joined` as if its nodes were of thread `into` */
    orr_lane_id joined, into;
} orr_points_filter;
orr_status orr_points_build(const orr_graph *g, const orr_points_filter *of, orr_arena *arena,
                            orr_points *ret, orr_error *err) ORR_MUST_CHECK;

/* Kinds of nodes that do something on a host thread, and those that only name a stretch of it. */
enum {
    ORR_PATH_EXECUTES = ORR_KIND(HOST_OP) | ORR_KIND(RUNTIME) | ORR_KIND(COMPUTE) |
                        ORR_KIND(COLLECTIVE) | ORR_KIND(SEND) | ORR_KIND(RECV) | ORR_KIND(COPY) |
                        ORR_KIND(SET) | ORR_KIND(MEM_LOAD) | ORR_KIND(MEM_STORE),
    ORR_PATH_NAMES = ORR_KIND(PYTHON) | ORR_KIND(ANNOTATION)
};

/* Does the node name a stretch of a thread's time, without taking any itself? Annotations do, and
 * the steps of the profiler, which in recordings of 2020 are operators. */
bool orr_only_names(const orr_graph *g, orr_node_id node);

/* What bounds the time that a node itself takes. */
orr_bound orr_bound_of_node(const orr_graph *g, orr_node_id node);

/* A path under construction, from its end backward. */
typedef struct orr_path_builder {
    const orr_job *job;
    uint32_t rank;      /* of the pieces, or ORR_NONE: that of their graph */
    orr_path_piece *at; /* last piece first */
    size_t n, room;
    int64_t start_ns, end_ns; /* to explain, on the job's axis  */
    int64_t cursor_ns;        /* explained down to here         */
} orr_path_builder;
/* Adds [from, cursor), spent in this node or in the wait before it. Time above the cursor is
 * explained already, and time before the start is not needed. False: out of memory. */
bool orr_path_builder_add(orr_path_builder *trail, uint32_t graph, orr_node_id node,
                          orr_bound bound, bool wait, int64_t from_ns);
/* Reverses the path into `arena` and sums it up; n_nodes and n_edges are left to the caller. */
orr_status orr_path_builder_finish(orr_path_builder *trail, orr_arena *arena,
                                   orr_critical_path *ret, orr_error *err) ORR_MUST_CHECK;
void orr_path_builder_done(orr_path_builder *trail);

/* What a view asks to have explained, on the job's axis: from the start of the window (or
 * the first start) to the last end of what executes in it, device work launched in it included.
 * False when nothing executes. ret_last: what ends last. */
bool orr_path_time_range(const orr_view *view, int64_t *ret_start_ns, int64_t *ret_end_ns,
                         orr_node_id *ret_last);

/* The two ways. `views`: shape (n), the ranks that a walk may visit. `queue_gap_ns`: work whose
 * launch was not recorded was queued behind what its stream did before when it followed in
 * less than this. */
orr_status orr_path_walk(const orr_job *job, const orr_view *views, size_t n, int64_t queue_gap_ns,
                         orr_arena *arena, orr_critical_path *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_path_longest(const orr_view *view, orr_arena *arena, orr_critical_path *ret,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ANALYSIS_PATH_GRAPH_H */
