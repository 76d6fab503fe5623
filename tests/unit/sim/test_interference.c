/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

/* Computation at 2/3, communication at 1/2 while the other runs on the device. */
static toy *halves(uint32_t n_ranks)
{
    toy *t = toy_begin(n_ranks);
    t->options.compute_slowdown = 1.5;
    t->options.comm_slowdown = 2;
    return t;
}

static void test_two_that_overlap(void **state)
{
    (void)state;
    toy *t = halves(1);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 100, 0);
    toy_work(t, ORR_WORK_COMM, 100, 1);
    t->floors[2] = 40;
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    toy_simulate(t);
    /* 40 alone; the other 60 take 90, in which 45 of the 100 pass; the last 55 alone */
    assert_int_equal(toy_stop(t, 0, 0), 130);
    assert_int_equal(toy_stop(t, 0, 1), 185);
    toy_end(t);
}

/* Copies, communication on threads and other devices disturb nobody. */
static void test_who_is_not_disturbed(void **state)
{
    (void)state;
    toy *t = halves(1);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 100, 0);
    toy_work(t, ORR_WORK_MEMORY, 100, 1);
    toy_work(t, ORR_WORK_HOST, 100, 2);
    toy_work(t, ORR_WORK_COMM, 100, 3);
    t->works[3].device = 1;
    toy_work(t, ORR_WORK_COMPUTE, 100, 4);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    toy_simulate(t);
    for (uint32_t v = 0; v < 5; v++)
        assert_int_equal(toy_stop(t, 0, v), 100);
    toy_end(t);
}

/* A collective goes at the pace of its slowest member, and slows computation on each of its devices
 * down; it does so from its last arrival on. */
static void test_a_collective_across_devices(void **state)
{
    (void)state;
    toy *t = halves(2);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 0});
    for (uint32_t g = 0; g < 2; g++) {
        toy_graph(t);
        toy_communicate(t, 100, 0, dp, 0);
        t->floors[0] = g == 0 ? 0 : 50;
        toy_work(t, ORR_WORK_COMPUTE, g == 0 ? 100 : 10, 1);
        toy_end_graph(t);
        t->graph_of_rank[g] = g;
    }
    toy_simulate(t);
    /* rank 1 computes until 10; rank 0 until 50 alone, then 50 in 75, the transfer half of that */
    assert_int_equal(toy_stop(t, 1, 1), 10);
    assert_int_equal(toy_stop(t, 0, 1), 125);
    assert_int_equal(toy_stop(t, 0, 0), 188); /* 37.5 done by 125: 62.5 more, rounded up */
    assert_int_equal(toy_stop(t, 1, 0), 188);
    toy_end(t);
}

/* Three computations one after the other in the shade of one transfer, and two side by side. */
static void test_several_at_once(void **state)
{
    (void)state;
    toy *t = halves(1);
    toy_graph(t);
    for (int i = 0; i < 3; i++)
        toy_work(t, ORR_WORK_COMPUTE, 20, 0);
    toy_work(t, ORR_WORK_COMPUTE, 40, 1);
    toy_work(t, ORR_WORK_COMM, 200, 2);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    toy_simulate(t);
    assert_int_equal(toy_stop(t, 0, 0), 30);
    assert_int_equal(toy_stop(t, 0, 2), 90);
    assert_int_equal(toy_stop(t, 0, 3), 60);
    assert_int_equal(toy_stop(t, 0, 4), 90 + 155);
    toy_end(t);
}

/* Durations that no 64-bit number of units could hold. */
static void test_very_long_works(void **state)
{
    (void)state;
    const int64_t year_ns = INT64_C(365) * 86400 * 1000000000;
    toy *t = halves(1);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 2 * year_ns, 0);
    toy_work(t, ORR_WORK_COMM, 10 * year_ns, 1);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    toy_simulate(t);
    assert_int_equal(toy_stop(t, 0, 0), 3 * year_ns);
    assert_int_equal(toy_stop(t, 0, 1), 10 * year_ns + year_ns / 2 * 3);
    toy_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_that_overlap),
        cmocka_unit_test(test_who_is_not_disturbed),
        cmocka_unit_test(test_a_collective_across_devices),
        cmocka_unit_test(test_several_at_once),
        cmocka_unit_test(test_very_long_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
