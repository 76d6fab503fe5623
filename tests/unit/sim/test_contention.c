/* SPDX-License-Identifier: Apache-2.0 */
#include "toy_cluster.h"

enum { BYTES = 1 << 26 };

/* The network rounds rates to whole units and ends to whole ns: never earlier, and a millionth
 * later. */
#define NEAR(ns, want) assert_in_range((ns), (want), (want) + (want) / 1000000 + 1)

/* Two groups, each of one device of hosts 0 and 1: they share the hosts' links where both are of
 * the same hosts, and share nothing otherwise. */
static toy *two_groups(const uint32_t group_of[8])
{
    toy *t = toy_begin(8);
    const uint32_t dp = toy_grouping(t, "dp", group_of);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 1000, 0);
    toy_meet_bytes(t, -1, 0, dp, 0, ORR_COLL_ALL_REDUCE, BYTES);
    toy_work(t, ORR_WORK_COMPUTE, 1000, 0);
    toy_end_graph(t);
    for (uint32_t r = 0; r < 8; r++)
        if (group_of[r] != ORR_NONE)
            t->graph_of_rank[r] = 0;
    t->options.cluster = toy_cluster();
    t->options.network = ORR_NETWORK_FLOWS;
    t->options.fold = true;
    return t;
}

static void test_alone_a_flow_takes_the_closed_form(void **state)
{
    (void)state;
    const uint32_t x = ORR_NONE;
    toy *t = two_groups((uint32_t[]){0, x, 0, x, 1, x, 1, x});
    const int64_t alone = toy_price_ns((uint32_t[]){0, 2}, 2, ORR_COLL_ALL_REDUCE, BYTES);
    toy_simulate(t);
    assert_int_equal(t->sim.n_classes, 1); /* equal on equal links */
    const int64_t folded_ns = toy_stop(t, 0, 2);
    t->options.fold = false;
    toy_simulate(t);
    assert_int_equal(t->sim.n_classes, 4);
    assert_int_equal(toy_stop(t, 0, 2), folded_ns);
    NEAR(toy_stop(t, 0, 1), 1000 + alone);
    assert_int_equal(toy_stop(t, 6, 1), toy_stop(t, 0, 1));
    assert_int_equal(toy_stop(t, 6, 2), toy_stop(t, 0, 1) + 1000);
    assert_true(t->sim.n_links > 0);
    double bytes = 0;
    for (uint32_t i = 0; i < t->sim.n_links; i++) {
        assert_true(t->sim.links[i].utilisation_frac <= 1 + 1e-9);
        if (t->sim.links[i].level == 1 && t->sim.links[i].up)
            bytes += t->sim.links[i].bytes;
    }
    assert_true(bytes >= 2.0 * BYTES); /* all-reduce of two: each gives and takes S */
    toy_end(t);
}

/* A device sends to two others: what shares its link is later than alone. */
static toy *one_to_two(uint32_t sender, uint32_t x, uint32_t y)
{
    uint32_t group_of[2][8];
    memset(group_of, 0xff, sizeof group_of);
    group_of[0][sender] = group_of[0][x] = group_of[1][sender] = group_of[1][y] = 0;
    toy *t = toy_begin(8);
    const uint32_t a = toy_grouping(t, "a", group_of[0]), b = toy_grouping(t, "b", group_of[1]);
    toy_graph(t);
    toy_meet_bytes(t, -1, 0, a, 0, ORR_COLL_SEND, BYTES);
    toy_meet_bytes(t, -1, 1, b, 0, ORR_COLL_SEND, BYTES);
    toy_end_graph(t);
    for (uint32_t g = 0; g < 2; g++) {
        toy_graph(t);
        toy_meet_bytes(t, -1, 0, g ? b : a, 0, ORR_COLL_RECV, BYTES);
        toy_end_graph(t);
    }
    t->graph_of_rank[sender] = 0;
    t->graph_of_rank[x] = 1;
    t->graph_of_rank[y] = 2;
    t->options.cluster = toy_cluster();
    t->options.network = ORR_NETWORK_FLOWS;
    return t;
}

static void test_flows_that_share_a_link(void **state)
{
    (void)state;
    const uint32_t senders[2] = {0, 6};
    for (int i = 0; i < 2; i++) { /* the sender is the first of its groups, or the last */
        toy *t = one_to_two(senders[i], 2, 4);
        const int64_t alone = toy_price_ns((uint32_t[]){0, 2}, 2, ORR_COLL_SEND, BYTES);
        toy_simulate(t);
        const int64_t shared = toy_stop(t, 2, 0);
        assert_int_equal(shared, toy_stop(t, 4, 0));
        assert_in_range(shared, 2 * alone - alone / 50, 2 * alone + alone / 50);
        bool seen = false; /* sent up from the device, nothing down to it */
        for (uint32_t l = 0; l < t->sim.n_links; l++) {
            if (t->sim.links[l].level != 1 || t->sim.links[l].unit != senders[i])
                continue;
            assert_true(t->sim.links[l].up);
            seen = true;
        }
        assert_true(seen);
        toy_end(t);
    }
}

/* One starts in the very ns in which the other ends: nothing is shared. */
static void test_flows_that_touch(void **state)
{
    (void)state;
    toy *t = one_to_two(0, 2, 4);
    const int64_t alone = toy_price_ns((uint32_t[]){0, 2}, 2, ORR_COLL_SEND, BYTES);
    t->start_ns[4] = 10 * alone;
    toy_simulate(t);
    const int64_t exactly = toy_stop(t, 2, 0);
    NEAR(exactly, alone);
    NEAR(toy_stop(t, 4, 0), 11 * alone);
    t->start_ns[4] = exactly;
    toy_simulate(t);
    assert_int_equal(toy_stop(t, 2, 0), exactly);
    assert_int_equal(toy_stop(t, 4, 0), 2 * exactly);
    t->start_ns[4] = exactly - 1;
    toy_simulate(t);
    assert_true(toy_stop(t, 2, 0) >= exactly);
    assert_true(toy_stop(t, 4, 0) < 2 * exactly);
    toy_end(t);
}

/* A send in which three take part, or that nobody receives, goes nowhere: by closed form. */
static void test_odd_sends(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n += 2) {
        toy *t = toy_begin(n);
        const uint32_t pp = toy_grouping(t, "pp", (uint32_t[]){0, 0, 0});
        toy_graph(t);
        toy_meet_bytes(t, -1, 0, pp, 0, ORR_COLL_SEND, BYTES);
        toy_end_graph(t);
        toy_all_ranks_run(t, 0);
        t->options.cluster = toy_cluster();
        t->options.network = ORR_NETWORK_FLOWS;
        toy_simulate(t);
        assert_int_equal(toy_stop(t, 0, 0),
                         toy_price_ns((uint32_t[]){0, 1, 2}, n, ORR_COLL_SEND, BYTES));
        assert_int_equal(t->sim.n_links, 0);
        toy_end(t);
    }
}

/* With slowdowns: flows slow computation down, and are not slowed. */
static void test_flows_beside_computation(void **state)
{
    (void)state;
    toy *t = toy_begin(2);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 0});
    toy_graph(t);
    toy_meet_bytes(t, -1, 0, dp, 0, ORR_COLL_ALL_REDUCE, BYTES);
    toy_work(t, ORR_WORK_COMPUTE, 1000, 1);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->options.cluster = toy_cluster();
    t->options.network = ORR_NETWORK_FLOWS;
    t->options.compute_slowdown = t->options.comm_slowdown = 2;
    toy_simulate(t);
    NEAR(toy_stop(t, 0, 0), toy_price_ns((uint32_t[]){0, 1}, 2, ORR_COLL_ALL_REDUCE, BYTES));
    assert_int_equal(toy_stop(t, 1, 1), 2000);
    toy_end(t);
}

static void test_every_failed_allocation_is_survived(void **state)
{
    (void)state;
    const uint32_t x = ORR_NONE;
    toy *t = two_groups((uint32_t[]){0, x, 0, x, 0, x, 1, 1});
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    t->options.compute_slowdown = 1.5;
    for (; status != ORR_OK; nth++) {
        orr_alloc_fail_from(nth);
        status = toy_try(t);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    }
    assert_true(nth > 30);
    toy_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_a_flow_takes_the_closed_form),
        cmocka_unit_test(test_flows_that_share_a_link),
        cmocka_unit_test(test_flows_that_touch),
        cmocka_unit_test(test_odd_sends),
        cmocka_unit_test(test_flows_beside_computation),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
