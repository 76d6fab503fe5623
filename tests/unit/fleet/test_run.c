/* SPDX-License-Identifier: Apache-2.0 */
#include "small_fleet.h"

#include <stdio.h>

/* Lives that are added up by hand. Of the world's times: a death is known after 60 s; survivors
 * have regrouped 30 s later; a replica asks to join after 60 + 120 + 10 + 20 + 100 s, all wait for
 * it for 15 s, and it has the state 5 s after it was let in; a job of one replica is back after 60
 * + 120 + 10 + 20 + 30 + 40 s. */
enum { BACK_S = 60 + 120 + 10 + 20 + 30 + 40 };

static int64_t seconds(int64_t replica_ns)
{
    assert_int_equal(replica_ns % SECOND_NS, 0);
    return replica_ns / SECOND_NS;
}

/* One failure, 1,005 s after the beginning of a life of 1,999 s. */
static void one_failure(fleet_world *w, const char *more)
{
    world_open(w);
    world_set(w, "interval=1005s");
    world_set(w, more);
    w->options.horizon_ns = 1999 * (int64_t)SECOND_NS;
}

static void nothing_fails(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    w.options.horizon_ns = HOUR_NS;
    const orr_fleet_run sync = world_run(&w, sync_policy(), 0), ft = world_run(&w, ft_policy(4), 0);
    assert_int_equal(sync.productive, HOUR_NS);
    assert_int_equal(sync.steps, 360);
    assert_int_equal(ft.productive, 4 * HOUR_NS);
    assert_int_equal(ft.replica_steps, 4 * 360);
    assert_int_equal(ft.down_ns[0], HOUR_NS);
    world_close(&w);
}

static void a_job_of_one_piece_stops_for_all_of_it(void **state)
{
    fleet_world w;
    (void)state;
    one_failure(&w, "checkpoint=5min");
    const orr_fleet_run r = world_run(&w, sync_policy(), 0);
    /* Steps until 1,000 s, checkpoints after 300, 600, 900 s; 5 s of an attempt; back at 1,005 +
     * 280. */
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_RETRY]), 5 + (1999 - 1005 - BACK_S) % 10);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_RECOMPUTE]), 100);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_DETECTION]), 60);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_SCHEDULING]), 120);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_STARTING]), 10 + 20 + 40);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_LOADING]), 30);
    assert_int_equal(seconds(r.productive), 900 + (1999 - 1005 - BACK_S) / 10 * 10);
    assert_int_equal(r.restarts, 1);
    assert_int_equal(r.failures, 1);
    assert_int_equal(r.steps, 90 + 71);
    world_close(&w);
}

static void what_starts_in_place_is_not_scheduled(void **state)
{
    fleet_world w;
    (void)state;
    one_failure(&w, "");
    w.categories[0].replace = false;
    const orr_fleet_run r = world_run(&w, sync_policy(), 0);
    assert_int_equal(r.lost[ORR_FLEET_LOSS_SCHEDULING], 0);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_RECOMPUTE]), 1000); /* there was no checkpoint */
    world_close(&w);
}

static void spares_wait_for_nobody_while_they_last(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "interval=20min,repair=50min");
    w.options.horizon_ns = 3 * HOUR_NS; /* 8 failures */
    for (uint32_t spares = 1; spares <= 3; spares++) {
        const orr_fleet_run r = world_run(&w, (orr_fleet_policy){ORR_FLEET_SPARES, 1, spares}, 0);
        /* In 50 min come 3 failures: of each three the first `spares` are met. */
        const uint64_t met = spares == 1 ? 3 : spares == 2 ? 6 : 8;
        assert_int_equal(r.spares_short, 8 - met);
        assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_SCHEDULING]), 120 * (int64_t)(8 - met));
    }
    world_close(&w);
}

static void the_others_go_on_without_a_replica(void **state)
{
    fleet_world w;
    (void)state;
    one_failure(&w, "");
    const orr_fleet_run r = world_run(&w, ft_policy(4), 0);
    /* 5 s of an attempt lost; stalled until 1,095; three go on. At 1,315 the fourth asks to join,
     * and is let in at the commit at 1,315; all wait until 1,330; it is whole with the commit at
     * 1,340. */
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_DETECTION]), 4 * 60);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_REGROUPING]), 4 * 30);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_CATCH_UP]), 4 * 15);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_DEGRADED]), (1315 - 1095) + 10);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_RETRY]), 4 * 5 + 4 * 9);
    assert_int_equal(seconds(r.productive), 4 * 1000 + 3 * (1315 - 1095) + 3 * 10 + 4 * 650);
    assert_int_equal(r.lost[ORR_FLEET_LOSS_RECOMPUTE], 0);
    assert_int_equal(r.restarts, 0);
    assert_int_equal(r.epochs, 2);
    assert_int_equal(seconds(r.down_ns[1]), 1340 - 1005);
    world_close(&w);
}

static void gradients_that_are_kept_are_not_made_again(void **state)
{
    fleet_world w;
    (void)state;
    one_failure(&w, "retried=0");
    const orr_fleet_run r = world_run(&w, ft_policy(4), 0);
    /* The 5 s of the attempt count: its step is whole 5 s after the team has regrouped. */
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_RETRY]), 4 * 4);
    assert_int_equal(seconds(r.productive + r.lost[ORR_FLEET_LOSS_DEGRADED]),
                     4 * (1999 - 60 - 30 - 15 - 4));
    world_close(&w);
}

static void a_hang_is_found_by_the_deadline(void **state)
{
    fleet_world w;
    (void)state;
    one_failure(&w, "");
    w.categories[0].kind = ORR_FAILURE_HANG;
    const orr_fleet_run r = world_run(&w, ft_policy(4), 0);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_DETECTION]), 4 * 300);
    world_close(&w);
}

static void a_slow_node_slows_all_until_it_is_found(void **state)
{
    fleet_world w;
    (void)state;
    one_failure(&w, "detect_slow=10min");
    w.categories[0].kind = ORR_FAILURE_SLOW;
    const orr_fleet_run r = world_run(&w, ft_policy(4), 0);
    /* From the commit at 1,010 on steps take 15 s; found at 1,605, in the fortieth of them. */
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_SLOWED]), 4 * 5 * 39);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_DETECTION]), 0);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_REGROUPING]), 4 * 30);
    assert_int_equal(seconds(r.lost[ORR_FLEET_LOSS_RETRY]),
                     4 * 10 + 4 * ((1999 - 1605 - 30 - 15) % 10));
    world_close(&w);
}

static void a_planned_interruption_loses_no_step(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "planned=2000,save=7s,checkpoint=1000d");
    w.options.horizon_ns = DAY_NS;
    const orr_fleet_run sync = world_run(&w, sync_policy(), 0), ft = world_run(&w, ft_policy(8), 0);
    assert_true(sync.planned > 60 && sync.failures == 0);
    assert_int_equal(sync.lost[ORR_FLEET_LOSS_RECOMPUTE], 0);
    assert_int_equal(sync.lost[ORR_FLEET_LOSS_DETECTION], 0);
    assert_true(sync.lost[ORR_FLEET_LOSS_RETRY] < 10 * (int64_t)SECOND_NS); /* that of the end */
    assert_true(seconds(sync.lost[ORR_FLEET_LOSS_SAVING]) / 7 - (int64_t)sync.restarts <= 1);
    assert_int_equal(ft.lost[ORR_FLEET_LOSS_DETECTION], 0);
    assert_true(ft.lost[ORR_FLEET_LOSS_RETRY] < 8 * 10 * (int64_t)SECOND_NS);
    assert_true(effective_of(&ft) > effective_of(&sync));
    world_close(&w);
}

static void a_whole_building_takes_its_replicas_with_it(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    /* Four buildings of 16 nodes: one of 16 replicas each quarter. */
    world_set(&w, "buildings=100000,nodes_per_rack=4,racks_per_building=4");
    w.options.horizon_ns = HOUR_NS;
    const orr_fleet_run r = world_run(&w, ft_policy(16), 0);
    assert_true(r.failures > 0 && r.categories[2] == r.failures);
    assert_true(r.down_ns[4] > 0);
    for (uint32_t i = 0; i <= 16; i++) /* they go together, and come back together */
        assert_true(i % 4 == 0 || r.down_ns[i] == 0);
    world_close(&w);
}

/* Hosts that vanish say nothing: the quarter that is left must not go on for itself. */
static void fewer_than_half_halt(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "buildings=3000000,nodes_per_rack=4,racks_per_building=4");
    w.options.horizon_ns = 6 * HOUR_NS;
    const orr_fleet_run r = world_run(&w, ft_policy(4), 0);
    assert_true(r.halts > 0);
    assert_true(r.lost[ORR_FLEET_LOSS_HALTED] > 0);
    world_close(&w);
}

static void all_at_once_go_back_to_the_checkpoint(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w,
              "buildings=24000,nodes_per_rack=64,racks_per_building=1,checkpoint=10min,save=5s");
    w.options.horizon_ns = 6 * HOUR_NS;
    const orr_fleet_run r = world_run(&w, ft_policy(8), 0);
    assert_true(r.failures >= 2);
    assert_true(r.restarts >= 1 && r.restarts <= r.failures);
    assert_true(r.lost[ORR_FLEET_LOSS_RECOMPUTE] > 0);
    assert_true(r.lost[ORR_FLEET_LOSS_RECOMPUTE] <= (int64_t)r.failures * 8 * 11 * MINUTE_NS);
    world_close(&w);
}

static void a_budget_of_tokens_ends_a_life(void **state)
{
    fleet_world w;
    (void)state;
    world_open(&w);
    world_set(&w, "interval=1005s");
    w.options.tokens = 100e6;
    w.options.tokens_per_step = 1e6; /* 100 steps of all: at 1,000 s */
    w.options.horizon_ns = DAY_NS;
    const orr_fleet_run before = world_run(&w, ft_policy(4), 0);
    assert_int_equal(seconds(before.wall_ns), 1000);
    assert_true(before.budget_met);
    w.options.tokens =
        120e6; /* 80 shares more: 22 steps of 3, one of 3 after the stall, 3 of 4 from 1,340 on */
    const orr_fleet_run after = world_run(&w, ft_policy(4), 0);
    assert_int_equal(seconds(after.wall_ns), 1370);
    w.options.horizon_ns = 1100 * (int64_t)SECOND_NS;
    assert_false(world_run(&w, ft_policy(4), 0).budget_met);
    world_close(&w);
}

static void a_timeline_covers_what_was_asked_for(void **state)
{
    fleet_world w;
    orr_fleet_piece pieces[200];
    orr_fleet_timeline day = {.begin_ns = 900 * (int64_t)SECOND_NS,
                              .end_ns = 1900 * (int64_t)SECOND_NS,
                              .room = 200,
                              .pieces = pieces};
    orr_fleet_run r;
    const orr_fleet_policy four = ft_policy(4);
    (void)state;
    one_failure(&w, "");
    assert_int_equal(orr_fleet_simulate(&w.options, &four, 0, &day, &r, &w.err), ORR_OK);
    const uint8_t losses[] = {ORR_FLEET_LOSSES, ORR_FLEET_LOSS_DETECTION, ORR_FLEET_LOSS_REGROUPING,
                              ORR_FLEET_LOSSES, ORR_FLEET_LOSS_CATCH_UP,  ORR_FLEET_LOSSES,
                              ORR_FLEET_LOSSES};
    const uint8_t contributing[] = {4, 3, 3, 3, 3, 3, 4};
    const int64_t ends[] = {1005, 1065, 1095, 1315, 1330, 1340, 1900};
    assert_int_equal(day.n, 7);
    for (uint32_t i = 0; i < day.n; i++) {
        assert_int_equal(day.pieces[i].begin_ns, i == 0 ? day.begin_ns : day.pieces[i - 1].end_ns);
        assert_int_equal(day.pieces[i].end_ns, ends[i] * SECOND_NS);
        assert_int_equal(day.pieces[i].loss, losses[i]);
        assert_int_equal(day.pieces[i].contributing, contributing[i]);
    }
    world_close(&w);
}

/* Whatever fails, and however: world_run() holds each life against its sums. */
static void sums_are_exact_in_any_life(void **state)
{
    fleet_world w;
    orr_random random = orr_random_of(11, 0);
    (void)state;
    for (int i = 0; i < 150; i++) {
        char text[512];
        world_open(&w);
        w.failures.n_categories = 4;
        w.categories[1].kind = ORR_FAILURE_HANG;
        w.categories[2].kind = ORR_FAILURE_SLOW;
        w.categories[3].replace = false;
        snprintf(
            text, sizeof text,
            "rate=%d,planned=%d,racks=%d,buildings=%d,lemons=0.1,lemon_factor=10,evict_after=%d,"
            "nodes_per_rack=4,racks_per_building=5,save=%ds,checkpoint=%dmin,retried=0.%d,"
            "detect=exp(30s),schedule=lognormal(1min, 10min),step=uniform(3s, 40s),rejoin=%ds,fetch=exp(9s)",
            (int)orr_random_below(&random, 20000), (int)orr_random_below(&random, 5000),
            (int)orr_random_below(&random, 5000), (int)orr_random_below(&random, 50000),
            (int)orr_random_below(&random, 4), (int)orr_random_below(&random, 10),
            (int)orr_random_below(&random, 40), (int)orr_random_below(&random, 10),
            (int)orr_random_below(&random, 30));
        world_set(&w, text);
        const uint32_t replicas = 1 + (uint32_t)orr_random_below(&random, 20);
        const orr_fleet_policy spares = {ORR_FLEET_SPARES, 1, 3};
        if (i % 3 == 2)
            w.options.tokens = 1e9;
        world_run(&w,
                  replicas > 1 ? ft_policy(replicas)
                  : i % 2      ? sync_policy()
                               : spares,
                  (uint32_t)i);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails),
        cmocka_unit_test(a_job_of_one_piece_stops_for_all_of_it),
        cmocka_unit_test(what_starts_in_place_is_not_scheduled),
        cmocka_unit_test(spares_wait_for_nobody_while_they_last),
        cmocka_unit_test(the_others_go_on_without_a_replica),
        cmocka_unit_test(gradients_that_are_kept_are_not_made_again),
        cmocka_unit_test(a_hang_is_found_by_the_deadline),
        cmocka_unit_test(a_slow_node_slows_all_until_it_is_found),
        cmocka_unit_test(a_planned_interruption_loses_no_step),
        cmocka_unit_test(a_whole_building_takes_its_replicas_with_it),
        cmocka_unit_test(fewer_than_half_halt),
        cmocka_unit_test(all_at_once_go_back_to_the_checkpoint),
        cmocka_unit_test(a_budget_of_tokens_ends_a_life),
        cmocka_unit_test(a_timeline_covers_what_was_asked_for),
        cmocka_unit_test(sums_are_exact_in_any_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
