/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include "explore/evaluate/evaluator.h"
#include "explore/evaluate/effective_time.h"

static const char PLAN[] = "tp=8,pp=4,dp=8,batch=128,seq=4096,zero=1";

static orr_explore_options options_of(void)
{
    orr_explore_options o = {
        .struct_bytes = sizeof o, .objective = ORR_OBJECTIVE_STEP, .second = ORR_OBJECTIVES};
    return o;
}

static orr_evaluator *judge_of(plan_world *w, const orr_explore_options *options)
{
    orr_evaluator *evaluator = NULL;
    world_must(w,
               orr_evaluator_new(world_model(w, "llama3.1-70b"), world_cluster(w, "dgx_h100_pod"),
                                 options, &evaluator, &w->err),
               "evaluator");
    return evaluator;
}

static orr_explored judged(plan_world *w, const orr_explore_options *options, const char *text,
                           bool simulated)
{
    orr_evaluator *evaluator = judge_of(w, options);
    const orr_plan plan = world_plan(w, text);
    orr_explored e;
    world_must(w,
               simulated ? orr_evaluator_simulate(evaluator, &plan, &e, &w->err)
                         : orr_evaluator_estimate(evaluator, &plan, &e, &w->err),
               text);
    orr_evaluator_free(evaluator);
    return e;
}

static void test_the_step_is_the_simulation_s(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_explore_options options = options_of();
    const orr_explored e = judged(&w, &options, PLAN, true);
    const int64_t step_ns = world_step_ns(&w, world_model(&w, "llama3.1-70b"), PLAN,
                                          world_cluster(&w, "dgx_h100_pod"), NULL);
    assert_int_equal(e.step_ns, step_ns);
    assert_int_equal(e.n_devices, 256);
    assert_true(e.bound_ns <= e.step_ns);
    assert_true(e.value[ORR_OBJECTIVE_STEP] == (double)step_ns);
    assert_true(isnan(e.value[ORR_OBJECTIVE_BUDGET]));
    const double price = world_cluster(&w, "dgx_h100_pod")->device->price_per_hour.value;
    assert_near(e.value[ORR_OBJECTIVE_COST] / (256 * price * (double)step_ns / 3600e9), 1, 1e-12);
    world_close(&w);
}

static void test_money_and_energy(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_explore_options options = options_of();
    options.tokens = 1e9;
    options.price_per_hour = 2;
    options.second = ORR_OBJECTIVE_ENERGY;
    const orr_explored e = judged(&w, &options, PLAN, true);
    const orr_explored least = judged(&w, &options, PLAN, false);
    const double steps = 1e9 / (128.0 * 4096);
    const double wall_ns = steps * (double)e.step_ns;
    assert_near(e.value[ORR_OBJECTIVE_BUDGET] / wall_ns, 1, 1e-12);
    assert_near(e.value[ORR_OBJECTIVE_COST] / (256 * 2 * wall_ns / 3600e9), 1, 1e-12);
    for (int o = 0; o < ORR_OBJECTIVES; o++)
        assert_true(least.value[o] <= e.value[o]);
    assert_true(least.value[ORR_OBJECTIVE_ENERGY] > 0.3 * e.value[ORR_OBJECTIVE_ENERGY]);
    world_close(&w);
}

static void test_a_floor_is_below_all_plans_of_its_modules(void **state)
{
    static const char *const plans[] = {"tp=8,pp=4,dp=8,batch=128,seq=4096",
                                        "tp=8,pp=8,dp=4,batch=128,seq=4096,schedule=zb_h1",
                                        "tp=8,pp=1,dp=32,batch=128,seq=4096,zero=3"};
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_explore_options options = options_of();
    orr_evaluator *evaluator = judge_of(&w, &options);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const orr_plan plan = world_plan(&w, plans[i]);
        orr_explored e;
        double floor_ns;
        world_must(&w, orr_evaluator_simulate(evaluator, &plan, &e, &w.err), plans[i]);
        world_must(&w, orr_evaluator_family_bound(evaluator, &plan, &floor_ns, &w.err), "floor");
        assert_true(floor_ns <= (double)e.step_ns);
        assert_true(floor_ns > 0.1 * (double)e.step_ns);
    }
    orr_evaluator_free(evaluator);
    world_close(&w);
}

static void test_copies_that_fail_for_themselves_lose_less(void **state)
{
    (void)state;
    plan_world w;
    orr_failure_catalog catalog;
    const orr_failures *failures;
    const orr_fleet_timing *timing;
    orr_fleet_options fleet;
    orr_effective_time *effective;
    double one, many, again, part, node;
    world_open(&w);
    world_must(&w, orr_failure_catalog_open(NULL, w.arena, &catalog, &w.err), "failures");
    world_must(&w, orr_failures_find(&catalog, "ft_hsdp_98k", &failures, &w.err), "failures");
    world_must(&w, orr_fleet_timing_find(&catalog, "ft_hsdp", &timing, &w.err), "timing");
    orr_fleet_options_init(&fleet, failures, timing);
    fleet.repetitions = 2;
    fleet.horizon_ns = INT64_C(10) * 86400 * 1000000000;
    world_must(&w, orr_effective_time_new(&fleet, &effective, &w.err), "effective");
    world_must(&w, orr_effective_time_frac(effective, 98304, 1, &one, &w.err), "one");
    world_must(&w, orr_effective_time_frac(effective, 98304, 12, &many, &w.err), "many");
    world_must(&w, orr_effective_time_frac(effective, 98304, 12, &again, &w.err), "again");
    assert_true(one > 0 && one < many && many <= 1);
    assert_true(many == again);
    /* Devices of a part of a node fail as the node does. */
    world_must(&w, orr_effective_time_frac(effective, 4, 1, &part, &w.err), "part");
    world_must(&w, orr_effective_time_frac(effective, 8, 1, &node, &w.err), "node");
    assert_true(part == node && part > 0.9);
    orr_effective_time_free(effective);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_step_is_the_simulation_s),
        cmocka_unit_test(test_money_and_energy),
        cmocka_unit_test(test_a_floor_is_below_all_plans_of_its_modules),
        cmocka_unit_test(test_copies_that_fail_for_themselves_lose_less),
    };
    return cmocka_run_group_tests_name("evaluator", tests, NULL, NULL);
}
