/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_REPORT_FIXTURE_H
#define TESTS_REPORT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/orrery.h>

#include "io/stream/output.h"
#include "report/table/cell.h"

/* A rank with one host thread and two streams; times in us read better in tests. */
typedef struct rig {
    orr_graph_builder *builder;
    orr_lane_id host, stream, comm;
} rig;

static inline orr_str rig_str(rig *r, const char *text)
{
    orr_str id;
    assert_int_equal(orr_builder_str(r->builder, text, strlen(text), &id, NULL), ORR_OK);
    return id;
}

static inline rig rig_new(void)
{
    rig r = {.builder = orr_graph_builder_new()};
    const orr_lane host = {ORR_LANE_HOST, -1, 10, 42, 0, 0};
    const orr_lane stream = {ORR_LANE_STREAM, 0, 0, 7, 0, 0};
    const orr_lane comm = {ORR_LANE_STREAM, 0, 0, 20, 0, 0};
    assert_non_null(r.builder);
    assert_int_equal(orr_builder_lane(r.builder, &host, &r.host, NULL), ORR_OK);
    assert_int_equal(orr_builder_lane(r.builder, &stream, &r.stream, NULL), ORR_OK);
    assert_int_equal(orr_builder_lane(r.builder, &comm, &r.comm, NULL), ORR_OK);
    return r;
}

static inline orr_node_id rig_node(rig *r, const char *name, orr_node_kind kind, orr_lane_id lane,
                                   int64_t start_us, int64_t duration_us)
{
    const orr_node n = {rig_str(r, name),   kind,     lane, start_us * 1000,
                        duration_us * 1000, ORR_NONE, 0};
    orr_node_id id;
    assert_int_equal(orr_builder_node(r->builder, &n, &id, NULL), ORR_OK);
    return id;
}

static inline void rig_dep(rig *r, orr_node_id waits, orr_node_id on, orr_dep_kind kind)
{
    assert_int_equal(orr_builder_dep(r->builder, waits, on, kind, NULL), ORR_OK);
}

static inline const orr_graph *rig_graph(rig *r)
{
    const orr_graph *graph = NULL;
    assert_int_equal(orr_graph_build(r->builder, &graph, NULL), ORR_OK);
    orr_graph_builder_free(r->builder);
    return graph;
}

static inline const orr_job *rig_job(rig *r)
{
    const orr_graph *graph = rig_graph(r);
    const orr_job *job = NULL;
    assert_int_equal(orr_job_build(&graph, 1, &job, NULL), ORR_OK);
    return job;
}

/* An operator in a step, its launch and its kernel; a collective; memory; and a kernel whose name
 * would be markup. */
static inline const orr_job *small_job(void)
{
    rig r = rig_new();
    const orr_node_id step = rig_node(&r, "ProfilerStep#1", ORR_NODE_ANNOTATION, r.host, 0, 1000);
    const orr_node_id op = rig_node(&r, "aten::linear", ORR_NODE_HOST_OP, r.host, 10, 100);
    const orr_node_id call = rig_node(&r, "cudaLaunchKernel", ORR_NODE_RUNTIME, r.host, 20, 10);
    const orr_node_id kernel =
        rig_node(&r, "</script><b>&\"sgemm'", ORR_NODE_COMPUTE, r.stream, 100, 300);
    const orr_node_id copy =
        rig_node(&r, "Memcpy HtoD (Pageable -> Device)", ORR_NODE_COPY, r.stream, 500, 50);
    const orr_node_id comm =
        rig_node(&r, "ncclDevKernel_AllReduce", ORR_NODE_COLLECTIVE, r.comm, 300, 300);
    const orr_node_id mem = rig_node(&r, "[memory]", ORR_NODE_MEMORY, r.host, 30, 0);
    const orr_comm what = {.collective = ORR_COLL_ALL_REDUCE,
                           .peer = -1,
                           .root = -1,
                           .tag = -1,
                           .group = ORR_NONE,
                           .group_size = 2,
                           .seq = 1,
                           .in_bytes = 1 << 20,
                           .out_bytes = 1 << 20,
                           .dtype = rig_str(&r, "Float")};
    const orr_copy moved = {.bytes = 4096, .bandwidth_bytes_per_s = 1e9};
    const orr_memory held = {1, 512, 4096, 8192, 1, 0};
    (void)step;
    (void)op;
    assert_int_equal(orr_builder_comm(r.builder, comm, &what, NULL), ORR_OK);
    assert_int_equal(orr_builder_copy(r.builder, copy, &moved, NULL), ORR_OK);
    assert_int_equal(orr_builder_memory(r.builder, mem, &held, NULL), ORR_OK);
    rig_dep(&r, kernel, call, ORR_DEP_LAUNCH);
    rig_dep(&r, copy, kernel, ORR_DEP_STREAM);
    rig_dep(&r, comm, kernel, ORR_DEP_EVENT);
    return rig_job(&r);
}

/* What `write` writes, as text to be freed. */
#define WRITTEN(out_name, statement)                                                               \
    __extension__({                                                                                \
        orr_output *out_name;                                                                      \
        size_t written_n_;                                                                         \
        assert_int_equal(orr_output_open_memory(&out_name, NULL), ORR_OK);                         \
        statement;                                                                                 \
        assert_int_equal(orr_output_finish(out_name, NULL), ORR_OK);                               \
        const char *written_ = orr_output_memory(out_name, &written_n_);                           \
        char *written_copy_ = strndup(written_ ? written_ : "", written_n_);                       \
        orr_output_close(out_name);                                                                \
        written_copy_;                                                                             \
    })

/* A cell of a table by the name of its column. */
static inline orr_cell cell_of(const orr_table *t, size_t row, const char *column)
{
    for (size_t c = 0; c < t->n_columns; c++)
        if (strcmp(t->columns[c].name, column) == 0)
            return orr_table_cell(t, row, &t->columns[c]);
    fail_msg("no column %s", column);
    return (orr_cell){0};
}

#endif /* TESTS_REPORT_FIXTURE_H */
