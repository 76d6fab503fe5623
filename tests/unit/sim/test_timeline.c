/* SPDX-License-Identifier: Apache-2.0 */
#include "toy_cluster.h"

#include <math.h>

/* Busy is the union over streams; the span is that of the whole simulation. */
static void test_energy(void **state)
{
    (void)state;
    toy *t = toy_begin(2);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 1000, 0);
    toy_work(t, ORR_WORK_MEMORY, 500, 1); /* in the shade of the first */
    t->floors[2] = 100;
    toy_work(t, ORR_WORK_MEMORY, 200, 1);
    t->floors[4] = 1100;
    toy_work(t, ORR_WORK_HOST, 5000, 2); /* on no device */
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    t->start_ns[1] = 1000;
    toy_simulate(t);
    assert_true(isnan(t->sim.timelines[0].energy_j));
    t->options.cluster = toy_cluster();
    toy_simulate(t);
    assert_int_equal(t->sim.end_ns, 6000);
    for (uint32_t r = 0; r < 2; r++) /* 1.2 us at 400 W, 4.8 us at 100 W */
        assert_true(fabs(toy_of(t, r)->energy_j - 1e-9 * (400 * 1200 + 100 * 4800)) < 1e-12);
    orr_device unknown = *toy_cluster()->device;
    orr_cluster cluster = *toy_cluster();
    unknown.idle_power_w = (orr_fact){.value = NAN};
    cluster.device = &unknown;
    t->options.cluster = &cluster;
    toy_simulate(t);
    assert_true(fabs(toy_of(t, 0)->energy_j - 1e-9 * (400 * 1200 + 60 * 4800)) < 1e-12);
    unknown.power_w = (orr_fact){.value = NAN};
    t->options.device = &unknown; /* before the cluster's */
    t->options.cluster = toy_cluster();
    toy_simulate(t);
    assert_true(isnan(t->sim.timelines[0].energy_j));
    toy_end(t);
}

/* Sums over all ranks of a class; of a meeting the transfer without the wait. */
static void test_sums_by_basis(void **state)
{
    (void)state;
    for (int fold = 0; fold < 2; fold++) {
        toy *t = toy_begin(4);
        const uint32_t dp = toy_grouping(t, "dp", (uint32_t[]){0, 0, 1, 1});
        for (uint32_t g = 0; g < 2; g++) {
            toy_graph(t);
            toy_work(t, ORR_WORK_COMPUTE, g ? 300 : 100, 0);
            toy_communicate(t, 50, 0, dp, 0);
            toy_communicate(t, -1, 0, dp, 1);
            toy_end_graph(t);
        }
        for (uint32_t r = 0; r < 4; r++)
            t->graph_of_rank[r] = r % 2;
        const uint8_t basis0[3] = {ORR_BASIS_TABLE, ORR_BASIS_RECORDED, ORR_BASIS_NONE};
        const uint8_t *basis[2] = {basis0, NULL};
        t->ensemble.basis = basis;
        t->options.cluster = toy_cluster();
        t->options.fold = fold;
        toy_simulate(t);
        assert_int_equal(t->sim.n_classes, fold ? 2 : 4);
        const int64_t price = toy_price_ns((uint32_t[]){0, 1}, 2, ORR_COLL_ALL_REDUCE, 1 << 20);
        assert_int_equal(t->sim.basis_ns[ORR_BASIS_TABLE], 2 * 100);
        assert_int_equal(t->sim.basis_ns[ORR_BASIS_RECORDED], 2 * 300 + 4 * 50);
        assert_int_equal(t->sim.basis_ns[ORR_BASIS_ASSUMED] + t->sim.basis_ns[ORR_BASIS_FITTED],
                         4 * price);
        assert_int_equal(t->sim.basis_ns[ORR_BASIS_NONE], 0);
        toy_end(t);
    }
}

/* A name for a stretch of the step is no work: it does not stretch the simulation. */
static void test_begin_and_end_are_of_what_executes(void **state)
{
    (void)state;
    toy *t = toy_begin(1);
    toy_graph(t);
    toy_work(t, ORR_WORK_COMPUTE, 1000, 0);
    toy_work(t, ORR_WORK_COMPUTE, 100, 1);
    t->floors[2] = 50;
    toy_end_graph(t);
    toy_all_ranks_run(t, 0);
    ((uint8_t *)t->graphs[0]->kind)[0] = ORR_NODE_DEVICE_ANNOTATION;
    ((orr_point_id *)t->programs[0].start_point)[1] = ORR_NONE;
    toy_simulate(t);
    assert_int_equal(toy_start(t, 0, 1), ORR_TIME_NONE);
    assert_int_equal(t->sim.begin_ns, 0); /* nothing executes */
    assert_int_equal(t->sim.end_ns, 0);
    ((orr_point_id *)t->programs[0].start_point)[1] = 2;
    toy_simulate(t);
    assert_int_equal(t->sim.begin_ns, 50);
    assert_int_equal(t->sim.end_ns, 150);
    toy_end(t);
}

static void test_nobody_plays(void **state)
{
    (void)state;
    toy *t = toy_begin(3);
    toy_grouping(t, "dp", (uint32_t[]){0, 0, ORR_NONE});
    for (int fold = 0; fold < 2; fold++) {
        t->options.fold = fold;
        toy_simulate(t);
        assert_int_equal(t->sim.n_classes, 0);
        assert_int_equal(t->sim.class_of_rank[1], ORR_NONE);
        assert_int_equal(t->sim.end_ns, 0);
    }
    toy_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_energy),
        cmocka_unit_test(test_sums_by_basis),
        cmocka_unit_test(test_begin_and_end_are_of_what_executes),
        cmocka_unit_test(test_nobody_plays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
