/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_COMM_EVENTS_H
#define ORR_GRAPH_COMM_EVENTS_H

#include <orrery/graph.h>

#include "base/array.h"
#include "graph/job.h"

/* The communications that ran in a job, sorted into buckets of those that may belong together.
 * In a bucket, those of one rank are a line, in order of time. */
typedef struct orr_comm_event {
    uint32_t line; /* collectives: the graph; send: 0, recv: 1 */
    orr_member at;
    int64_t start_ns, end_ns; /* on its recording's own clock */
    int64_t seq;              /* -1: not known, or of no use  */
} orr_comm_event;

typedef struct orr_match_bucket_key {
    uint32_t group;      /* of the job, or ORR_NONE                                      */
    int32_t size;        /* where the group is not known: its size, -1 if not even that  */
    uint32_t from, to;   /* ranks of send and recv; ORR_NONE for collectives, and for a
                          * peer that is not known: then nothing is there to match       */
    uint32_t collective; /* SEND stands for both send and recv                           */
} orr_match_bucket_key;

typedef struct orr_match_bucket {
    orr_match_bucket_key key;
    size_t first, n;                 /* rows of calls, by line, then time, then node */
    uint32_t first_match, n_matches; /* rows of the draft's matches, once matched */
    bool matched, by_order;          /* by_order: without sequence numbers */
} orr_match_bucket;

typedef struct orr_comm_events {
    orr_comm_event *at; /* shape (n) */
    size_t n;
    orr_array(orr_match_bucket) buckets; /* in the order in which the first of each was met */
} orr_comm_events;

/* Errors: NO_MEMORY; LIMIT: 2^32 - 1 calls. Free with orr_comm_events_done() in any case. */
orr_status orr_comm_events_collect(const orr_job *job, orr_comm_events *ret,
                                   orr_error *err) ORR_MUST_CHECK;
void orr_comm_events_done(orr_comm_events *calls);

/* More members than the group has: calls of several groups that the recordings do not tell apart.
 * They stay unmatched, rather than matched wrongly. */
static inline bool orr_match_bucket_overflows(const orr_job *job, const orr_match_bucket_key *key,
                                              size_t n)
{
    const int64_t size = key->group == ORR_NONE ? key->size : (int64_t)job->groups[key->group].size;
    return key->from == ORR_NONE && size > 0 && n > (uint64_t)size;
}

/* Where the line that begins at `begin` ends. */
static inline size_t orr_comm_line_end(const orr_comm_event *calls, size_t begin, size_t n)
{
    size_t end = begin + 1;
    while (end < n && calls[end].line == calls[begin].line)
        end++;
    return end;
}

/* Look whether the matches that were made by order are possible on the aligned clocks, and put
 * others in place of those that are not: see match_verify.c. *ret_changed: align the clocks again. */
orr_status orr_job_verify_matches(orr_job_draft *draft, const orr_comm_events *calls,
                                  bool *ret_changed, orr_error *err) ORR_MUST_CHECK;

/* qsort(), where looking first is worth it: most lines are in order already. */
void orr_comm_events_sort(orr_comm_event *calls, size_t n,
                          int (*compare)(const void *, const void *));

#endif /* ORR_GRAPH_COMM_EVENTS_H */
