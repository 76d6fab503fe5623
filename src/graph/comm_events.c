/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/comm_events.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/hash_index.h"
#include "graph/job.h"

/* A communication and the bucket that it belongs to. */
typedef struct collected {
    orr_comm_event call;
    uint32_t bucket;
} collected;

typedef struct collector {
    const orr_job *job;
    orr_comm_events *calls;
    orr_array(collected) all;
    orr_hash_index index; /* of the buckets */
} collector;

/* Whether the node executes the communication: a kernel, or a collective on the host; not the calls
 * above it. */
static bool is_executing(const orr_graph *graph, orr_node_id v)
{
    return (graph->flags[v] & ORR_FLAG_COMM) &&
           (graph->kind[v] == ORR_NODE_COLLECTIVE || graph->kind[v] == ORR_NODE_SEND ||
            graph->kind[v] == ORR_NODE_RECV);
}

static uint32_t peer_rank(const orr_job *job, uint32_t group, int32_t peer)
{
    if (peer < 0)
        return ORR_NONE;
    const uint32_t rank =
        group == ORR_NONE ? ORR_NONE : orr_group_rank(&job->groups[group], (uint32_t)peer);
    return rank != ORR_NONE ? rank : (uint32_t)peer;
}

static uint32_t group_of(const orr_job *job, uint32_t d, const orr_comm *comm)
{
    return comm->group == ORR_NONE ? ORR_NONE : job->group_of[d][comm->group];
}

static orr_match_bucket_key key_of(const orr_job *job, uint32_t d, orr_node_id v)
{
    const orr_graph *graph = job->graphs[d];
    const orr_comm *comm = &graph->comms[graph->detail[v]];
    const uint32_t group = group_of(job, d, comm);
    if (graph->kind[v] == ORR_NODE_COLLECTIVE)
        return (orr_match_bucket_key){
            .group = group,
            .size = group == ORR_NONE && comm->group_size > 0 ? comm->group_size : -1,
            .from = ORR_NONE,
            .to = ORR_NONE,
            .collective = comm->collective};
    const bool sends = graph->kind[v] == ORR_NODE_SEND;
    const uint32_t own = job->rank_of_graph[d], peer = peer_rank(job, group, comm->peer);
    return (orr_match_bucket_key){.group = group,
                                  .size = -1,
                                  .from = sends ? own : peer,
                                  .to = sends ? peer : own,
                                  .collective = ORR_COLL_SEND};
}

static orr_comm_event call_of(const orr_job *job, uint32_t d, orr_node_id v)
{
    const orr_graph *graph = job->graphs[d];
    const bool collective = graph->kind[v] == ORR_NODE_COLLECTIVE;
    return (orr_comm_event){
        .line = collective ? d : graph->kind[v] == ORR_NODE_RECV,
        .at = {d, v},
        .start_ns = orr_node_clock_start_ns(graph, v),
        .end_ns = orr_node_clock_end_ns(graph, v),
        /* Sequence numbers of send and receive count each rank's own calls, and cannot be matched.
         */
        .seq = collective ? graph->comms[graph->detail[v]].seq : -1,
    };
}

static orr_status bucket_of(collector *c, const orr_match_bucket_key *key, uint32_t *ret_bucket,
                            orr_error *err)
{
    _Static_assert(sizeof *key == 5 * 4, "a key has no padding: it is compared");
    const uint32_t hash = orr_hash_bytes(key, sizeof *key);
    orr_hash_index_probe probe = orr_hash_index_find(&c->index, hash);
    for (uint32_t id; (id = orr_hash_index_next(&c->index, &probe)) != ORR_NONE;) {
        if (memcmp(&c->calls->buckets.at[id].key, key, sizeof *key) == 0) {
            *ret_bucket = id;
            return ORR_OK;
        }
    }
    const uint32_t id = (uint32_t)c->calls->buckets.n;
    if (!orr_array_push(&c->calls->buckets, (orr_match_bucket){.key = *key}) ||
        !orr_hash_index_add(&c->index, hash, id))
        return orr_fail_memory(err);
    *ret_bucket = id;
    return ORR_OK;
}

static orr_status collect(collector *c, orr_error *err)
{
    for (uint32_t d = 0; d < c->job->n_graphs; d++) {
        const orr_graph *graph = c->job->graphs[d];
        for (uint32_t v = 0; v < graph->n_nodes && graph->n_comms > 0; v++) {
            if (!is_executing(graph, v))
                continue;
            const orr_match_bucket_key key = key_of(c->job, d, v);
            collected one = {.call = call_of(c->job, d, v)};
            ORR_TRY(bucket_of(c, &key, &one.bucket, err));
            if (c->all.n >= UINT32_MAX - 1)
                return orr_fail(err, ORR_LIMIT, "over 2^32 - 2 communications in one job");
            if (!orr_array_push(&c->all, one))
                return orr_fail_memory(err);
            c->calls->buckets.at[one.bucket].n++;
        }
    }
    return ORR_OK;
}

static int by_line_time(const void *a_, const void *b_)
{
    const orr_comm_event *a = a_, *b = b_;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->at.node > b->at.node) - (a->at.node < b->at.node);
}

void orr_comm_events_sort(orr_comm_event *calls, size_t n,
                          int (*compare)(const void *, const void *))
{
    for (size_t i = 1; i < n; i++) {
        if (compare(&calls[i - 1], &calls[i]) > 0) {
            qsort(calls, n, sizeof *calls, compare);
            return;
        }
    }
}

static orr_status sort_into_buckets(const collector *c, orr_error *err)
{
    orr_comm_events *calls = c->calls;
    calls->at = orr_malloc(c->all.n * sizeof *calls->at);
    if (calls->at == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < calls->buckets.n; i++) {
        orr_match_bucket *b = &calls->buckets.at[i];
        b->first = calls->n;
        calls->n += b->n;
        b->n = 0;
    }
    for (size_t i = 0; i < c->all.n; i++) {
        orr_match_bucket *b = &calls->buckets.at[c->all.at[i].bucket];
        calls->at[b->first + b->n++] = c->all.at[i].call;
    }
    for (size_t i = 0; i < calls->buckets.n; i++) {
        const orr_match_bucket *b = &calls->buckets.at[i];
        orr_comm_events_sort(calls->at + b->first, b->n, by_line_time);
    }
    return ORR_OK;
}

orr_status orr_comm_events_collect(const orr_job *job, orr_comm_events *ret, orr_error *err)
{
    *ret = (orr_comm_events){0};
    collector c = {.job = job, .calls = ret};
    orr_status status = collect(&c, err);
    if (status == ORR_OK)
        status = sort_into_buckets(&c, err);
    orr_array_done(&c.all);
    orr_hash_index_done(&c.index);
    return status;
}

void orr_comm_events_done(orr_comm_events *calls)
{
    orr_free(calls->at);
    orr_array_done(&calls->buckets);
    *calls = (orr_comm_events){0};
}
