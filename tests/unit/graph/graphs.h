/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GRAPHS_H
#define TESTS_GRAPHS_H

/* Small graphs for tests, in few words. Failures end the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "graph/builder.h"

#define OK(expr) assert_int_equal((expr), ORR_OK)

static inline orr_str str(orr_graph_builder *b, const char *text)
{
    orr_str s = 0;
    OK(orr_builder_str(b, text, strlen(text), &s, NULL));
    return s;
}

static inline orr_lane_id lane(orr_graph_builder *b, orr_lane_kind kind, int64_t tid)
{
    orr_lane_id id = 0;
    OK(orr_builder_lane(b, &(orr_lane){.kind = (uint8_t)kind, .device = -1, .pid = 1, .tid = tid},
                        &id, NULL));
    return id;
}

static inline orr_graph_builder *new_builder(void)
{
    orr_graph_builder *b = orr_graph_builder_new();
    assert_non_null(b);
    assert_int_equal(lane(b, ORR_LANE_HOST, 1), 0);
    return b;
}

/* Node on lane 0. */
static inline orr_node_id node(orr_graph_builder *b, const char *name, int64_t start_ns,
                               int64_t duration_ns, orr_node_id parent)
{
    orr_node_id id = 0;
    const orr_node n = {.name = str(b, name),
                        .kind = ORR_NODE_HOST_OP,
                        .start_ns = start_ns,
                        .duration_ns = duration_ns,
                        .parent = parent};
    OK(orr_builder_node(b, &n, &id, NULL));
    return id;
}

static inline void dep(orr_graph_builder *b, orr_node_id v, orr_node_id on, orr_dep_kind kind)
{
    OK(orr_builder_dep(b, v, on, kind, NULL));
}

/* Build and free the builder. */
static inline const orr_graph *built(orr_graph_builder *b)
{
    const orr_graph *g = NULL;
    orr_error err = {0};
    if (orr_graph_build(b, &g, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_graph_builder_free(b);
    return g;
}

/* The same where it must fail so; *ret_err says how. */
static inline void must_not_build(orr_graph_builder *b, orr_status status, orr_error *ret_err)
{
    const orr_graph *g = NULL;
    assert_int_equal(orr_graph_build(b, &g, ret_err), status);
    assert_null(g);
    orr_graph_builder_free(b);
}

static const orr_comm no_comm = {.collective = ORR_COLL_UNKNOWN,
                                 .peer = -1,
                                 .root = -1,
                                 .tag = -1,
                                 .group = ORR_NONE,
                                 .group_size = -1,
                                 .seq = -1,
                                 .in_bytes = -1,
                                 .out_bytes = -1};

/* A communication on a stream, and what is said of it. */
static inline orr_node_id comm_node(orr_graph_builder *b, orr_node_kind kind, int64_t start_ns,
                                    int64_t duration_ns, const orr_comm *comm)
{
    orr_node_id id = 0;
    const orr_node n = {.name = str(b, "ncclKernel"),
                        .kind = kind,
                        .lane = lane(b, ORR_LANE_STREAM, 7),
                        .start_ns = start_ns,
                        .duration_ns = duration_ns,
                        .parent = ORR_NONE};
    OK(orr_builder_node(b, &n, &id, NULL));
    OK(orr_builder_comm(b, id, comm, NULL));
    return id;
}

#endif /* TESTS_GRAPHS_H */
