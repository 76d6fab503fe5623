/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ANALYSIS_PATH_CAUSE_H
#define ORR_ANALYSIS_PATH_CAUSE_H

#include "analysis/path/graph.h"

/* The question that the walk (walk.c) asks at each place: what was waited for here? Times are on
 * the job's clock. */

/* A point of a host thread, or the start or end of device work. */
typedef enum orr_path_place_kind {
    ORR_PATH_PLACE_NONE,
    ORR_PATH_PLACE_HOST,
    ORR_PATH_PLACE_DEVICE_END,
    ORR_PATH_PLACE_DEVICE_START
} orr_path_place_kind;
typedef struct orr_path_place {
    orr_path_place_kind where;
    uint32_t graph;
    orr_node_id node;
    uint32_t point; /* ORR_PATH_PLACE_HOST only */
} orr_path_place;

typedef struct orr_cause {
    int64_t at_ns;     /* INT64_MIN: nothing is known           */
    int strength;      /* among causes of one moment            */
    orr_bound bound;   /* of the wait from then on              */
    orr_path_place to; /* where it was; may be nowhere          */
} orr_cause;

typedef struct orr_walk_rank {
    const orr_view *view;   /* NULL: a walk may not go there                        */
    orr_points points;      /* of the time to explain; laid down at the first visit */
    uint8_t *seen_point;    /* shape (points.n)                                     */
    uint8_t *seen_node;     /* shape (N), bits of device work; NULL: never visited  */
    const orr_keyed *comms; /* shape (n_comms): communications on threads, by end   */
    size_t n_comms;
    size_t looks; /* at lanes, so far: see orr_walk_may_scan_lanes()                 */
} orr_walk_rank;

typedef struct orr_walker {
    const orr_job *job;
    int64_t queue_gap_ns; /* see orr_path_walk() */
    orr_walk_rank *ranks; /* shape (D)           */
    orr_path_builder builder;
    orr_node_id leads_to; /* what executed after the place where the walk is, on its rank */
    orr_arena *scratch;
    orr_error *err;
} orr_walker;

int64_t orr_walk_start_ns(const orr_walker *w, uint32_t graph, orr_node_id v);
orr_path_place orr_path_place_of(const orr_walker *w, uint32_t graph, orr_node_id v, bool end);

/* By the dependencies of a node: the latest cause of its start, or (`of_end`) of its end. Not
 * later than `limit_ns`: where clocks disagree the cause counts as of that moment. On a host thread
 * without what ran before on that thread. */
orr_cause orr_latest_cause(const orr_walker *w, uint32_t graph, orr_node_id v, bool of_end,
                           int64_t limit_ns);

/* The same for device work that was launched and began queue_gap_ns or more after its latest
 * cause `known`: recordings without events, or a CUDA graph, whose inner order is not recorded.
 * If it began just when other work of the device ended, that is taken to be why; else, unless
 * it was being launched, nothing is. */
orr_cause orr_cause_without_launch(orr_walker *w, orr_path_place start, orr_cause known);

/* A thread that did nothing since `silent_ns` until the point `at`: if a communication on another
 * thread ended in the later half of that silence, it waited for that, as for gloo's threads. */
orr_cause orr_cause_of_idle_thread(const orr_walker *w, orr_path_place at, int64_t silent_ns);

/* When the last member of a matched communication arrived, and which. False: not matched, or
 * nobody came later than this one. */
bool orr_last_arrival(const orr_walker *w, uint32_t graph, orr_node_id v, int64_t *ret_at_ns,
                      orr_member *ret_last);

/* May all lanes of this rank be searched once more? Bounds the walk on graphs of very many. */
bool orr_walk_may_scan_lanes(orr_walk_rank *rank);

#endif /* ORR_ANALYSIS_PATH_CAUSE_H */
