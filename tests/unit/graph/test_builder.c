/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/builder.h"

#include "graphs.h"

static void test_lanes_are_told_apart(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    const orr_str name = str(b, "thread one"), spans = str(b, "Spans"), traces = str(b, "Traces");
    orr_lane_id id = 9;
    const orr_lane host = {.kind = ORR_LANE_HOST, .device = -1, .pid = 5, .tid = 7};
    OK(orr_builder_lane(b, &host, &id, NULL));
    assert_int_equal(id, 1);

    orr_lane named = host;
    named.name = name;
    OK(orr_builder_lane(b, &named, &id, NULL));
    assert_int_equal(id, 1);
    assert_int_equal(b->lanes.at[1].name, name); /* filled in */
    named.name = spans;
    OK(orr_builder_lane(b, &named, &id, NULL));
    assert_int_equal(b->lanes.at[1].name, name); /* and not overwritten */

    orr_lane stream = host;
    stream.kind = ORR_LANE_STREAM;
    stream.device = 0;
    OK(orr_builder_lane(b, &stream, &id, NULL));
    assert_int_equal(id, 2);
    stream.device = 1;
    OK(orr_builder_lane(b, &stream, &id, NULL));
    assert_int_equal(id, 3);

    const orr_lane text[2] = {{.kind = ORR_LANE_HOST, .pid = INT64_MIN, .process = spans},
                              {.kind = ORR_LANE_HOST, .pid = INT64_MIN, .process = traces}};
    for (uint32_t again = 0; again < 2; again++) {
        for (uint32_t i = 0; i < 2; i++) {
            OK(orr_builder_lane(b, &text[i], &id, NULL));
            assert_int_equal(id, 4 + i);
        }
    }
    orr_graph_builder_free(b);
}

static void test_too_many_lanes(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    orr_lane_id id = 0;
    orr_lane l = {.kind = ORR_LANE_HOST, .pid = 2};
    for (l.tid = 1; l.tid < UINT16_MAX; l.tid++)
        OK(orr_builder_lane(b, &l, &id, NULL));
    assert_int_equal(id, UINT16_MAX - 1);
    assert_int_equal(orr_builder_lane(b, &l, &id, NULL), ORR_LIMIT);
    node(b, "still usable", 0, 0, ORR_NONE);
    const orr_graph *g = built(b);
    assert_int_equal(g->n_lanes, UINT16_MAX);
    orr_graph_free(g);
}

static void test_groups_copy_their_ranks(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    uint32_t ranks[3] = {4, 2, 9};
    const orr_group list = {.name = str(b, "tp"), .size = 3, .ranks = ranks};
    const orr_group strided = {.name = str(b, "tp"), .size = 3, .start = 1, .stride = 2};
    orr_group_id first = 9, again = 9, other = 9;
    OK(orr_builder_group(b, &list, &first, NULL));
    OK(orr_builder_group(b, &strided, &other, NULL));
    OK(orr_builder_group(b, &list, &again, NULL));
    assert_int_equal(first, 0);
    assert_int_equal(other, 1);
    assert_int_equal(again, 0);
    ranks[1] = 77;
    OK(orr_builder_group(b, &list, &again, NULL));
    assert_int_equal(again, 2);
    const orr_graph *g = built(b);
    assert_int_equal(orr_group_rank(&g->groups[0], 1), 2);
    assert_int_equal(orr_group_rank(&g->groups[1], 2), 5);
    assert_int_equal(orr_group_rank(&g->groups[1], 3), ORR_NONE);
    orr_graph_free(g);
}

static void test_equal_tensors_are_one(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    orr_tensor t = {.storage = 1, .elements = 6, .element_bytes = 4, .shape = str(b, "[2, 3]")};
    orr_tensor_id id = 9;
    OK(orr_builder_tensor(b, &t, &id, NULL));
    OK(orr_builder_tensor(b, &t, &id, NULL));
    assert_int_equal(id, 0);
    t.shape = str(b, "[3, 2]");
    OK(orr_builder_tensor(b, &t, &id, NULL));
    assert_int_equal(id, 1);
    orr_graph_builder_free(b);
}

static void test_details(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    const orr_node_id c = node(b, "copy", 0, 1, ORR_NONE), m = node(b, "[memory]", 0, 0, ORR_NONE),
                      n = node(b, "nccl", 0, 0, ORR_NONE), none = node(b, "none", 0, 0, ORR_NONE);
    OK(orr_builder_copy(b, c, &(orr_copy){.bytes = 5}, NULL));
    OK(orr_builder_copy(b, c, &(orr_copy){.bytes = 6}, NULL)); /* instead */
    OK(orr_builder_memory(b, m, &(orr_memory){.bytes = -8}, NULL));
    orr_comm comm = no_comm;
    comm.collective = ORR_COLL_BARRIER;
    OK(orr_builder_comm(b, n, &comm, NULL));
    assert_int_equal(orr_builder_comm(b, c, &comm, NULL), ORR_INVALID); /* is a copy */
    assert_int_equal(orr_builder_comm(b, 4, &comm, NULL), ORR_INVALID); /* no such node */
    comm.group = 0;
    assert_int_equal(orr_builder_comm(b, n, &comm, NULL), ORR_INVALID); /* no such group */
    b->flags[none] |= ORR_FLAG_CRITICAL;

    const orr_graph *g = built(b);
    assert_int_equal(g->n_copies, 1);
    assert_int_equal(orr_graph_copy(g, c)->bytes, 6);
    assert_null(orr_graph_comm(g, c));
    assert_int_equal(orr_graph_memory(g, m)->bytes, -8);
    assert_int_equal(orr_graph_comm(g, n)->collective, ORR_COLL_BARRIER);
    assert_null(orr_graph_copy(g, none));
    assert_null(orr_graph_comm(g, none));
    assert_null(orr_graph_memory(g, none));
    assert_int_equal(g->flags[none], ORR_FLAG_CRITICAL);
    orr_graph_free(g);
}

static void test_tensors_of_nodes_in_any_order(void **state)
{
    (void)state;
    for (int in_order = 0; in_order < 2; in_order++) {
        orr_graph_builder *b = new_builder();
        orr_tensor_id t[4];
        for (int i = 0; i < 4; i++)
            OK(orr_builder_tensor(b, &(orr_tensor){.storage = i}, &t[i], NULL));
        for (int i = 0; i < 3; i++)
            node(b, "op", 0, 0, ORR_NONE);
        const orr_tensor_id in[3] = {t[3], t[0], t[0]}, out[1] = {t[2]};
        const orr_node_id first = in_order ? 0 : 2, second = in_order ? 2 : 0;
        OK(orr_builder_io(b, first, first == 0 ? in : out, first == 0 ? 3 : 0, out, 1, NULL));
        OK(orr_builder_io(b, second, second == 0 ? in : out, second == 0 ? 3 : 0, out, 1, NULL));
        assert_int_equal(orr_builder_io(b, 3, in, 1, NULL, 0, NULL), ORR_INVALID);
        assert_int_equal(orr_builder_io(b, 1, (orr_tensor_id[]){4}, 1, NULL, 0, NULL), ORR_INVALID);
        const orr_graph *g = built(b);
        const uint32_t rows[4] = {0, 4, 4, 5}, outs[3] = {3, 4, 4};
        const orr_tensor_id io[5] = {3, 0, 0, 2, 2};
        assert_memory_equal(g->io_first, rows, sizeof rows);
        assert_memory_equal(g->io_out, outs, sizeof outs);
        assert_memory_equal(g->io, io, sizeof io);
        orr_graph_free(g);
    }
}

static void test_empty_after_a_build_and_usable_again(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    node(b, "first life", 5, 1, ORR_NONE);
    const orr_graph *g[2] = {NULL, NULL};
    OK(orr_graph_build(b, &g[0], NULL));
    assert_int_equal(orr_builder_n_nodes(b), 0);
    lane(b, ORR_LANE_HOST, 3);
    node(b, "second life", 0, 1, ORR_NONE);
    OK(orr_graph_build(b, &g[1], NULL));
    assert_string_equal(orr_graph_str(g[0], g[0]->name[0]), "first life");
    assert_string_equal(orr_graph_str(g[1], g[1]->name[0]), "second life");
    orr_graph_builder_free(b);
    orr_graph_free(g[0]);
    orr_graph_free(g[1]);
    orr_graph_builder_free(NULL);
    orr_graph_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_are_told_apart),
        cmocka_unit_test(test_too_many_lanes),
        cmocka_unit_test(test_groups_copy_their_ranks),
        cmocka_unit_test(test_equal_tensors_are_one),
        cmocka_unit_test(test_details),
        cmocka_unit_test(test_tensors_of_nodes_in_any_order),
        cmocka_unit_test(test_empty_after_a_build_and_usable_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
