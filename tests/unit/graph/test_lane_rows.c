/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/lane_rows.h"

#include "graphs.h"

static void same_row(const orr_graph *g, uint32_t l, const orr_node_id *want, uint32_t n)
{
    assert_int_equal(g->lane_first[l + 1] - g->lane_first[l], n);
    assert_memory_equal(g->lane_node + g->lane_first[l], want, n * sizeof *want);
}

static void test_start_then_longer_then_id(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    node(b, "short", 10, 1, ORR_NONE);
    node(b, "long", 10, 5, ORR_NONE);
    node(b, "before", 3, 1, ORR_NONE);
    node(b, "twin", 10, 1, ORR_NONE);
    node(b, "no time", ORR_TIME_NONE, 0, ORR_NONE);
    const orr_node_id other = node(b, "elsewhere", 4, 1, ORR_NONE);
    b->lane[other] = (uint16_t)lane(b, ORR_LANE_HOST, 8);
    const orr_graph *g = built(b);
    same_row(g, 0, (const orr_node_id[]){4, 2, 1, 0, 3}, 5);
    same_row(g, 1, &other, 1);
    orr_graph_free(g);
}

static uint32_t random_number(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

/* Orders that exercise the merge: random, reversed, sorted, sawtooth; sizes around a block. */
static int64_t start_in(int shape, uint32_t i, uint32_t n, uint64_t *seed)
{
    switch (shape) {
    case 0:
        return random_number(seed) % (n + 1);
    case 1:
        return n - i;
    case 2:
        return i;
    default:
        return i % 37;
    }
}

static void test_any_order_is_sorted(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 100, 1000};
    uint64_t seed = 7;
    for (int shape = 0; shape < 4; shape++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            orr_graph_builder *b = new_builder();
            for (uint32_t i = 0; i < sizes[s]; i++)
                node(b, "x", start_in(shape, i, sizes[s], &seed), random_number(&seed) % 3,
                     ORR_NONE);
            const orr_graph *g = built(b);
            const orr_lane_columns c = {g->n_nodes, 1, g->lane, g->start_ns, g->duration_ns};
            const orr_lane_rows rows = {(uint32_t *)g->lane_first, (orr_node_id *)g->lane_node};
            assert_int_equal(g->lane_first[1], sizes[s]);
            for (uint32_t i = 1; i < sizes[s]; i++) {
                const orr_node_id u = g->lane_node[i - 1], v = g->lane_node[i];
                assert_true(g->start_ns[u] < g->start_ns[v] ||
                            (g->start_ns[u] == g->start_ns[v] &&
                             (g->duration_ns[u] > g->duration_ns[v] ||
                              (g->duration_ns[u] == g->duration_ns[v] && u < v))));
            }
            assert_true(orr_lane_rows_valid(&rows, &c));
            orr_graph_free(g);
        }
    }
}

static void test_build_sees_that_rows_no_longer_hold(void **state)
{
    (void)state;
    enum { SAME, TIME, LANE, MORE };
    for (int change = SAME; change <= MORE; change++) {
        orr_graph_builder *b = new_builder();
        const uint32_t other = lane(b, ORR_LANE_HOST, 8);
        for (int64_t i = 0; i < 4; i++)
            node(b, "x", i, 1, ORR_NONE);
        OK(orr_builder_sort_lanes(b, NULL));
        const orr_node_id *rows = b->lane_rows.node;
        if (change == TIME)
            b->start_ns[3] = -1;
        if (change == LANE)
            b->lane[1] = (uint16_t)other;
        if (change == MORE)
            node(b, "late", -9, 1, ORR_NONE);
        const orr_graph *g = built(b);
        switch (change) {
        case SAME:
            assert_ptr_equal(g->lane_node, rows);
            break;
        case TIME:
            same_row(g, 0, (const orr_node_id[]){3, 0, 1, 2}, 4);
            break;
        case LANE:
            same_row(g, 0, (const orr_node_id[]){0, 2, 3}, 3);
            break;
        default:
            same_row(g, 0, (const orr_node_id[]){4, 0, 1, 2, 3}, 5);
            break;
        }
        orr_graph_free(g);
    }
}

static void test_lane_that_does_not_exist(void **state)
{
    (void)state;
    orr_error err;
    orr_graph_builder *b = new_builder();
    node(b, "x", 0, 1, ORR_NONE);
    b->lane[0] = 1;
    assert_int_equal(orr_builder_sort_lanes(b, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "node 0"));
    must_not_build(b, ORR_INVALID, &err);
    assert_non_null(strstr(err.text, "lane 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_then_longer_then_id),
        cmocka_unit_test(test_any_order_is_sorted),
        cmocka_unit_test(test_build_sees_that_rows_no_longer_hold),
        cmocka_unit_test(test_lane_that_does_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
