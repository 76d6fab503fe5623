/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/graph.h>

#include "graph/device_work.h"
#include "graphs.h"

static void test_strings(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    const char with_nul[] = "a\0b";
    orr_str s;
    OK(orr_builder_str(b, with_nul, 3, &s, NULL));
    node(b, "aten::mm", 0, 1, ORR_NONE);
    const orr_graph *g = built(b);
    assert_string_equal(orr_graph_str(g, g->name[0]), "aten::mm");
    assert_int_equal(orr_graph_str_len(g, g->name[0]), 8);
    assert_int_equal(orr_graph_find_str(g, "aten::mm"), g->name[0]);
    assert_int_equal(orr_graph_find_str(g, "aten::bmm"), ORR_NONE);
    assert_int_equal(orr_graph_find_str(g, ""), 0);
    assert_int_equal(orr_graph_str_len(g, s), 3);
    assert_memory_equal(orr_graph_str(g, s), with_nul, 4);
    assert_string_equal(orr_graph_str(g, ORR_NONE), "");
    assert_int_equal(g->n_strings, 3);
    orr_graph_free(g);
}

static void test_ranks_of_groups(void **state)
{
    (void)state;
    const uint32_t ranks[2] = {7, 3};
    const orr_group list = {.size = 2, .ranks = ranks};
    assert_int_equal(orr_group_rank(&list, 1), 3);
    assert_int_equal(orr_group_rank(&list, 2), ORR_NONE);
    const orr_group strided = {.size = 3, .start = 1, .stride = 4};
    assert_int_equal(orr_group_rank(&strided, 0), 1);
    assert_int_equal(orr_group_rank(&strided, 2), 9);
    const orr_group backwards = {.size = 3, .start = 1, .stride = -1};
    assert_int_equal(orr_group_rank(&backwards, 1), 0);
    assert_int_equal(orr_group_rank(&backwards, 2), ORR_NONE);
    const orr_group unknown = {.size = 3, .start = -1, .stride = 1};
    assert_int_equal(orr_group_rank(&unknown, 2), ORR_NONE);
    assert_int_equal(orr_group_rank(&(orr_group){.size = 0}, 0), ORR_NONE);
}

static void test_dependants(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    for (int i = 0; i < 4; i++)
        node(b, "x", 0, 0, ORR_NONE);
    dep(b, 3, 0, ORR_DEP_SYNC);
    dep(b, 1, 0, ORR_DEP_DATA);
    dep(b, 3, 1, ORR_DEP_EVENT);
    const orr_graph *g = built(b);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_edges e;
    OK(orr_graph_dependants(g, arena, &e, NULL));
    const uint32_t first[5] = {0, 2, 3, 3, 3};
    const orr_node_id nodes[3] = {1, 3, 3};
    const uint8_t kinds[3] = {ORR_DEP_DATA, ORR_DEP_SYNC, ORR_DEP_EVENT};
    assert_memory_equal(e.first, first, sizeof first);
    assert_memory_equal(e.node, nodes, sizeof nodes);
    assert_memory_equal(e.kind, kinds, sizeof kinds);
    orr_arena_free(arena);
    orr_graph_free(g);
}

static void test_device_work(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    const orr_lane_id stream = lane(b, ORR_LANE_STREAM, 7);
    static const struct {
        orr_node_kind kind;
        bool on_stream, want;
    } cases[] = {
        {ORR_NODE_COMPUTE, true, true},
        {ORR_NODE_SYNC, true, true},
        {ORR_NODE_COLLECTIVE, true, true},
        {ORR_NODE_COLLECTIVE, false, false},
        {ORR_NODE_DEVICE_ANNOTATION, true, false},
        {ORR_NODE_MEMORY, true, false},
        {ORR_NODE_RUNTIME, false, false},
    };
    enum { N = sizeof cases / sizeof *cases };
    for (size_t i = 0; i < N; i++) {
        const orr_node_id id = node(b, "x", 0, 0, ORR_NONE);
        b->kind[id] = (uint8_t)cases[i].kind;
        b->lane[id] = cases[i].on_stream ? (uint16_t)stream : 0;
    }
    const orr_graph *g = built(b);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(orr_graph_on_device(g, i), cases[i].want);
    assert_true(orr_graph_has_device_work(g));
    orr_graph_free(g);
    for (size_t i = 0; i < N; i++) { /* each alone */
        b = new_builder();
        const orr_lane_id alone = lane(b, ORR_LANE_STREAM, 7);
        const orr_node_id id = node(b, "x", 0, 0, ORR_NONE);
        b->kind[id] = (uint8_t)cases[i].kind;
        b->lane[id] = cases[i].on_stream ? (uint16_t)alone : 0;
        g = built(b);
        assert_int_equal(orr_graph_has_device_work(g), cases[i].want);
        orr_graph_free(g);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(orr_node_kind_name(ORR_NODE_OTHER), "other");
    assert_string_equal(orr_node_kind_name(ORR_NODE_OVERHEAD), "profiler overhead");
    assert_string_equal(orr_node_kind_name((orr_node_kind)99), "unknown");
    assert_string_equal(orr_dep_kind_name(ORR_DEP_SYNC), "sync");
    assert_string_equal(orr_dep_kind_name((orr_dep_kind)99), "unknown");
    assert_string_equal(orr_collective_name(ORR_COLL_REDUCE_SCATTER), "reduce_scatter");
    assert_string_equal(orr_collective_name(ORR_COLL_RECV), "recv");
}

static void test_bytes(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    enum { N = 1000 };
    for (uint32_t i = 0; i < N; i++) {
        node(b, "x", i, 1, ORR_NONE);
        if (i > 0)
            dep(b, i, i - 1, ORR_DEP_THREAD);
    }
    const orr_graph *g = built(b);
    const size_t core = orr_graph_core_bytes(g), all = orr_graph_held_bytes(g);
    assert_in_range(core, N * 52 + (N - 1) * 5, N * 52 + (N - 1) * 5 + 1000);
    assert_true(all > core);
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),    cmocka_unit_test(test_ranks_of_groups),
        cmocka_unit_test(test_dependants), cmocka_unit_test(test_device_work),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
