/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASTRA_JOBS_H
#define ASTRA_JOBS_H

/* Jobs in ASTRA-sim's terms, made in a few lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/astra.h>

enum { JOB_MAX_RANKS = 4096 };

typedef struct astra_job {
    orr_astra_system system;
    orr_astra_network network;
    orr_astra_groups groups;
    const orr_graph *graphs[JOB_MAX_RANKS];
    uint32_t queues;
    orr_arena *arena;
    orr_astra_result result;
    orr_error err;
} astra_job;

/* The worked example: 4 chunks, one at a time, endpoint delay 10, memory 1600 GB/s. */
static const char EXAMPLE_SYSTEM[] =
    "{\"scheduling-policy\": \"LIFO\", \"endpoint-delay\": 10, \"active-chunks-per-dimension\": 1, "
    "\"preferred-dataset-splits\": 4, \"all-reduce-implementation\": [\"ring\"], "
    "\"all-gather-implementation\": [\"ring\"], \"reduce-scatter-implementation\": [\"ring\"], "
    "\"all-to-all-implementation\": [\"ring\"], \"collective-optimization\": \"localBWAware\", "
    "\"local-mem-bw\": 1600}";

static inline void astra_system(astra_job *job, const char *json)
{
    if (orr_astra_system_parse(json, strlen(json), "system", &job->system, &job->err) != ORR_OK)
        fail_msg("%s", job->err.text);
}

static inline void astra_network(astra_job *job, const char *yaml)
{
    if (orr_astra_network_parse(yaml, strlen(yaml), "network", &job->network, &job->err) != ORR_OK)
        fail_msg("%s", job->err.text);
}

/* One dimension of 50 GB/s and 500 ns. */
static inline void astra_one_dimension(astra_job *job, const char *topology, uint32_t n)
{
    char yaml[200];
    snprintf(yaml, sizeof yaml,
             "topology: [ %s ]\nnpus_count: [ %u ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n",
             topology, n);
    astra_network(job, yaml);
}

static inline void astra_open(astra_job *job)
{
    memset(job, 0, sizeof *job);
    job->arena = orr_arena_new(0, 0);
    assert_non_null(job->arena);
    astra_system(job, EXAMPLE_SYSTEM);
    astra_one_dimension(job, "Ring", 8);
}

static inline void astra_close(astra_job *job)
{
    for (uint32_t rank = 0; rank < JOB_MAX_RANKS; rank++) {
        if (rank == 0 || job->graphs[rank] != job->graphs[rank - 1])
            orr_graph_free(job->graphs[rank]);
    }
    orr_arena_free(job->arena);
}

/* Building one graph. Node ids are 1, 2, ... */
typedef struct astra_graph {
    orr_graph_builder *builder;
    orr_lane_id host, stream;
    uint32_t n;
} astra_graph;

static inline orr_str astra_str(astra_graph *g, const char *text)
{
    orr_str s;
    assert_int_equal(orr_builder_str(g->builder, text, strlen(text), &s, NULL), ORR_OK);
    return s;
}

static inline astra_graph astra_graph_new(void)
{
    astra_graph g = {.builder = orr_graph_builder_new()};
    assert_non_null(g.builder);
    const orr_lane host = {.kind = ORR_LANE_HOST, .device = -1};
    const orr_lane stream = {.kind = ORR_LANE_STREAM};
    assert_int_equal(orr_builder_lane(g.builder, &host, &g.host, NULL), ORR_OK);
    assert_int_equal(orr_builder_lane(g.builder, &stream, &g.stream, NULL), ORR_OK);
    return g;
}

static inline orr_node_id astra_add(astra_graph *g, orr_node_kind kind, const char *name,
                                    int64_t duration_ns)
{
    orr_node_id id;
    const bool host = kind == ORR_NODE_HOST_OP || kind == ORR_NODE_META;
    const orr_node node = {.name = astra_str(g, name),
                           .kind = kind,
                           .lane = host ? g->host : g->stream,
                           .start_ns = ORR_TIME_NONE,
                           .duration_ns = duration_ns,
                           .parent = ORR_NONE,
                           .source_id = ++g->n};
    assert_int_equal(orr_builder_node(g->builder, &node, &id, NULL), ORR_OK);
    return id;
}

static inline void astra_wait(astra_graph *g, orr_node_id node, orr_node_id on)
{
    assert_int_equal(orr_builder_dep(g->builder, node, on, ORR_DEP_DATA, NULL), ORR_OK);
}

/* `group`: its name, or NULL. */
static inline orr_node_id astra_collective(astra_graph *g, const char *name,
                                           orr_collective collective, int64_t bytes,
                                           const char *group)
{
    const orr_node_id id = astra_add(g, ORR_NODE_COLLECTIVE, name, 0);
    orr_comm comm = {.collective = (uint8_t)collective,
                     .peer = -1,
                     .root = -1,
                     .tag = -1,
                     .group = ORR_NONE,
                     .group_size = -1,
                     .seq = -1,
                     .in_bytes = bytes,
                     .out_bytes = bytes};
    if (group != NULL) {
        const orr_group like = {.name = astra_str(g, group), .start = -1};
        assert_int_equal(orr_builder_group(g->builder, &like, &comm.group, NULL), ORR_OK);
    }
    assert_int_equal(orr_builder_comm(g->builder, id, &comm, NULL), ORR_OK);
    return id;
}

static inline orr_node_id astra_point_to_point(astra_graph *g, bool send, uint32_t peer,
                                               uint32_t tag, int64_t bytes)
{
    const orr_node_id id =
        astra_add(g, send ? ORR_NODE_SEND : ORR_NODE_RECV, send ? "send" : "recv", 0);
    const orr_comm comm = {.collective = send ? ORR_COLL_SEND : ORR_COLL_RECV,
                           .peer = -1,
                           .root = -1,
                           .tag = -1,
                           .group = ORR_NONE,
                           .group_size = -1,
                           .seq = -1,
                           .in_bytes = bytes,
                           .out_bytes = bytes};
    const int64_t peer_value = peer, tag_value = tag;
    const orr_attr attrs[] = {{.name = astra_str(g, send ? "comm_dst" : "comm_src"),
                               .kind = ORR_ATTR_INT64,
                               .count = 1,
                               .values = &peer_value},
                              {.name = astra_str(g, "comm_tag"),
                               .kind = ORR_ATTR_INT64,
                               .count = 1,
                               .values = &tag_value}};
    assert_int_equal(orr_builder_comm(g->builder, id, &comm, NULL), ORR_OK);
    assert_int_equal(orr_builder_attrs(g->builder, id, attrs, 2, NULL), ORR_OK);
    return id;
}

static inline const orr_graph *astra_graph_end(astra_graph *g)
{
    const orr_graph *graph;
    orr_error err;
    if (orr_graph_build(g->builder, &graph, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_graph_builder_free(g->builder);
    return graph;
}

/* All ranks the same. */
static inline void astra_all_ranks(astra_job *job, const orr_graph *graph)
{
    for (uint32_t rank = 0; rank < job->network.n_ranks; rank++)
        job->graphs[rank] = graph;
}

static inline void astra_all_call(astra_job *job, orr_collective collective, int64_t bytes)
{
    astra_graph g = astra_graph_new();
    (void)astra_collective(&g, "collective", collective, bytes, NULL);
    astra_all_ranks(job, astra_graph_end(&g));
}

static inline orr_status astra_try(astra_job *job, orr_astra_mode mode, bool fold)
{
    const orr_astra_job what = {&job->system, &job->network,
                                job->groups.n > 0 ? &job->groups : NULL, job->graphs, job->queues};
    return orr_astra_simulate(&what, mode, fold, job->arena, &job->result, &job->err);
}

static inline const orr_astra_result *astra_run(astra_job *job, orr_astra_mode mode, bool fold)
{
    if (astra_try(job, mode, fold) != ORR_OK)
        fail_msg("%s", job->err.text);
    return &job->result;
}

/* When the last rank has finished. */
static inline int64_t astra_finish_ns(astra_job *job, orr_astra_mode mode, bool fold)
{
    const orr_astra_result *result = astra_run(job, mode, fold);
    int64_t last = 0;
    for (uint32_t rank = 0; rank < result->n_ranks; rank++)
        last = result->ranks[rank].finish_ns > last ? result->ranks[rank].finish_ns : last;
    return last;
}

#endif /* ASTRA_JOBS_H */
