/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/reorder.h"

#include "base/alloc.h"
#include "graph/builder.h"
#include "graphs.h"

/* Three nodes, one inside another, and one that waits for the first. */
static orr_graph_builder *three_nodes(void)
{
    orr_graph_builder *b = new_builder();
    const char *const names[] = {"a", "b", "c"};
    for (uint32_t i = 0; i < 3; i++) {
        orr_node node = {.name = str(b, names[i]), .start_ns = i, .parent = ORR_NONE};
        orr_node_id id;
        node.parent = i == 1 ? 0 : ORR_NONE;
        node.duration_ns = 4 - (int64_t)i;
        OK(orr_builder_node(b, &node, &id, NULL));
    }
    OK(orr_builder_dep(b, 2, 0, ORR_DEP_DATA, NULL));
    return b;
}

static void test_nodes_are_renumbered(void **state)
{
    (void)state;
    static const uint32_t order[] = {2, 0, 1};
    const orr_graph *g;
    orr_graph_builder *b = three_nodes();
    OK(orr_builder_reorder(b, order, NULL));
    OK(orr_graph_build(b, &g, NULL));
    orr_graph_builder_free(b);
    assert_string_equal(orr_graph_str(g, g->name[2]), "a");
    assert_string_equal(orr_graph_str(g, g->name[0]), "b");
    assert_string_equal(orr_graph_str(g, g->name[1]), "c");
    assert_int_equal(g->start_ns[2], 0);
    assert_int_equal(g->parent[0], 2);
    assert_int_equal(g->parent[1], ORR_NONE);
    assert_int_equal(g->dep_first[1], 0);
    assert_int_equal(g->dep_first[2], 1);
    assert_int_equal(g->dep[0], 2);
    orr_graph_free(g);
}

static void test_what_is_a_permutation(void **state)
{
    (void)state;
    static const uint32_t good[] = {2, 0, 1}, twice[] = {2, 0, 2}, beyond[] = {0, 1, 3};
    assert_true(orr_is_permutation(good, 3));
    assert_true(orr_is_permutation(NULL, 0));
    assert_false(orr_is_permutation(twice, 3));
    assert_false(orr_is_permutation(beyond, 3));
}

static void test_each_failing_allocation(void **state)
{
    (void)state;
    static const uint32_t order[] = {2, 0, 1};
    for (uint64_t nth = 1;; nth++) {
        orr_graph_builder *b = three_nodes();
        orr_alloc_fail_from(nth);
        const orr_status status = orr_builder_reorder(b, order, NULL);
        orr_alloc_fail_from(0);
        orr_graph_builder_free(b);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_are_renumbered),
        cmocka_unit_test(test_what_is_a_permutation),
        cmocka_unit_test(test_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
