/* SPDX-License-Identifier: Apache-2.0 */
#include "toy_cluster.h"

#include "cost/collective/transfer.h"

/* Who asks is priced by the members that meet, wherever they lie. */
static void test_meetings_are_priced(void **state)
{
    (void)state;
    toy *t = toy_begin(8);
    const uint32_t tp = toy_grouping(t, "tp", (uint32_t[]){0, 0, 1, 1, 2, 2, 3, 3});
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 1, 0, 1, 0, 1, 0, 1});
    toy_graph(t);
    toy_communicate(t, -1, 0, tp, 0);
    toy_meet_bytes(t, -1, 0, dp, 0, ORR_COLL_ALL_GATHER, 1 << 22);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->options.cluster = toy_cluster();
    const int64_t in_host = toy_price_ns((uint32_t[]){0, 1}, 2, ORR_COLL_ALL_REDUCE, 1 << 20);
    const int64_t across = toy_price_ns((uint32_t[]){1, 3, 5, 7}, 4, ORR_COLL_ALL_GATHER, 1 << 22);
    assert_true(in_host > 1000 && across > 5000);
    for (int fold = 0; fold < 2; fold++) {
        t->options.fold = fold;
        toy_simulate(t);
        assert_int_equal(t->sim.n_classes, fold ? 1 : 8);
        for (uint32_t r = 0; r < 8; r++) {
            assert_int_equal(toy_stop(t, r, 0), in_host);
            assert_int_equal(toy_stop(t, r, 1), in_host + across);
        }
    }
    toy_end(t);
}

/* Of a group of three, whose two last exchange something: the price is of two. */
static void test_only_those_that_meet_are_priced(void **state)
{
    (void)state;
    toy *t = toy_begin(3);
    const uint32_t pp = toy_grouping(t, "pp", (uint32_t[]){0, 0, 0});
    for (uint32_t g = 0; g < 3; g++) {
        toy_graph(t);
        if (g > 0)
            toy_meet_bytes(t, -1, 0, pp, 5, g == 1 ? ORR_COLL_SEND : ORR_COLL_RECV, 1 << 20);
        else
            toy_work(t, ORR_WORK_COMPUTE, 1, 0);
        toy_end_graph(t);
        t->graph_of_rank[g] = g;
    }
    t->options.cluster = toy_cluster();
    toy_simulate(t);
    const int64_t ns = toy_price_ns((uint32_t[]){1, 2}, 2, ORR_COLL_SEND, 1 << 20);
    assert_true(ns > 100000); /* at 10 GB/s: they are in different hosts */
    assert_int_equal(toy_stop(t, 1, 0), ns);
    assert_int_equal(toy_stop(t, 2, 0), ns);
    toy_end(t);
}

/* What was recorded holds in every mode; with flows it may take longer, of unknown bytes not. */
static void test_what_was_recorded_holds(void **state)
{
    (void)state;
    toy *t = toy_begin(2);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 0});
    toy_graph(t);
    toy_communicate(t, 77, 0, dp, 0);
    toy_meet_bytes(t, 77, 1, dp, 1, ORR_COLL_ALL_REDUCE, -1);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->options.cluster = toy_cluster();
    toy_simulate(t);
    assert_int_equal(toy_stop(t, 0, 0), 77);
    t->options.network = ORR_NETWORK_ALPHA_BETA;
    toy_simulate(t);
    assert_int_equal(toy_stop(t, 0, 0), 77);
    t->options.network = ORR_NETWORK_FLOWS;
    toy_simulate(t);
    assert_in_range(toy_stop(t, 0, 0), 77, 78); /* flows round up to whole ns */
    assert_int_equal(toy_stop(t, 0, 1), 77);
    assert_true(t->sim.n_links > 0);
    toy_end(t);
}

/* Partners outside the ensemble: as many devices as the recorded group has. */
static void test_a_group_that_was_not_recorded(void **state)
{
    (void)state;
    toy *t = toy_begin(1);
    toy_graph(t);
    toy_communicate(t, -1, 0, ORR_NONE, 0);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->options.cluster = toy_cluster();
    ((orr_comm *)t->graphs[0]->comms)[0].group_size = 4;
    toy_simulate(t);
    assert_int_equal(toy_stop(t, 0, 0),
                     toy_price_ns((uint32_t[]){0, 1, 2, 3}, 4, ORR_COLL_ALL_REDUCE, 1 << 20));
    ((orr_comm *)t->graphs[0]->comms)[0].group_size = 9;
    assert_int_equal(toy_try(t), ORR_INVALID);
    assert_string_equal(t->err.text, "a group of 9 ranks: cluster 'toy' has 8 devices");
    toy_end(t);
}

static void test_what_cannot_be_priced(void **state)
{
    (void)state;
    toy *t = toy_begin(9);
    const uint32_t dp = toy_grouping(t, "dp", (uint32_t[9]){0});
    toy_graph(t);
    toy_communicate(t, -1, 0, dp, 0);
    toy_end_graph(t);
    toy_graph(t);
    toy_meet_bytes(t, -1, 0, dp, 0, ORR_COLL_ALL_REDUCE, -1);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    assert_int_equal(toy_try(t), ORR_INVALID);
    assert_string_equal(t->err.text, "'n0' (node 0) has no duration, and there is no cluster to "
                                     "price it on");
    t->options.cluster = toy_cluster();
    assert_int_equal(toy_try(t), ORR_INVALID);
    assert_string_equal(t->err.text, "9 ranks: cluster 'toy' has 8 devices");
    t->ensemble.n_ranks = 8;
    t->groupings[dp].first = (uint32_t[]){0, 8};
    toy_all_ranks_run(t, 1);
    assert_int_equal(toy_try(t), ORR_INVALID);
    assert_string_equal(t->err.text, "'n0' (node 0) has no duration, and neither its kind nor its "
                                     "bytes are known");
    toy_end(t);
}

static void test_joining(void **state)
{
    (void)state;
    const orr_comm gives = {
        .collective = ORR_COLL_RECV, .root = -1, .in_bytes = -1, .out_bytes = 9};
    const orr_comm barrier = {
        .collective = ORR_COLL_BARRIER, .root = 2, .in_bytes = -1, .out_bytes = -1};
    const orr_transfer a = orr_transfer_of(&gives), b = orr_transfer_of(&barrier);
    assert_int_equal(a.collective, ORR_COLL_SEND);
    assert_int_equal(a.bytes, 9);
    assert_int_equal(b.bytes, 0);
    const orr_transfer c = orr_transfer_join(a, b);
    assert_int_equal(c.collective, ORR_COLL_SEND);
    assert_int_equal(c.bytes, 9);
    assert_int_equal(c.root, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meetings_are_priced),
        cmocka_unit_test(test_only_those_that_meet_are_priced),
        cmocka_unit_test(test_what_was_recorded_holds),
        cmocka_unit_test(test_a_group_that_was_not_recorded),
        cmocka_unit_test(test_what_cannot_be_priced),
        cmocka_unit_test(test_joining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
