/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SYNTHESIS_TOY_H
#define TESTS_SYNTHESIS_TOY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "graph/builder.h"
#include "synthesis/synthesis.h"

/* A small job: each rank a thread with steps of operators, each of which launches a kernel; every
 * fourth operator launches an all-reduce instead, of all ranks, or of those that stand `stride`
 * apart; a step ends with a call that waits for both streams. */
typedef struct toy {
    uint32_t ranks, steps, operators;
    uint32_t stride;    /* 0: all ranks; else groups of every stride-th rank */
    uint32_t row;       /* 0; else groups of so many ranks in a row */
    bool pairs;         /* ranks 2i send to ranks 2i + 1 instead */
    uint32_t recorded;  /* 0: all; else so many of the ranks have a recording */
    int64_t unit_ns;    /* an operator takes this and up to a quarter more */
    const char *prefix; /* of operators' names */
    uint64_t seed;
} toy;

static inline void toy_must(orr_status status, const orr_error *err)
{
    if (status != ORR_OK)
        fail_msg("%s", err->text);
}

typedef struct toy_rank {
    const toy *t;
    uint32_t rank;
    orr_graph_builder *b;
    orr_lane_id thread, kernels, network;
    orr_node_id last_kernel, last_transfer;
    int64_t now_ns, kernels_free_ns, network_free_ns;
    orr_random random;
    orr_error err;
} toy_rank;

static inline orr_str toy_name(toy_rank *r, const char *text)
{
    orr_str name;
    toy_must(orr_builder_str(r->b, text, strlen(text), &name, &r->err), &r->err);
    return name;
}

static inline orr_node_id toy_node(toy_rank *r, const char *name, orr_node_kind kind,
                                   orr_lane_id lane, int64_t start_ns, int64_t duration_ns,
                                   orr_node_id parent)
{
    orr_node_id made;
    const orr_node node = {toy_name(r, name), kind, lane, start_ns, duration_ns, parent, 0};
    toy_must(orr_builder_node(r->b, &node, &made, &r->err), &r->err);
    return made;
}

static inline void toy_dep(toy_rank *r, orr_node_id node, orr_node_id on, orr_dep_kind kind)
{
    if (on != ORR_NONE)
        toy_must(orr_builder_dep(r->b, node, on, kind, &r->err), &r->err);
}

static inline void toy_transfer(toy_rank *r, orr_node_id v)
{
    const toy *t = r->t;
    orr_group group = {.name = toy_name(r, "world"), .size = t->ranks, .stride = 1};
    orr_comm comm = {.collective = ORR_COLL_ALL_REDUCE,
                     .peer = -1,
                     .root = -1,
                     .tag = -1,
                     .seq = -1,
                     .in_bytes = 1 << 20,
                     .out_bytes = 1 << 20};
    if (t->stride > 0)
        group = (orr_group){toy_name(r, r->rank % t->stride ? "odd" : "even"),
                            0,
                            0,
                            t->ranks / t->stride,
                            (int32_t)(r->rank % t->stride),
                            (int32_t)t->stride,
                            NULL};
    if (t->row > 0)
        group = (orr_group){toy_name(r, r->rank / t->row ? "high" : "low"), 0, 0,   t->row,
                            (int32_t)(r->rank / t->row * t->row),           1, NULL};
    toy_must(orr_builder_group(r->b, &group, &comm.group, &r->err), &r->err);
    comm.group_size = (int32_t)group.size;
    if (t->pairs) {
        comm.collective = r->rank % 2 ? ORR_COLL_RECV : ORR_COLL_SEND;
        comm.peer = (int32_t)(r->rank ^ 1);
    }
    toy_must(orr_builder_comm(r->b, v, &comm, &r->err), &r->err);
}

static inline int64_t toy_length(toy_rank *r)
{
    return r->t->unit_ns + (int64_t)orr_random_below(&r->random, (uint64_t)r->t->unit_ns / 4);
}

static inline void toy_operator(toy_rank *r, uint32_t i)
{
    const bool transfers = i % 4 == 3;
    const int64_t length = toy_length(r);
    char name[64];
    snprintf(name, sizeof name, "%s_%u", r->t->prefix, i % 5);
    const orr_node_id op =
        toy_node(r, name, ORR_NODE_HOST_OP, r->thread, r->now_ns, length, ORR_NONE);
    const orr_node_id call = toy_node(r, "cudaLaunchKernel", ORR_NODE_RUNTIME, r->thread,
                                      r->now_ns + length / 4, length / 4, op);
    int64_t *free_ns = transfers ? &r->network_free_ns : &r->kernels_free_ns;
    int64_t start = r->now_ns + length / 4 + 3000;
    start = *free_ns > start ? *free_ns : start;
    const int64_t takes = length * (1 + i % 5) / 2;
    orr_node_kind kind = ORR_NODE_COMPUTE;
    if (transfers)
        kind = !r->t->pairs ? ORR_NODE_COLLECTIVE : r->rank % 2 ? ORR_NODE_RECV : ORR_NODE_SEND;
    snprintf(name, sizeof name, transfers ? "ncclKernel" : "kernel_%u", i % 5);
    const orr_node_id work =
        toy_node(r, name, kind, transfers ? r->network : r->kernels, start, takes, ORR_NONE);
    if (transfers)
        toy_transfer(r, work);
    orr_node_id *last = transfers ? &r->last_transfer : &r->last_kernel;
    toy_dep(r, work, call, ORR_DEP_LAUNCH);
    toy_dep(r, work, *last, ORR_DEP_STREAM);
    *last = work;
    *free_ns = start + takes;
    r->now_ns += length + 1000;
}

static inline void toy_step(toy_rank *r, uint32_t step)
{
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%u", step);
    const int64_t start = r->now_ns;
    const orr_node_id annotation =
        toy_node(r, name, ORR_NODE_ANNOTATION, r->thread, start, 0, ORR_NONE);
    for (uint32_t i = 0; i < r->t->operators; i++)
        toy_operator(r, i);
    int64_t done =
        r->kernels_free_ns > r->network_free_ns ? r->kernels_free_ns : r->network_free_ns;
    done = done > r->now_ns ? done : r->now_ns;
    const orr_node_id wait = toy_node(r, "cudaDeviceSynchronize", ORR_NODE_RUNTIME, r->thread,
                                      r->now_ns, done + 2000 - r->now_ns, ORR_NONE);
    toy_dep(r, wait, r->last_kernel, ORR_DEP_SYNC);
    toy_dep(r, wait, r->last_transfer, ORR_DEP_SYNC);
    r->now_ns = done + 3000;
    /* The builder's columns stay open: the step ends here. */
    r->b->duration_ns[annotation] = r->now_ns - start;
    r->now_ns += 1000;
}

static inline const orr_graph *toy_graph(const toy *t, uint32_t rank)
{
    toy_rank r = {.t = t,
                  .rank = rank,
                  .b = orr_graph_builder_new(),
                  .last_kernel = ORR_NONE,
                  .last_transfer = ORR_NONE,
                  .random = orr_random_of(t->seed, rank)};
    const orr_graph *graph;
    assert_non_null(r.b);
    const orr_recording about = {.rank = rank,
                                 .world_size = t->ranks,
                                 .source = toy_name(&r, "toy"),
                                 .device_name = toy_name(&r, "toy")};
    const orr_lane thread = {.kind = ORR_LANE_HOST, .device = -1, .pid = 1, .tid = 10};
    const orr_lane kernels = {.kind = ORR_LANE_STREAM, .pid = 0, .tid = 7};
    const orr_lane network = {.kind = ORR_LANE_STREAM, .pid = 0, .tid = 20};
    orr_builder_recording(r.b, &about);
    toy_must(orr_builder_lane(r.b, &thread, &r.thread, &r.err), &r.err);
    toy_must(orr_builder_lane(r.b, &kernels, &r.kernels, &r.err), &r.err);
    toy_must(orr_builder_lane(r.b, &network, &r.network, &r.err), &r.err);
    for (uint32_t step = 0; step < t->steps; step++)
        toy_step(&r, step);
    toy_must(orr_graph_build(r.b, &graph, &r.err), &r.err);
    orr_graph_builder_free(r.b);
    return graph;
}

/* Free with orr_job_free(). */
static inline const orr_job *toy_job(toy t)
{
    const orr_graph *graphs[64];
    const orr_job *job;
    orr_error err = {0};
    if (t.prefix == NULL)
        t.prefix = "aten::op";
    if (t.unit_ns == 0)
        t.unit_ns = 20000;
    const uint32_t n = t.recorded > 0 ? t.recorded : t.ranks;
    for (uint32_t rank = 0; rank < n; rank++)
        graphs[rank] = toy_graph(&t, rank);
    toy_must(orr_job_build(graphs, n, &job, &err), &err);
    return job;
}

static inline orr_synthesis_options toy_options(uint64_t seed, uint32_t n_ranks)
{
    return (orr_synthesis_options){
        .seed = seed, .n_ranks = n_ranks, .annotation = "ProfilerStep", .threads = 1};
}

#endif /* TESTS_SYNTHESIS_TOY_H */
