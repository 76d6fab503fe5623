/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_JOB_H
#define ORR_GRAPH_JOB_H

#include <orrery/graph.h>

#include "base/array.h"

/* Recordings whose clocks differ by less share a host, and their differences are the
 * collectives' own (assumed). */
#define ORR_SAME_CLOCK_NS INT64_C(1000000)

/* A job in the making. Its graphs are in order of rank, so the number of a graph orders as
 * its rank does. Letters as in orrery/graph.h: D graphs, M matches. */
typedef struct orr_job_draft {
    orr_job *job;
    orr_arena *arena;             /* of what the job keeps */
    orr_array(orr_match) matches; /* as they are found; put in order at the end */
    orr_array(orr_member) members;
    int64_t *offset_ns; /* shape (D): clock offsets, exact */
    bool *aligned;      /* shape (D): its offset is known  */
} orr_job_draft;

/* orr_job_build() without its knowledge: nothing is matched, and all clocks are taken to agree. */
orr_status orr_job_build_unmatched(const orr_graph *const *graphs, uint32_t n,
                                   const orr_job **ret_job, orr_error *err) ORR_MUST_CHECK;

/* Fill job->groups, group_graph and group_of: one group of the job for all groups of graphs that
 * are the same. Same name and same ranks is the same group; one whose ranks are not known is the
 * one of its name that its rank is in, or all that are known as little by that name and size. */
orr_status orr_job_merge_groups(orr_job *job, orr_arena *arena, orr_error *err) ORR_MUST_CHECK;

/* Find what belongs together and align the clocks on the way: fills the draft and
 * job->unmatched. */
orr_status orr_job_match(orr_job_draft *draft, orr_error *err) ORR_MUST_CHECK;

/* Give an offset to each graph that the matches found so far tie to the first graph, whose
 * own is 0. `finally`: then to the rest too, each island with a zero of its own. */
orr_status orr_job_align_clocks(orr_job_draft *draft, bool finally, orr_error *err) ORR_MUST_CHECK;

/* Start and end on the recording's own clock; ORR_TIME_NONE if the start was not recorded. */
static inline int64_t orr_node_clock_start_ns(const orr_graph *graph, orr_node_id id)
{
    return graph->start_ns[id] == ORR_TIME_NONE ? ORR_TIME_NONE
                                                : graph->base_ns + graph->start_ns[id];
}
static inline int64_t orr_node_clock_end_ns(const orr_graph *graph, orr_node_id id)
{
    return graph->start_ns[id] == ORR_TIME_NONE
               ? ORR_TIME_NONE
               : graph->base_ns + graph->start_ns[id] + graph->duration_ns[id];
}

/* Clocks of different recordings may be any distance apart: a + b and a - b that stop at
 * the last representable moment. */
static inline int64_t orr_ns_add_saturating(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN + 1 : INT64_MAX) : sum;
}
static inline int64_t orr_ns_sub_saturating(int64_t a, int64_t b)
{
    int64_t difference;
    return __builtin_sub_overflow(a, b, &difference) ? (b > 0 ? INT64_MIN + 1 : INT64_MAX)
                                                     : difference;
}
/* The median, the lower of two; reorders `at`. n > 0. */
int64_t orr_ns_median(int64_t *at, size_t n);

#endif /* ORR_GRAPH_JOB_H */
