/* SPDX-License-Identifier: Apache-2.0 */
/* What baselines are made of, on a machine small enough to reckon by hand: three sites of 64, 32
 * and 32 devices, hosts of 8, 100 GB/s in a host, 10 in a site, 1 between sites; a layer's forward
 * pass takes a second on one device. */
#include "../outcome/catalog_jobs.h"

#include "explore/baseline/baseline.h"

enum { LAYERS = 16 };

static orr_baseline_planner three_sites(const orr_model *model)
{
    orr_baseline_planner r = {.model = model,
                              .n_sites = 3,
                              .host_devices = 8,
                              .host = {100e9, 0},
                              .inner = {10e9, 1e3},
                              .n_inner_levels = 2,
                              .level_bytes_per_s = {100e9, 10e9},
                              .level_devices = {8, 64},
                              .layers = LAYERS,
                              .hidden = 1000,
                              .seq = 1000,
                              .batch = 96,
                              .layer_flops = 1e12,
                              .layer_elements = 1e9};
    r.arena = orr_arena_new(0, 0);
    assert_non_null(r.arena);
    for (uint32_t s = 0; s < 3; s++) {
        r.sites[s] =
            (orr_baseline_site){.devices = s == 0 ? 64 : 32, .region = "", .flops_per_s = 1e12};
        for (uint32_t t = 0; t < 3; t++)
            r.cut[s][t] = (orr_baseline_link){1e9, 5e6};
    }
    return r;
}

static const orr_model dense = {.name = "dense", .heads = 16};

static void test_replicas_fill_large_sites_first(void **state)
{
    (void)state;
    orr_baseline_planner r = three_sites(&dense);
    orr_plan plan = {.tp = 4, .pp = 2, .cp = 1, .micro_batch = 1, .batch = 96};
    assert_true(
        orr_baseline_assign_replicas(&r, &plan)); /* 8 + 4 + 4 = 16, which 96 divides into */
    assert_int_equal(plan.dp, 16);
    assert_int_equal(plan.cross, ORR_CROSS_DP);
    assert_int_equal(plan.sites[0], 8);
    assert_int_equal(plan.sites[1], 4);
    assert_int_equal(plan.sites[2], 4);
    r.batch = 24; /* 12: the last site stays empty */
    plan = (orr_plan){.tp = 4, .pp = 2, .cp = 1, .micro_batch = 1, .batch = 24};
    assert_true(orr_baseline_assign_replicas(&r, &plan));
    assert_int_equal(plan.dp, 12);
    assert_int_equal(plan.sites[0] * 100 + plan.sites[1] * 10 + plan.sites[2], 840);
    r.given.dp = 5;
    assert_false(orr_baseline_assign_replicas(&r, &plan));
    orr_baseline_close(&r);
}

/* Replicas that share a set of experts are never on two sides of a cut. */
static void test_experts_stay_in_a_site(void **state)
{
    (void)state;
    orr_baseline_planner r = three_sites(&dense);
    r.sites[1].devices = 48;
    orr_plan plan = {.tp = 1, .pp = 2, .cp = 1, .micro_batch = 1, .batch = 96, .ep = 16, .etp = 1};
    assert_true(orr_baseline_assign_replicas(
        &r, &plan)); /* 32 + 16 (of 24) + 16; 96 divides into 48 and 32 */
    assert_int_equal(plan.dp, 48);
    for (int s = 0; s < 3; s++)
        assert_int_equal(plan.sites[s] % 16, 0);
    orr_baseline_close(&r);
}

static void test_stages_are_dealt(void **state)
{
    (void)state;
    orr_baseline_planner r = three_sites(&dense);
    orr_plan plan = {.tp = 8, .pp = 6, .cp = 1, .dp = 2, .micro_batch = 1, .batch = 96};
    assert_true(orr_baseline_assign_stages(&r, false, &plan)); /* room for 4, 2, 2 */
    assert_int_equal(plan.cross, ORR_CROSS_PP);
    assert_int_equal(plan.sites[0] * 100 + plan.sites[1] * 10 + plan.sites[2], 420);
    assert_true(orr_baseline_assign_stages(&r, true, &plan));
    assert_int_equal(plan.sites[0] + plan.sites[1] + plan.sites[2], 6);
    assert_int_equal(plan.sites[0], 3);
    plan.pp = 9;
    assert_false(orr_baseline_assign_stages(&r, true, &plan));
    plan.pp = 4; /* dp: 8 x 4 = 32 devices a stage; 4 stages of them */
    assert_int_equal(orr_baseline_next_lower_dp(&r, &plan, 0), 4);
    assert_int_equal(orr_baseline_next_lower_dp(&r, &plan, 4), 3);
    assert_int_equal(orr_baseline_next_lower_dp(&r, &plan, 1), 0);
    orr_baseline_close(&r);
}

static void test_layers_follow_speed(void **state)
{
    (void)state;
    orr_baseline_planner r = three_sites(&dense);
    orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
    orr_plan plan = {.tp = 8,
                     .pp = 4,
                     .cp = 1,
                     .dp = 4,
                     .micro_batch = 1,
                     .cross = ORR_CROSS_PP,
                     .sites = {2, 1, 1}};
    orr_baseline_stages_of(&r, &plan, stages);
    assert_true(orr_baseline_balance_layers(&r, &plan, stages));
    assert_int_equal(plan.section_stages[0], 0); /* all alike: nothing to say */
    r.sites[0].flops_per_s = 3e12;               /* 3 + 3 + 1 + 1 parts of 16 layers */
    assert_true(orr_baseline_balance_layers(&r, &plan, stages));
    assert_int_equal(plan.section_stages[0], 2);
    assert_int_equal(plan.section_layers[0], 6);
    assert_int_equal(plan.section_stages[1], 2);
    assert_int_equal(plan.section_layers[1], 2);
    assert_int_equal(stages[3].site, 2);
    orr_baseline_close(&r);
}

/* 1F1B of p alike stages without hops takes (m + p - 1) turns of each kind (Narayanan et al. 2021),
 * played or by formula; latency adds a way there and back for each hop. */
static void test_step_of_a_pipeline(void **state)
{
    (void)state;
    static const orr_baseline_network_view all = {.cuts = true, .latency = true}, blind = {0};
    orr_baseline_planner r = three_sites(&dense);
    orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
    orr_plan plan = {.tp = 1,
                     .pp = 4,
                     .cp = 1,
                     .dp = 1,
                     .micro_batch = 12,
                     .batch = 96,
                     .recompute = ORR_RECOMPUTE_NONE,
                     .schedule = ORR_SCHEDULE_1F1B,
                     .cross = ORR_CROSS_PP,
                     .sites = {4, 0, 0}};
    const double turns_ns =
        (8 + 4 - 1) * 4 * 3 * 12e9; /* 4 layers, 12 samples, a second forward, two backward */
    const double hop_ns = 2 * 1000 * 12e3 / 10e9 * 1e9; /* bf16 */
    double played_ns = 0;
    orr_error err = {0};
    orr_baseline_stages_of(&r, &plan, stages);
    assert_near(orr_baseline_step_ns(&r, &plan, stages, &blind), turns_ns + 6 * hop_ns, 1e3);
    /* 1F1B has no slack: behind the first micro-batches each waits for a hop or two. */
    assert_int_equal(orr_baseline_simulate_schedule(&r, &plan, &played_ns, &err), ORR_OK);
    assert_true(played_ns >= turns_ns + 6 * (hop_ns + 1e3));
    assert_true(played_ns <= turns_ns + 2 * (8 + 3) * (hop_ns + 1e3));
    r.inner.bytes_per_s = 1e30;
    r.inner.latency_ns = 0;
    assert_int_equal(orr_baseline_simulate_schedule(&r, &plan, &played_ns, &err), ORR_OK);
    assert_near(played_ns, turns_ns, 1e-9 * turns_ns);
    r.inner = (orr_baseline_link){10e9, 1e3};
    memcpy(plan.sites, (uint16_t[ORR_PLAN_PARTS]){2, 1, 1}, sizeof plan.sites);
    orr_baseline_stages_of(&r, &plan, stages);
    const double across_ns = turns_ns + 2 * (hop_ns + 1e3) + 4 * (10 * hop_ns + 5e6);
    assert_near(orr_baseline_step_ns(&r, &plan, stages, &all), across_ns, 1e3);
    assert_int_equal(orr_baseline_simulate_schedule(&r, &plan, &played_ns, &err), ORR_OK);
    assert_true(played_ns > turns_ns && played_ns < 1.05 * across_ns);
    plan.schedule = ORR_SCHEDULE_ZB_V; /* has two chunks a stage */
    plan.vp = 3;
    plan.micro_batches = 0;
    assert_int_not_equal(orr_baseline_simulate_schedule(&r, &plan, &played_ns, &err), ORR_OK);
    orr_baseline_close(&r);
}

/* Zero bubble does better than 1F1B where weights can wait. */
static void test_orders_differ(void **state)
{
    (void)state;
    orr_baseline_planner r = three_sites(&dense);
    orr_plan plan = {.tp = 1,
                     .pp = 4,
                     .cp = 1,
                     .dp = 1,
                     .micro_batch = 12,
                     .batch = 96,
                     .recompute = ORR_RECOMPUTE_NONE,
                     .schedule = ORR_SCHEDULE_1F1B,
                     .cross = ORR_CROSS_PP,
                     .sites = {2, 1, 1}};
    double plain_ns = 0, zero_ns = 0;
    orr_error err = {0};
    assert_int_equal(orr_baseline_simulate_schedule(&r, &plan, &plain_ns, &err), ORR_OK);
    plan.schedule = ORR_SCHEDULE_ZB_H1;
    assert_int_equal(orr_baseline_simulate_schedule(&r, &plan, &zero_ns, &err), ORR_OK);
    assert_true(zero_ns < 0.95 * plain_ns);
    orr_baseline_close(&r);
}

/* Gradients of 16e9 / 4 elements in fp32, around a ring of 16, at the thinnest that the view knows.
 */
static void test_gradients_cross_the_thinnest(void **state)
{
    (void)state;
    static const orr_baseline_network_view all = {.cuts = true}, blind = {0};
    orr_baseline_planner r = three_sites(&dense);
    const orr_plan plan = {.tp = 4,
                           .pp = 1,
                           .cp = 1,
                           .dp = 16,
                           .micro_batch = 1,
                           .cross = ORR_CROSS_DP,
                           .sites = {8, 8, 0}};
    const orr_baseline_stage stage = {.layers = LAYERS};
    const double bytes = 16e9 / 4 * 4 * 2 * 15 / 16;
    assert_near(orr_baseline_sync_ns(&r, &plan, &stage, &blind), bytes / 10e9 * 1e9, 1e3);
    assert_near(orr_baseline_sync_ns(&r, &plan, &stage, &all), bytes / 1e9 * 1e9, 1e3);
    orr_baseline_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_fill_large_sites_first),
        cmocka_unit_test(test_experts_stay_in_a_site),
        cmocka_unit_test(test_stages_are_dealt),
        cmocka_unit_test(test_layers_follow_speed),
        cmocka_unit_test(test_step_of_a_pipeline),
        cmocka_unit_test(test_orders_differ),
        cmocka_unit_test(test_gradients_cross_the_thinnest),
    };
    return cmocka_run_group_tests_name("plan/baseline_parts", tests, NULL, NULL);
}
