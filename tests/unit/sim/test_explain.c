/* SPDX-License-Identifier: Apache-2.0 */
#include "replayed.h"

#include "sim/validation/validation.h"

/* One rank:
 *   host    |op |call||call|    |--sync------------------|
 *   stream           |-k1-----|         |-k2------|     k2 is late, for nothing known */
static orr_node_id k1, k2, sync;

static void build(small *s, int64_t late_ns)
{
    const int64_t slow_ns = late_ns > 0 ? 4 : 0; /* to return from the wait */
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    small_node(s, ORR_NODE_ANNOTATION, "ProfilerStep#3", cpu, 0, 500000 + late_ns, ORR_NONE);
    small_node(s, ORR_NODE_HOST_OP, "op", cpu, 0, 50, ORR_NONE);
    k1 = small_work(s, ORR_NODE_COMPUTE, "k1", gpu, 107, 200000,
                    small_call(s, cpu, 100, 5, ORR_NONE));
    k2 = small_work(s, ORR_NODE_COMPUTE, "k2", gpu, 200109 + late_ns, 100000,
                    small_call(s, cpu, 110, 5, ORR_NONE));
    sync = small_node(s, ORR_NODE_RUNTIME, "cudaStreamSynchronize", cpu, 200,
                      299914 + late_ns + slow_ns, ORR_NONE);
    small_dep(s, sync, k2, ORR_DEP_SYNC);
}

static orr_simulation replay(small *s)
{
    const orr_ensemble *ensemble;
    orr_sim_options options;
    orr_simulation simulation;
    orr_sim_options_init(&options);
    options.constants = SMALL_CONSTANTS;
    options.threads = 1;
    small_job(s);
    assert_int_equal(orr_ensemble_of_job(s->job, s->arena, &ensemble, &s->err), ORR_OK);
    if (orr_simulate(ensemble, &options, s->arena, &simulation, &s->err) != ORR_OK)
        fail_msg("%s", s->err.text);
    return simulation;
}

/* Recorded as the constants have it: nothing differs. */
static void test_nothing_differs(void **state)
{
    (void)state;
    small s = small_begin();
    build(&s, 0);
    const orr_simulation simulation = replay(&s);
    orr_validation error;
    orr_deviations why;
    assert_int_equal(orr_simulation_validate(s.job, &simulation, s.arena, &error, &s.err), ORR_OK);
    assert_int_equal(error.n_ranks, 1);
    assert_int_equal(error.ranks[0].span.recorded_ns, 300114);
    assert_int_equal(error.ranks[0].span.simulated_ns, 300114);
    assert_true(error.mean_frac == 0 && error.worst_step_frac == 0);
    assert_int_equal(error.ranks[0].span.n_starts, 2);
    assert_int_equal(error.ranks[0].span.worst_start_ns, 0);
    assert_int_equal(orr_simulation_explain(s.job, &simulation, 1024, 10, s.arena, &why, &s.err),
                     ORR_OK);
    assert_int_equal(why.n, 0);
    small_end(&s);
}

static void test_a_lost_dependency_is_named(void **state)
{
    (void)state;
    small s = small_begin();
    build(&s, 40000);
    const orr_simulation simulation = replay(&s);
    orr_validation error;
    orr_deviations why;
    assert_int_equal(orr_simulation_validate(s.job, &simulation, s.arena, &error, &s.err), ORR_OK);
    assert_int_equal(error.ranks[0].span.worst, k2);
    assert_int_equal(error.ranks[0].span.worst_start_ns, 40000);
    assert_int_equal((int64_t)error.ranks[0].span.mean_start_ns, 20000);
    assert_int_equal(error.n_lanes, 2);
    assert_int_equal(error.lanes[0].span.n_starts, 0);
    assert_int_equal(error.lanes[1].span.simulated_ns, 300002);
    assert_int_equal(error.lanes[1].span.recorded_ns, 340002);
    assert_int_equal(error.n_steps, 1);
    assert_string_equal(error.steps[0].name, "ProfilerStep#3");
    assert_true(error.mean_step_frac > 0 && error.mean_step_frac == error.worst_step_frac);

    assert_int_equal(orr_simulation_explain(s.job, &simulation, 1024, 10, s.arena, &why, &s.err),
                     ORR_OK);
    assert_int_equal(why.n, 2);
    assert_int_equal(why.rows[0].node, k2);
    assert_int_equal(why.rows[0].cause, ORR_CAUSE_LOST);
    assert_int_equal(why.rows[0].recorded_gap_ns, 40002);
    assert_int_equal(why.rows[0].simulated_gap_ns, 2);
    assert_int_equal(why.rows[0].difference_ns, -40000);
    assert_int_equal(why.rows[1].node, sync);
    assert_int_equal(why.rows[1].cause, ORR_CAUSE_SYNC);
    assert_int_equal(why.rows[1].recorded_gap_ns, 9);
    assert_int_equal(why.rows[1].simulated_gap_ns, 5);
    /* Fewer rows than there are: the first of them, and the same sums. */
    assert_int_equal(orr_simulation_explain(s.job, &simulation, 1024, 1, s.arena, &why, &s.err),
                     ORR_OK);
    assert_int_equal(why.n, 1);
    assert_int_equal(why.rows[0].node, k2);
    assert_int_equal(why.count[ORR_CAUSE_LOST], 1);
    assert_int_equal(why.difference_ns[ORR_CAUSE_LOST], 40000);
    assert_int_equal(why.count[ORR_CAUSE_SYNC], 1);
    small_end(&s);
}

static void test_another_job(void **state)
{
    (void)state;
    small s = small_begin(), other = small_begin();
    build(&s, 0);
    build(&other, 0);
    const orr_simulation simulation = replay(&s);
    orr_validation error;
    orr_deviations why;
    small_job(&other);
    assert_int_equal(orr_simulation_validate(other.job, &simulation, s.arena, &error, &s.err),
                     ORR_INVALID);
    assert_int_equal(orr_simulation_explain(other.job, &simulation, 1024, 9, s.arena, &why, &s.err),
                     ORR_INVALID);
    small_end(&s);
    small_end(&other);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    small s = small_begin();
    build(&s, 40000);
    const orr_simulation simulation = replay(&s);
    orr_status status = ORR_NO_MEMORY;
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_validation error = {0};
        orr_deviations why = {0};
        orr_arena *arena = orr_arena_new(64, 0);
        assert_non_null(arena);
        orr_alloc_fail_from(nth);
        status = orr_simulation_validate(s.job, &simulation, arena, &error, &s.err);
        if (status == ORR_OK)
            status = orr_simulation_explain(s.job, &simulation, 1024, 9, arena, &why, &s.err);
        orr_alloc_fail_from(0);
        if (status != ORR_OK)
            assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(status != ORR_OK || nth > 5);
        orr_arena_free(arena);
    }
    small_end(&s);
}

static void test_causes_have_names(void **state)
{
    (void)state;
    assert_string_equal(orr_deviation_cause_name(ORR_CAUSE_LOST), "lost dependency");
    assert_string_equal(orr_deviation_cause_name(ORR_CAUSE_COLLECTIVE), "collective");
    assert_string_equal(orr_deviation_cause_name((orr_deviation_cause)ORR_CAUSES), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_differs),   cmocka_unit_test(test_a_lost_dependency_is_named),
        cmocka_unit_test(test_another_job),       cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_causes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
