/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_fixture.h"

#include "base/alloc.h"

enum { RANKS, STEPS, BREAKDOWN, BASIS, CONSTANTS };

/* A step of 1 ms in which a thread launches a kernel of 300 us and waits for it. */
static const orr_job *waiting_job(void)
{
    rig r = rig_new();
    rig_node(&r, "ProfilerStep#4", ORR_NODE_ANNOTATION, r.host, 0, 500);
    const orr_node_id call = rig_node(&r, "cudaLaunchKernel", ORR_NODE_RUNTIME, r.host, 10, 10);
    const orr_node_id sync =
        rig_node(&r, "cudaDeviceSynchronize", ORR_NODE_RUNTIME, r.host, 30, 300);
    const orr_node_id kernel = rig_node(&r, "sgemm", ORR_NODE_COMPUTE, r.stream, 20, 300);
    rig_node(&r, "aten::item", ORR_NODE_HOST_OP, r.host, 400, 90);
    rig_dep(&r, kernel, call, ORR_DEP_LAUNCH);
    rig_dep(&r, sync, kernel, ORR_DEP_SYNC);
    return rig_job(&r);
}

static void tables_of(replay *r, orr_table ret[ORR_PREDICTION_TABLES])
{
    const orr_prediction input = {
        .recorded = r->job, .simulated = r->simulated, .simulation = &r->simulation};
    orr_error err = {0};
    if (orr_prediction_tables(&input, r->arena, ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
}

static void a_slower_kernel_makes_a_longer_step(void **state)
{
    (void)state;
    replay r = replay_of(waiting_job(), 2);
    orr_table tables[ORR_PREDICTION_TABLES];
    tables_of(&r, tables);

    assert_int_equal(tables[RANKS].n_rows, 1);
    assert_int_equal(replay_int(&tables[RANKS], 0, "recorded_ns"), 480000);
    const int64_t longer_ns = replay_int(&tables[RANKS], 0, "predicted_ns") - 480000;
    assert_in_range(longer_ns, 290000, 310000);

    assert_int_equal(tables[STEPS].n_rows, 1);
    assert_int_equal(replay_int(&tables[STEPS], 0, "predicted_ns") - 500000, longer_ns);
    assert_string_equal(replay_cell(&tables[STEPS], 0, "name").as.text, "ProfilerStep#4");

    assert_int_equal(replay_int(&tables[BREAKDOWN], 0, "recorded_compute_ns"), 300000);
    assert_int_equal(replay_int(&tables[BREAKDOWN], 0, "predicted_compute_ns"), 600000);
    replay_done(&r);
}

static void what_it_rests_on_is_said(void **state)
{
    (void)state;
    replay r = replay_of(waiting_job(), 1);
    orr_table tables[ORR_PREDICTION_TABLES];
    tables_of(&r, tables);
    double sum = 0;
    for (size_t i = 0; i < tables[BASIS].n_rows; i++)
        sum += replay_cell(&tables[BASIS], i, "frac").as.number;
    assert_true(sum > 0.999999 && sum < 1.000001);
    assert_string_equal(replay_cell(&tables[BASIS], 0, "basis").as.text, "recorded");
    assert_int_equal(tables[CONSTANTS].n_rows, 8);
    replay_done(&r);
}

/* A job that was rescaled has no recording of its ranks to stand beside. */
static void of_another_job_nothing_is_recorded(void **state)
{
    (void)state;
    replay r = replay_of(waiting_job(), 1);
    const orr_job *other = small_job();
    const orr_prediction input = {
        .recorded = other, .simulated = r.simulated, .simulation = &r.simulation};
    orr_table tables[ORR_PREDICTION_TABLES];
    assert_int_equal(orr_prediction_tables(&input, r.arena, tables, NULL), ORR_OK);
    assert_int_equal(replay_int(&tables[RANKS], 0, "recorded_ns"), 0);
    assert_true(replay_int(&tables[RANKS], 0, "predicted_ns") > 0);
    orr_job_free(other);
    replay_done(&r);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    replay r = replay_of(waiting_job(), 1);
    const orr_prediction input = {
        .recorded = r.job, .simulated = r.simulated, .simulation = &r.simulation};
    for (uint64_t nth = 1;; nth++) {
        orr_arena *arena = orr_arena_new(64, 0);
        orr_table tables[ORR_PREDICTION_TABLES];
        orr_alloc_fail_from(nth);
        const orr_status status = orr_prediction_tables(&input, arena, tables, NULL);
        orr_alloc_fail_from(0);
        orr_arena_free(arena);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(nth < 10000);
    }
    replay_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slower_kernel_makes_a_longer_step),
        cmocka_unit_test(what_it_rests_on_is_said),
        cmocka_unit_test(of_another_job_nothing_is_recorded),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
