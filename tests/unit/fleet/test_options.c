/* SPDX-License-Identifier: Apache-2.0 */
#include "small_fleet.h"

static void settings_are_taken_by_their_words(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "detect=30s,repair=lognormal(6h, 3d),rate=2.3,gpus_per_node=4,nodes_per_rack=18,"
                  "racks_per_building=100,interval=18min,retried=0.25");
    assert_int_equal(w.options.times[ORR_FLEET_DETECT].time.a_ns, 30 * (int64_t)SECOND_NS);
    assert_int_equal(w.options.times[ORR_FLEET_REPAIR].time.shape, ORR_FLEET_LOGNORMAL);
    assert_int_equal(w.options.times[ORR_FLEET_REPAIR].time.b_ns, 3 * DAY_NS);
    assert_near(w.options.numbers[ORR_FLEET_RATE].value, 2.3, 0);
    assert_int_equal(w.options.numbers[ORR_FLEET_RATE].basis, ORR_FACT_ASSUMED);
    assert_int_equal(w.options.gpus_per_node, 4);
    assert_int_equal(w.options.nodes_per_rack, 18);
    assert_int_equal(w.options.racks_per_building, 100);
    assert_int_equal(w.options.interval_ns, 18 * MINUTE_NS);
    assert_near(w.options.numbers[ORR_FLEET_RETRIED].value, 0.25, 0);
    world_close(&w);
}

static void what_is_wrong_changes_nothing(void **state)
{
    static const char *const wrong[][2] = {
        {"detetc=3s", "no setting 'detetc'; did you mean 'detect'?"},
        {"rate=2,detect", "'detect' is no setting: write detect=30s,rate=2.3"},
        {"rate=two", "rate: 'two' is not a number from 0 on"},
        {"rate=-1", "rate: '-1' is not a number from 0 on"},
        {"detect=3", "detect: '3' is not a duration: write for example 5us, 2ms or 1h"},
        {"interval=exp(3s)", "interval: one time, as 18min"},
        {"gpus_per_node=0", "gpus_per_node: 0 is not from 1 to 1,048,576"},
    };
    fleet_world w;
    (void)state;
    world_open(&w);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const orr_fleet_options before = w.options;
        assert_int_equal(orr_fleet_set(&w.options, wrong[i][0], w.arena, &w.err), ORR_INVALID);
        assert_string_equal(w.err.text, wrong[i][1]);
        assert_memory_equal(&before, &w.options, sizeof before);
    }
    world_close(&w);
}

static void rates_mean_distances(void **state)
{
    (void)state;
    assert_near(orr_fleet_mtbf_ns(6.51, 12288) / 60e9, 18.0, 0.01);
    assert_near(orr_fleet_mtbf_ns(2.3, 12288) / 60e9, 50.95, 0.01);
    assert_near(orr_fleet_mtbf_ns(6.5, 2048) / 3600e9, 1.803, 0.001);
    assert_near(orr_fleet_mtbf_ns(6.5, 16384) / 3600e9, 0.225, 0.001);
    assert_true(isinf(orr_fleet_mtbf_ns(0, 12288)));
}

static void communicators_follow_a_power_law_through_both_points(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "init_16k=17s,init_98k=200s");
    assert_near(orr_fleet_init_ns(&w.options, 16384), 17e9, 10);
    assert_near(orr_fleet_init_ns(&w.options, 98304), 200e9, 1000);
    const double eight = (double)orr_fleet_init_ns(&w.options, 8192);
    assert_near(eight, 17e9 * pow(200.0 / 17, -log(2) / log(6)), 10);
    assert_true(eight < 7e9);
    world_set(&w, "init_16k=0s");
    assert_int_equal(orr_fleet_init_ns(&w.options, 16384), 0);
    assert_near(orr_fleet_init_ns(&w.options, 200000), 200e9, 10);
    world_close(&w);
}

static void checkpoints_are_at_youngs_distance(void **state)
{
    fleet_world w;
    const orr_fleet_policy sync = sync_policy(), twelve = ft_policy(12), two = ft_policy(2);
    (void)state;
    world_open(&w);
    world_set(&w, "save=10s,checkpoint=0s,rate=100");
    const double mtbf = orr_fleet_mtbf_ns(100, 64);
    assert_near(orr_fleet_checkpoint_ns(&w.options, &sync), sqrt(2 * 10e9 * mtbf), 1);
    assert_int_equal(orr_fleet_checkpoint_ns(&w.options, &twelve),
                     HOUR_NS); /* all twelve at once: never */
    world_set(&w, "rate=5000");
    /* A replica is away for 60 + 120 + 10 + 20 + 100 + 5 s. */
    const double often = orr_fleet_mtbf_ns(5000, 64), down = -expm1(-315e9 / often / 2);
    assert_near(orr_fleet_checkpoint_ns(&w.options, &two), sqrt(2 * 10e9 * often / down), 10);
    world_set(&w, "checkpoint=7min");
    assert_int_equal(orr_fleet_checkpoint_ns(&w.options, &sync), 7 * MINUTE_NS);
    assert_int_equal(orr_fleet_checkpoint_ns(&w.options, &twelve), 7 * MINUTE_NS);
    world_close(&w);
}

static void assert_refused(fleet_world *w, const char *set, uint32_t gpus, orr_fleet_policy policy,
                           const char *why)
{
    const orr_fleet_options before = w->options;
    orr_fleet_run run;
    world_set(w, set);
    w->options.gpus = gpus;
    assert_int_equal(orr_fleet_simulate(&w->options, &policy, 0, NULL, &run, &w->err), ORR_INVALID);
    if (strstr(w->err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", w->err.text, why);
    w->options = before;
}

static void what_cannot_be_is_told(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    assert_refused(&w, "", 510, sync_policy(), "no whole number of nodes of 8");
    assert_refused(&w, "", 4, sync_policy(), "no whole number of nodes of 8");
    assert_refused(&w, "", 512, ft_policy(1), "ft with 1 replicas: from 2 to 64");
    assert_refused(&w, "", 512, ft_policy(65), "from 2 to 64");
    assert_refused(&w, "", 64, ft_policy(9), "9 replicas of 8 nodes");
    assert_refused(&w, "", 512, (orr_fleet_policy){ORR_FLEET_SYNC, 2, 0}, "from 1 to 1");
    assert_refused(&w, "rate=1000000000", 512, sync_policy(), "failures a second: no job lives so");
    assert_refused(&w, "lemons=1.5", 512, sync_policy(), "a share");
    assert_refused(&w, "retried=2", 512, sync_policy(), "a share");
    assert_refused(&w, "step=0s", 512, sync_policy(), "a step of less than 1 ms");
    assert_refused(&w, "interval=1ms", 512, sync_policy(), "less than 1 s");
    w.options.numbers[ORR_FLEET_RATE].basis = ORR_FACT_UNKNOWN;
    assert_refused(&w, "", 512, sync_policy(), "no rate of failures is known");
    world_set(&w, "rate=1");
    w.options.horizon_ns = 850 * DAY_NS;
    assert_refused(&w, "", 512, ft_policy(64), "a job of 64 replicas lives for 1 ns to 834 days");
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_taken_by_their_words),
        cmocka_unit_test(what_is_wrong_changes_nothing),
        cmocka_unit_test(rates_mean_distances),
        cmocka_unit_test(communicators_follow_a_power_law_through_both_points),
        cmocka_unit_test(checkpoints_are_at_youngs_distance),
        cmocka_unit_test(what_cannot_be_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
