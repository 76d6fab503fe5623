/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

static void test_rows_keep_the_order_of_insertion(void **state)
{
    (void)state;
    for (int scattered = 0; scattered < 2; scattered++) {
        orr_graph_builder *b = new_builder();
        for (int i = 0; i < 4; i++)
            node(b, "x", 0, 0, ORR_NONE);
        if (scattered)
            dep(b, 3, 0, ORR_DEP_SYNC);
        dep(b, 2, 1, ORR_DEP_DATA);
        dep(b, 2, 0, ORR_DEP_CONTROL);
        dep(b, 2, 1, ORR_DEP_DATA); /* a duplicate is kept */
        if (!scattered)
            dep(b, 3, 0, ORR_DEP_SYNC);
        const orr_graph *g = built(b);
        const uint32_t first[5] = {0, 0, 0, 3, 4};
        const orr_node_id on[4] = {1, 0, 1, 0};
        const uint8_t kinds[4] = {ORR_DEP_DATA, ORR_DEP_CONTROL, ORR_DEP_DATA, ORR_DEP_SYNC};
        assert_int_equal(g->n_deps, 4);
        assert_memory_equal(g->dep_first, first, sizeof first);
        assert_memory_equal(g->dep, on, sizeof on);
        assert_memory_equal(g->dep_kind, kinds, sizeof kinds);
        orr_graph_free(g);
    }
}

static void test_first_start_becomes_zero(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    orr_builder_recording(b, &(orr_recording){.base_ns = 1000,
                                              .rank = 3,
                                              .world_size = 8,
                                              .source = str(b, "kineto 1"),
                                              .device_name = str(b, "H100")});
    node(b, "no time", ORR_TIME_NONE, 50, ORR_NONE);
    node(b, "late", -10, 30, ORR_NONE);
    node(b, "first", -40, 5, ORR_NONE);
    const orr_graph *g = built(b);
    assert_int_equal(g->base_ns, 960);
    assert_int_equal(g->span_ns, 60);
    assert_int_equal(g->start_ns[0], ORR_TIME_NONE);
    assert_int_equal(g->start_ns[1], 30);
    assert_int_equal(g->start_ns[2], 0);
    assert_int_equal(g->rank, 3);
    assert_int_equal(g->world_size, 8);
    assert_string_equal(orr_graph_str(g, g->source), "kineto 1");
    assert_string_equal(orr_graph_str(g, g->device_name), "H100");
    orr_graph_free(g);
}

static void test_no_recorded_start(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    b->recording.base_ns = 77;
    node(b, "x", ORR_TIME_NONE, 5, ORR_NONE);
    const orr_graph *g = built(b);
    assert_int_equal(g->base_ns, 77);
    assert_int_equal(g->span_ns, 0);
    assert_int_equal(g->rank, ORR_NONE);
    orr_graph_free(g);
}

static void test_graph_without_nodes(void **state)
{
    (void)state;
    orr_graph_builder *b = orr_graph_builder_new();
    const orr_graph *g = built(b);
    assert_int_equal(g->n_nodes, 0);
    assert_int_equal(g->dep_first[0], 0);
    assert_int_equal(g->lane_first[0], 0);
    assert_int_equal(g->n_strings, 1);
    orr_graph_free(g);
}

static void test_times_too_far_apart(void **state)
{
    (void)state;
    orr_error err;
    orr_graph_builder *b = new_builder();
    node(b, "early", INT64_MIN + 1, 0, ORR_NONE);
    node(b, "late", INT64_MAX, 0, ORR_NONE);
    must_not_build(b, ORR_INVALID, &err);

    b = new_builder();
    node(b, "too long", 5, 1, ORR_NONE);
    node(b, "too long", INT64_MAX - 5, INT64_MAX, ORR_NONE);
    must_not_build(b, ORR_INVALID, &err);
    assert_non_null(strstr(err.text, "node 1"));

    b = new_builder();
    b->recording.base_ns = INT64_MAX;
    node(b, "x", 1, 1, ORR_NONE);
    must_not_build(b, ORR_INVALID, &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_keep_the_order_of_insertion),
        cmocka_unit_test(test_first_start_becomes_zero),
        cmocka_unit_test(test_no_recorded_start),
        cmocka_unit_test(test_graph_without_nodes),
        cmocka_unit_test(test_times_too_far_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
