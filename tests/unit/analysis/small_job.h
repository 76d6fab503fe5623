/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMALL_JOB_H
#define SMALL_JOB_H

/* Small graphs by hand: times in ns, one rank unless told.
 *
 *   small s = small_begin();
 *   uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
 *   uint32_t op = small_node(&s, ORR_NODE_HOST_OP, "aten::mm", cpu, 0, 100, ORR_NONE);
 *   uint32_t call = small_node(&s, ORR_NODE_RUNTIME, "cudaLaunchKernel", cpu, 10, 5, op);
 *   small_work(&s, ORR_NODE_COMPUTE, "gemm", gpu, 20, 50, call);
 *   const orr_job *job = small_job(&s);
 *   ... small_end(&s);
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/analysis.h>

#include "base/alloc.h"

enum { SMALL_RANKS_MAX = 8 };

typedef struct small {
    orr_graph_builder *builder; /* of the rank that is being built */
    const orr_graph *graphs[SMALL_RANKS_MAX];
    uint32_t n_graphs;
    const orr_job *job;
    orr_arena *arena;
    orr_error err;
} small;

static inline small small_begin(void)
{
    small s = {.builder = orr_graph_builder_new(), .arena = orr_arena_new(0, 0)};
    assert_non_null(s.builder);
    assert_non_null(s.arena);
    return s;
}

static inline orr_str small_str(small *s, const char *text)
{
    orr_str str;
    assert_int_equal(orr_builder_str(s->builder, text, strlen(text), &str, &s->err), ORR_OK);
    return str;
}

static inline uint32_t small_lane(small *s, orr_lane lane)
{
    orr_lane_id id;
    assert_int_equal(orr_builder_lane(s->builder, &lane, &id, &s->err), ORR_OK);
    return id;
}

static inline uint32_t small_thread(small *s, int64_t tid)
{
    return small_lane(s, (orr_lane){.kind = ORR_LANE_HOST, .device = -1, .pid = 1, .tid = tid});
}

static inline uint32_t small_stream(small *s, int32_t device, int64_t stream)
{
    return small_lane(
        s, (orr_lane){.kind = ORR_LANE_STREAM, .device = device, .pid = device, .tid = stream});
}

static inline uint32_t small_node(small *s, orr_node_kind kind, const char *name, uint32_t lane,
                                  int64_t start_ns, int64_t duration_ns, uint32_t parent)
{
    const orr_node node = {.name = small_str(s, name),
                           .kind = kind,
                           .lane = lane,
                           .start_ns = start_ns,
                           .duration_ns = duration_ns,
                           .parent = parent};
    orr_node_id id;
    assert_int_equal(orr_builder_node(s->builder, &node, &id, &s->err), ORR_OK);
    return id;
}

/* Device work, launched by `call` unless that is ORR_NONE. */
static inline uint32_t small_work(small *s, orr_node_kind kind, const char *name, uint32_t lane,
                                  int64_t start_ns, int64_t duration_ns, uint32_t call)
{
    const uint32_t id = small_node(s, kind, name, lane, start_ns, duration_ns, ORR_NONE);
    if (call != ORR_NONE)
        assert_int_equal(orr_builder_dep(s->builder, id, call, ORR_DEP_LAUNCH, &s->err), ORR_OK);
    return id;
}

static inline uint32_t small_call(small *s, uint32_t lane, int64_t start_ns, int64_t duration_ns,
                                  uint32_t parent)
{
    return small_node(s, ORR_NODE_RUNTIME, "cudaLaunchKernel", lane, start_ns, duration_ns, parent);
}

/* The rank is complete; the next nodes belong to the next rank. */
static inline const orr_graph *small_rank(small *s)
{
    const orr_graph *graph;
    assert_true(s->n_graphs < SMALL_RANKS_MAX);
    assert_int_equal(orr_graph_build(s->builder, &graph, &s->err), ORR_OK);
    s->graphs[s->n_graphs++] = graph;
    orr_graph_builder_free(s->builder);
    s->builder = orr_graph_builder_new();
    assert_non_null(s->builder);
    return graph;
}

static inline const orr_job *small_job(small *s)
{
    if (s->n_graphs == 0)
        small_rank(s);
    assert_int_equal(orr_job_build(s->graphs, s->n_graphs, &s->job, &s->err), ORR_OK);
    return s->job;
}

static inline void small_end(small *s)
{
    orr_graph_builder_free(s->builder);
    orr_job_free(s->job);
    orr_arena_free(s->arena);
}

static inline orr_analysis_options small_options(void)
{
    orr_analysis_options options;
    orr_analysis_options_init(&options);
    return options;
}

/* Run `call` (gives a status, allocates from s.arena) with the first, the second, ...
 * allocation failing, until it succeeds: each failure must be NO_MEMORY. */
#define SMALL_SURVIVES_NO_MEMORY(call)                                                             \
    do {                                                                                           \
        orr_status status_ = ORR_NO_MEMORY;                                                        \
        uint64_t nth_ = 0;                                                                         \
        for (; status_ != ORR_OK; nth_++) {                                                        \
            orr_arena_free(s.arena);                                                               \
            s.arena = orr_arena_new(0, 0);                                                         \
            orr_alloc_fail_from(nth_ + 1);                                                         \
            status_ = (call);                                                                      \
            orr_alloc_fail_from(0);                                                                \
            if (status_ != ORR_OK)                                                                 \
                assert_int_equal(status_, ORR_NO_MEMORY);                                          \
            assert_true(nth_ < 10000);                                                             \
        }                                                                                          \
        assert_true(nth_ > 1); /* something did fail */                                            \
    } while (0)

#endif /* SMALL_JOB_H */
