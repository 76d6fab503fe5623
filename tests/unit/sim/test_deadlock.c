/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

/* Folded or not, the ranks that are named are real. */
static void all_fail(toy *t, const char *text)
{
    for (int fold = 0; fold < 2; fold++) {
        t->options.fold = fold;
        assert_int_equal(toy_try(t), ORR_INVALID);
        assert_string_equal(t->err.text, text);
    }
}

/* Two all-reduces on one stream, in another order on each rank. */
static void test_crossed_orders(void **state)
{
    (void)state;
    toy *t = toy_begin(2);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 0});
    for (uint32_t g = 0; g < 2; g++) {
        toy_graph(t);
        toy_work(t, ORR_WORK_COMPUTE, 10, 0);
        toy_communicate(t, 50, 0, dp, g);
        toy_communicate(t, 50, 0, dp, 1 - g);
        toy_work(t, ORR_WORK_COMPUTE, 10, 0);
        toy_end_graph(t);
        t->graph_of_rank[g] = g;
    }
    all_fail(t, "deadlock: rank 0 'n1' (node 1) of group dp waits for rank 1, which waits for "
                "rank 0 at 'n1' (node 1) of group dp");
    toy_end(t);
}

/* Each rank waits for its right neighbour; where there is an onlooker, it waits for the ring. */
static void ring_of_four(bool onlooker)
{
    toy *t = toy_begin(5);
    const uint32_t even = toy_grouping(t, "even", (uint32_t[]){0, 0, 1, 1, ORR_NONE});
    const uint32_t odd = toy_grouping(t, "odd", (uint32_t[]){1, 0, 0, 1, ORR_NONE});
    const uint32_t on = toy_grouping(t, "on", (uint32_t[]){ORR_NONE, ORR_NONE, 0, ORR_NONE, 0});
    for (uint32_t g = 0; g < 2; g++) {
        toy_graph(t);
        toy_communicate(t, 50, 0, g ? odd : even, 0);
        toy_communicate(t, 50, 0, g ? even : odd, 0);
        toy_communicate(t, 50, 0, on, 0);
        toy_end_graph(t);
    }
    toy_graph(t);
    toy_communicate(t, 50, 0, on, 0);
    toy_end_graph(t);
    for (uint32_t r = 0; r < 4; r++)
        t->graph_of_rank[r] = r % 2;
    if (onlooker)
        t->graph_of_rank[4] = 2;
    all_fail(t, "deadlock: rank 0 'n0' (node 0) of group even waits for rank 1, which waits for "
                "rank 2 at 'n0' (node 0) of group odd, which waits for rank 3 at 'n0' (node 0) of "
                "group even, and so on, 4 in all, to rank 0");
    toy_end(t);
}

static void test_a_ring_of_four(void **state)
{
    (void)state;
    ring_of_four(true);
    ring_of_four(false);
}

static void test_points_in_a_circle(void **state)
{
    (void)state;
    toy *t = toy_begin(1);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 10, 0);
    toy_work(t, ORR_WORK_COMPUTE, 10, 0);
    toy_wait(t, 0, 1, 0);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    all_fail(t, "deadlock: rank 0 waits for itself");
    toy_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crossed_orders),
        cmocka_unit_test(test_a_ring_of_four),
        cmocka_unit_test(test_points_in_a_circle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
