/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/part.h"

#include "base/alloc.h"
#include "graph/bridge.h"
#include "graphs.h"

static const orr_graph *part_of(const orr_graph *g, const uint8_t *keep)
{
    orr_graph_builder *b = orr_graph_builder_new();
    assert_non_null(b);
    OK(orr_graph_part(g, keep, b, NULL));
    return built(b);
}

static orr_node_id stream_node(orr_graph_builder *b, const char *name, int64_t tid,
                               int64_t start_ns)
{
    orr_node_id id = 0;
    const orr_node n = {.name = str(b, name),
                        .kind = ORR_NODE_COMPUTE,
                        .lane = lane(b, ORR_LANE_STREAM, tid),
                        .start_ns = start_ns,
                        .duration_ns = 5,
                        .parent = ORR_NONE};
    OK(orr_builder_node(b, &n, &id, NULL));
    return id;
}

/* Twenty before a dropped one, thirty after it. */
static void test_long_lists_become_a_node(void **state)
{
    (void)state;
    enum { BEFORE = ORR_BRIDGE_MAX + 4, AFTER = 30, N = BEFORE + 1 + AFTER };
    orr_graph_builder *b = new_builder();
    uint8_t keep[N];
    memset(keep, 1, sizeof keep);
    keep[BEFORE] = 0;
    for (uint32_t v = 0; v < N; v++)
        node(b, "op", v, 7, ORR_NONE);
    for (uint32_t v = 0; v < BEFORE; v++)
        dep(b, BEFORE, v, ORR_DEP_DATA);
    for (uint32_t v = BEFORE + 1; v < N; v++)
        dep(b, v, BEFORE, ORR_DEP_DATA);
    const orr_graph *g = built(b), *part = part_of(g, keep);
    assert_int_equal(part->n_nodes, N);
    assert_int_equal(part->n_deps, BEFORE + AFTER);
    assert_int_equal(part->kind[BEFORE], ORR_NODE_META);
    assert_int_equal(part->duration_ns[BEFORE], 0);
    assert_int_equal(part->start_ns[BEFORE], BEFORE); /* its start: the first with a long list */
    orr_graph_free(part);
    orr_graph_free(g);
}

static void test_short_lists_do_not(void **state)
{
    (void)state;
    static const uint8_t keep[] = {1, 1, 0, 1};
    orr_graph_builder *b = new_builder();
    for (uint32_t v = 0; v < 4; v++)
        node(b, "op", 10 * v, 7, ORR_NONE);
    dep(b, 2, 0, ORR_DEP_DATA);
    dep(b, 2, 1, ORR_DEP_CONTROL);
    dep(b, 3, 2, ORR_DEP_THREAD);
    const orr_graph *g = built(b), *part = part_of(g, keep);
    assert_int_equal(part->n_nodes, 3);
    assert_int_equal(part->dep_first[2], 0);
    assert_int_equal(part->n_deps, 2);
    assert_int_equal(part->dep[0], 0);
    assert_int_equal(part->dep_kind[0], ORR_DEP_THREAD); /* end to start in the same thread */
    assert_int_equal(part->dep[1], 1);
    assert_int_equal(part->dep_kind[1], ORR_DEP_CONTROL); /* start to start */
    orr_graph_free(part);
    orr_graph_free(g);
}

/* A call that enqueued work, and one that waits for it: without the work, the end of the one waits
 * for the start of the other, which no dependency says. */
static void test_an_end_that_waits_for_a_start(void **state)
{
    (void)state;
    static const uint8_t keep[] = {1, 0, 1};
    orr_graph_builder *b = new_builder();
    const orr_node_id launch = node(b, "launch", 0, 9, ORR_NONE);
    const orr_node_id kernel = stream_node(b, "kernel", 7, 3);
    const orr_node_id waits = node(b, "synchronize", 1, 20, ORR_NONE);
    dep(b, kernel, launch, ORR_DEP_LAUNCH);
    dep(b, waits, kernel, ORR_DEP_SYNC);
    const orr_graph *g = built(b), *part = part_of(g, keep);
    assert_int_equal(part->n_nodes, 3);
    assert_int_equal(part->kind[1], ORR_NODE_SYNC);
    assert_int_equal(part->start_ns[1], 8); /* the end of the kernel */
    assert_int_equal(part->n_deps, 2);
    assert_int_equal(part->dep_kind[0], ORR_DEP_CONTROL);
    assert_int_equal(part->dep[0], 0);
    assert_int_equal(part->dep_kind[1], ORR_DEP_SYNC);
    assert_int_equal(part->dep[1], 1);
    orr_graph_free(part);
    orr_graph_free(g);
}

/* Work of a stream that is left out leaves its end. */
static void test_order_of_streams(void **state)
{
    (void)state;
    static const uint8_t keep[] = {1, 1, 0, 1, 1};
    orr_graph_builder *b = new_builder();
    stream_node(b, "first", 7, 0);
    stream_node(b, "other", 8, 0);
    stream_node(b, "dropped", 7, 10);
    stream_node(b, "next", 7, 20);
    stream_node(b, "elsewhere", 8, 20);
    dep(b, 2, 0, ORR_DEP_STREAM);
    dep(b, 2, 1, ORR_DEP_EVENT);
    dep(b, 3, 2, ORR_DEP_STREAM);
    dep(b, 4, 2, ORR_DEP_EVENT);
    const orr_graph *g = built(b), *part = part_of(g, keep);
    assert_int_equal(part->n_deps, 4);
    static const uint8_t want[] = {ORR_DEP_STREAM, ORR_DEP_EVENT, ORR_DEP_STREAM, ORR_DEP_EVENT};
    assert_int_equal(part->n_nodes, 5);
    assert_int_equal(part->kind[2], ORR_NODE_SYNC);
    assert_int_equal(part->start_ns[2], 15);
    assert_memory_equal(part->dep_kind, want, sizeof want);
    orr_graph_free(part);
    orr_graph_free(g);
}

/* Work that was enqueued before the part began, of which a call in it waits for the one that still
 * ran then. */
static void test_what_was_on_its_way(void **state)
{
    (void)state;
    static const uint8_t keep[] = {0, 0, 1, 1};
    orr_graph_builder *b = new_builder();
    stream_node(b, "over", 7, 0);
    stream_node(b, "under way", 8, 8);
    node(b, "step", 10, 50, ORR_NONE);
    node(b, "synchronize", 11, 20, 2);
    dep(b, 3, 0, ORR_DEP_SYNC);
    dep(b, 3, 1, ORR_DEP_SYNC);
    const orr_graph *g = built(b), *part = part_of(g, keep);
    assert_int_equal(part->n_nodes, 3);
    assert_string_equal(orr_graph_str(part, part->name[0]), "under way");
    assert_int_equal(part->base_ns, 10);
    assert_int_equal(part->start_ns[0], 3);
    assert_int_equal(part->n_deps, 1);
    assert_int_equal(part->dep_kind[0], ORR_DEP_SYNC);
    orr_graph_free(part);
    orr_graph_free(g);
}

/* Something of everything on the node that is kept, and on one that is not. */
static const orr_graph *all_kinds(void)
{
    orr_graph_builder *b = new_builder();
    const uint32_t ranks[] = {0, 2};
    const int64_t value = 77;
    orr_comm comm = no_comm;
    orr_tensor_id t[2];
    const orr_group other = {.name = str(b, "1"), .start = -1},
                    group = {.name = str(b, "2"), .size = 2, .ranks = ranks};
    OK(orr_builder_group(b, &other, &comm.group, NULL));
    OK(orr_builder_group(b, &group, &comm.group, NULL));
    comm.in_bytes = 4096;
    for (uint32_t i = 0; i < 2; i++)
        OK(orr_builder_tensor(b, &(orr_tensor){.storage = i + 1}, &t[i], NULL));
    node(b, "outer", 0, 100, ORR_NONE);
    node(b, "middle", 1, 90, 0);
    const orr_node_id inner = node(b, "inner", 2, 80, 1);
    comm_node(b, ORR_NODE_COLLECTIVE, 200, 10, &comm);
    for (orr_node_id v = 1; v < 3; v++) {
        const orr_attr attr = {.name = str(b, v == 1 ? "gone" : "grid"),
                               .kind = ORR_ATTR_INT64,
                               .count = 1,
                               .values = &value};
        OK(orr_builder_attrs(b, v, &attr, 1, NULL));
        OK(orr_builder_io(b, v, &t[v - 1], 1, NULL, 0, NULL));
    }
    OK(orr_builder_copy(b, inner, &(orr_copy){.bytes = 12}, NULL));
    b->flags[inner] |= ORR_FLAG_CRITICAL;
    b->source_id[inner] = 31;
    orr_builder_recording(b, &(orr_recording){5, 2, 4, str(b, "kineto 1"), str(b, "H100")});
    return built(b);
}

static void test_what_a_node_has(void **state)
{
    (void)state;
    static const uint8_t keep[] = {1, 0, 1, 1};
    const orr_graph *g = all_kinds(), *part = part_of(g, keep);
    orr_attr attr;
    int64_t value = 0;
    assert_int_equal(part->n_nodes, 3);
    assert_string_equal(orr_graph_str(part, part->name[1]), "inner");
    assert_int_equal(part->parent[1], 0);
    assert_int_equal(part->source_id[1], 31);
    assert_int_equal(orr_graph_copy(part, 1)->bytes, 12);
    assert_true(part->flags[1] & ORR_FLAG_CRITICAL);
    assert_true(orr_graph_find_attr(part, 1, "grid", &attr) && orr_attr_int(&attr, &value));
    assert_int_equal(value, 77);
    assert_int_equal(part->n_tensors, 1);
    assert_int_equal(part->tensors[part->io[part->io_first[1]]].storage, 2);
    assert_int_equal(orr_graph_comm(part, 2)->in_bytes, 4096);
    assert_int_equal(orr_group_rank(&part->groups[orr_graph_comm(part, 2)->group], 1), 2);
    assert_int_equal(part->base_ns, g->base_ns);
    assert_int_equal(part->rank, 2);
    assert_int_equal(part->world_size, 4);
    assert_string_equal(orr_graph_str(part, part->device_name), "H100");
    orr_graph_free(part);
    orr_graph_free(g);
}

static void test_only_lanes_that_are_used(void **state)
{
    (void)state;
    static const uint8_t keep[] = {0, 0, 0, 1};
    const orr_graph *g = all_kinds(), *part = part_of(g, keep);
    assert_int_equal(part->n_lanes, 1);
    assert_int_equal(part->lanes[0].kind, ORR_LANE_STREAM);
    assert_int_equal(part->n_deps, 0);
    orr_graph_free(part);
    orr_graph_free(g);
}

static void test_each_failing_allocation(void **state)
{
    (void)state;
    static const uint8_t keep[] = {1, 0, 1, 1};
    const orr_graph *g = all_kinds();
    uint64_t nth = 0;
    orr_status status = ORR_NO_MEMORY;
    while (status == ORR_NO_MEMORY) {
        orr_graph_builder *b = orr_graph_builder_new();
        orr_alloc_fail_from(++nth);
        status = orr_graph_part(g, keep, b, NULL);
        orr_alloc_fail_from(0);
        orr_graph_builder_free(b);
    }
    OK(status);
    assert_true(nth > 10);
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_lists_become_a_node),
        cmocka_unit_test(test_short_lists_do_not),
        cmocka_unit_test(test_an_end_that_waits_for_a_start),
        cmocka_unit_test(test_order_of_streams),
        cmocka_unit_test(test_what_was_on_its_way),
        cmocka_unit_test(test_what_a_node_has),
        cmocka_unit_test(test_only_lanes_that_are_used),
        cmocka_unit_test(test_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
