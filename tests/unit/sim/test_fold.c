/* SPDX-License-Identifier: Apache-2.0 */
#include "toy_cluster.h"

/* 4 x 4: rank = replica * 4 + shard. */
static toy *square(int64_t duration_ns)
{
    toy *t = toy_begin(16);
    uint32_t rows[16], columns[16];
    for (uint32_t r = 0; r < 16; r++) {
        rows[r] = r / 4;
        columns[r] = r % 4;
    }
    const uint32_t tp = toy_grouping(t, "tp", rows), dp = toy_grouping(t, "dp", columns);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 100, 0);
    toy_communicate(t, duration_ns, 0, tp, 0);
    toy_work(t, ORR_WORK_COMPUTE, 100, 0);
    toy_communicate(t, duration_ns, 0, dp, 0);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->options.fold = true;
    return t;
}

static void test_all_alike(void **state)
{
    (void)state;
    toy *t = square(50);
    toy_simulate(t);
    assert_int_equal(t->sim.n_classes, 1);
    assert_int_equal(t->sim.timelines[0].n_ranks, 16);
    assert_int_equal(t->sim.n_events, 8);
    assert_int_equal(t->sim.end_ns, 300);
    toy_end(t);
}

/* The straggler, those of its row, those of its column, and the rest. */
static void test_a_straggler_splits_what_it_touches(void **state)
{
    (void)state;
    toy *t = square(50);
    t->slowdown_ppm[6] = 1500000;
    toy_simulate(t);
    assert_int_equal(t->sim.n_classes, 4);
    static const uint32_t class_of[16] = {0, 0, 1, 0, 2, 2, 3, 2, 0, 0, 1, 0, 0, 0, 1, 0};
    static const uint32_t n_ranks[4] = {9, 3, 3, 1}, first[4] = {0, 2, 4, 6};
    assert_memory_equal(t->sim.class_of_rank, class_of, sizeof class_of);
    for (uint32_t c = 0; c < 4; c++) {
        assert_int_equal(t->sim.timelines[c].n_ranks, n_ranks[c]);
        assert_int_equal(t->sim.timelines[c].rank, first[c]);
    }
    assert_int_equal(toy_stop(t, 6, 0), 150);
    assert_int_equal(toy_start(t, 5, 1), 100);
    assert_int_equal(toy_stop(t, 5, 1), 200); /* waited in the row         */
    assert_int_equal(toy_stop(t, 2, 3), 400); /* waited in the column      */
    assert_int_equal(toy_stop(t, 0, 3), 350); /* in column 0 of row 1, late */
    toy_end(t);
}

/* A grouping in which nobody communicates ties nobody. */
static void test_silent_groupings_do_not_matter(void **state)
{
    (void)state;
    toy *t = square(50);
    uint32_t by_one[16];
    for (uint32_t r = 0; r < 16; r++)
        by_one[r] = r % 3;
    toy_grouping(t, "silent", by_one);
    toy_simulate(t);
    assert_int_equal(t->sim.n_classes, 1);
    toy_end(t);
}

/* Pairs within a host and pairs across hosts are as fast as recorded, but not as fast as priced. */
static void test_places_matter_only_to_prices(void **state)
{
    (void)state;
    toy *t = toy_begin(8);
    const uint32_t pair = toy_grouping(t, "pair", (uint32_t[]){0, 0, 1, 2, 1, 2, 3, 3});
    toy_graph(t);
    toy_communicate(t, 50, 0, pair, 0);
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->options.fold = true;
    t->options.cluster = toy_cluster();
    toy_simulate(t);
    assert_int_equal(t->sim.n_classes, 1);
    ((orr_sim_work *)t->programs[0].works)[0].duration_ns = -1;
    toy_simulate(t);
    assert_int_equal(t->sim.n_classes, 2);
    assert_int_equal(t->sim.timelines[0].n_ranks, 4);
    assert_int_equal(toy_stop(t, 7, 0),
                     toy_price_ns((uint32_t[]){6, 7}, 2, ORR_COLL_ALL_REDUCE, 1 << 20));
    assert_int_equal(toy_stop(t, 3, 0),
                     toy_price_ns((uint32_t[]){3, 5}, 2, ORR_COLL_ALL_REDUCE, 1 << 20));
    assert_true(toy_stop(t, 3, 0) > toy_stop(t, 7, 0));
    toy_end(t);
}

static void test_starts_and_missing_ranks(void **state)
{
    (void)state;
    toy *t = square(50);
    t->start_ns[0] = 10;
    t->graph_of_rank[15] = ORR_NONE;
    toy_simulate(t);
    assert_int_equal(t->sim.class_of_rank[15], ORR_NONE);
    /* apart: 0; its row; its column; of the missing one the row, and the column twice; the rest */
    assert_int_equal(t->sim.class_of_rank[5], t->sim.class_of_rank[10]);
    assert_int_not_equal(t->sim.class_of_rank[5], t->sim.class_of_rank[7]);
    assert_int_not_equal(t->sim.class_of_rank[0], t->sim.class_of_rank[1]);
    toy_end(t);
}

static void test_every_failed_allocation_is_survived(void **state)
{
    (void)state;
    toy *t = square(-1);
    t->options.cluster = NULL;
    t->slowdown_ppm[6] = 1500000;
    for (int mode = 0; mode < 4; mode++) {
        orr_status status = ORR_NO_MEMORY;
        uint64_t nth = 1;
        t->ensemble.rendezvous = mode == 0 ? NULL : t->rendezvous;
        t->options.fold = mode != 2;
        t->options.compute_slowdown = mode == 3 ? 1.5 : 1;
        for (uint32_t w = 0; w < 4; w++)
            if (w % 2)
                ((orr_sim_work *)t->programs[0].works)[w].duration_ns = 50;
        for (; status != ORR_OK; nth++) {
            orr_alloc_fail_from(nth);
            status = toy_try(t);
            orr_alloc_fail_from(0);
            assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        }
        assert_true(nth > 15);
    }
    toy_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_alike),
        cmocka_unit_test(test_a_straggler_splits_what_it_touches),
        cmocka_unit_test(test_silent_groupings_do_not_matter),
        cmocka_unit_test(test_places_matter_only_to_prices),
        cmocka_unit_test(test_starts_and_missing_ranks),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
