/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

/* A meeting starts when its last member arrives and takes the shortest duration given. */
static void test_a_meeting_waits_for_the_last(void **state)
{
    (void)state;
    toy *t = toy_begin(2);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 0});
    for (int64_t g = 0; g < 2; g++) {
        toy_graph(t);
        toy_work(t, ORR_WORK_COMPUTE, g == 0 ? 100 : 300, 0);
        const uint32_t meet = toy_communicate(t, g == 0 ? 50 : 40, 1, dp, 7);
        toy_wait(t, meet, 0, 5);
        toy_wait(t, toy_work(t, ORR_WORK_COMPUTE, 10, 0), meet, 0);
        toy_end_graph(t);
        t->graph_of_rank[g] = (uint32_t)g;
    }
    toy_simulate(t);
    assert_int_equal(toy_start(t, 0, 1), 105);
    assert_int_equal(toy_start(t, 1, 1), 305);
    assert_int_equal(toy_stop(t, 0, 1), 345);
    assert_int_equal(toy_stop(t, 1, 1), 345);
    assert_int_equal(toy_start(t, 0, 2), 345);
    assert_int_equal(t->sim.begin_ns, 0);
    assert_int_equal(t->sim.end_ns, 355);
    assert_int_equal(t->sim.n_events, 12);
    toy_end(t);
}

/* Ranks of other groups, ranks without a graph and groups of one keep nobody waiting. */
static void test_only_members_are_waited_for(void **state)
{
    (void)state;
    toy *t = toy_begin(5);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 0, 1, 1, ORR_NONE});
    toy_graph(t);
    toy_communicate(t, 50, 0, dp, 0);
    toy_end_graph(t);
    for (uint32_t r = 0; r < 5; r++) {
        t->graph_of_rank[r] = r == 2 ? ORR_NONE : 0;
        t->start_ns[r] = 1000 * r;
    }
    toy_simulate(t);
    assert_int_equal(toy_stop(t, 0, 0), 1050);
    assert_int_equal(toy_stop(t, 1, 0), 1050);
    assert_int_equal(t->sim.class_of_rank[2], ORR_NONE);
    assert_int_equal(toy_stop(t, 3, 0), 3050);
    assert_int_equal(toy_stop(t, 4, 0), 4050);
    assert_int_equal(t->sim.begin_ns, 0);
    assert_int_equal(t->sim.end_ns, 4050);
    toy_end(t);
}

static void test_a_slow_rank_takes_longer_on_its_device(void **state)
{
    (void)state;
    toy *t = toy_begin(2);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 1001, 0);
    toy_work(t, ORR_WORK_MEMORY, 1000, 0);
    toy_work(t, ORR_WORK_COMM, 1000, 0);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->slowdown_ppm[1] = 1200000;
    toy_simulate(t);
    assert_int_equal(toy_stop(t, 0, 2), 3001);
    assert_int_equal(toy_stop(t, 1, 0), 1201); /* 1201.2 */
    assert_int_equal(toy_stop(t, 1, 1), 2401);
    assert_int_equal(toy_stop(t, 1, 2), 3401);
    toy_end(t);
}

static void test_floors_and_host_time(void **state)
{
    (void)state;
    toy *t = toy_begin(1);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 10, 0);
    toy_work(t, ORR_WORK_COMPUTE, 10, 1);
    toy_link_points(t, 1, 2, 101, true); /* host time from the end of 0 */
    toy_work(t, ORR_WORK_COMPUTE, 10, 2);
    t->floors[4] = 7;
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->start_ns[0] = 500;
    t->options.host_speed = 2;
    toy_simulate(t);
    assert_int_equal(toy_start(t, 0, 0), 500);
    assert_int_equal(toy_start(t, 0, 1), 510 + 51); /* half up */
    assert_int_equal(toy_start(t, 0, 2), 507);
    toy_end(t);
}

static void test_the_end_of_time_is_an_error(void **state)
{
    (void)state;
    toy *t = toy_begin(1);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, INT64_MAX / 2 + 1, 0);
    toy_work(t, ORR_WORK_COMPUTE, INT64_MAX / 2 + 1, 0);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    assert_int_equal(toy_try(t), ORR_LIMIT);
    assert_string_equal(t->err.text, "rank 0, node 1 'n1': beyond 2^63 ns");
    toy_end(t);
}

/* The bubble of a pipeline, forward only: S stages and M micro-batches take M + S - 1 slots.
 * Source: Huang et al., "GPipe", NeurIPS 2019: a bubble of (S - 1) / (M + S - 1). */
static void test_a_pipeline_has_its_bubble(void **state)
{
    (void)state;
    enum { STAGES = 4, MICRO = 6, SLOT_NS = 100 };
    toy *t = toy_begin(STAGES);
    const uint32_t pp = toy_grouping(t, "pp", (uint32_t[]){0, 0, 0, 0});
    for (uint32_t s = 0; s < STAGES; s++) {
        toy_graph(t);
        for (uint32_t m = 0; m < MICRO; m++) {
            const uint32_t receive =
                s > 0 ? toy_communicate(t, 0, 1, pp, (s - 1) * MICRO + m) : ORR_NONE;
            const uint32_t forward = toy_work(t, ORR_WORK_COMPUTE, SLOT_NS, 0);
            if (receive != ORR_NONE)
                toy_wait(t, forward, receive, 0);
            if (s + 1 < STAGES)
                toy_wait(t, toy_communicate(t, 0, 2, pp, s * MICRO + m), forward, 0);
        }
        toy_end_graph(t);
        t->graph_of_rank[s] = s;
    }
    for (int overlap = 0; overlap < 2; overlap++) {
        t->options.compute_slowdown = overlap ? 3 : 1; /* transfers of no length slow nobody */
        toy_simulate(t);
        assert_int_equal(t->sim.end_ns, (MICRO + STAGES - 1) * SLOT_NS);
        assert_int_equal(toy_of(t, STAGES - 1)->end_ns, t->sim.end_ns);
        assert_int_equal(toy_start(t, STAGES - 1, 1), (STAGES - 1) * SLOT_NS);
    }
    toy_end(t);
}

/* Three ranks that come to a collective on threads at 0, 100 and 300, with their recorded lengths;
 * the last one comes `later_ns` later than recorded. */
static toy *meet_on_threads(orr_collective collective, const int64_t duration_ns[3],
                            int64_t later_ns)
{
    toy *t = toy_begin(3);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 0, 0});
    for (uint32_t r = 0; r < 3; r++) {
        toy_graph(t);
        const uint32_t meet =
            toy_meet_bytes(t, duration_ns[r], 0, dp, 0, collective, INT64_C(1) << 20);
        t->works[meet].work_class = ORR_WORK_HOST;
        t->works[meet].device = -1;
        t->floors[0] = r == 2 ? later_ns : 0;
        toy_end_graph(t);
        t->graph_of_rank[r] = r;
        t->start_ns[r] = r == 0 ? 0 : r == 1 ? 100 : 300;
    }
    toy_simulate(t);
    return t;
}

static void expect_ends(toy *t, int64_t a, int64_t b, int64_t c)
{
    assert_int_equal(toy_stop(t, 0, 0), a);
    assert_int_equal(toy_stop(t, 1, 0), b);
    assert_int_equal(toy_stop(t, 2, 0), c);
    toy_end(t);
}

/* All had come at 300, and the shortest call took 40: what others took after 340 is their own,
 * however late the last one comes. */
static void test_what_a_rank_takes_after_all_came_is_its_own(void **state)
{
    (void)state;
    const int64_t lengths[] = {345, 305, 40}, slower[] = {345, 355, 40};
    expect_ends(meet_on_threads(ORR_COLL_ALL_REDUCE, lengths, 0), 345, 405, 340);
    expect_ends(meet_on_threads(ORR_COLL_ALL_REDUCE, slower, 0), 345, 455, 340);
    expect_ends(meet_on_threads(ORR_COLL_ALL_REDUCE, lengths, 200), 545, 605, 540);
}

/* A member that ended before all had come shows that clocks differ; in an all-to-all it was sent
 * nothing by the last. */
static void test_a_member_that_did_not_wait(void **state)
{
    (void)state;
    const int64_t lengths[] = {250, 305, 40};
    expect_ends(meet_on_threads(ORR_COLL_ALL_REDUCE, lengths, 0), 340, 340, 340);
    expect_ends(meet_on_threads(ORR_COLL_ALL_TO_ALL, lengths, 0), 340, 405, 340);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_meeting_waits_for_the_last),
        cmocka_unit_test(test_only_members_are_waited_for),
        cmocka_unit_test(test_what_a_rank_takes_after_all_came_is_its_own),
        cmocka_unit_test(test_a_member_that_did_not_wait),
        cmocka_unit_test(test_a_slow_rank_takes_longer_on_its_device),
        cmocka_unit_test(test_floors_and_host_time),
        cmocka_unit_test(test_a_pipeline_has_its_bubble),
        cmocka_unit_test(test_the_end_of_time_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
