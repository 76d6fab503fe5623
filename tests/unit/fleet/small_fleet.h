/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_WORLD_H
#define FLEET_WORLD_H

/* A small job for tests of fleets: 64 nodes of 8 GPUs, times that are easily added up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "fleet/fleet.h"

#define SECOND_NS 1000000000
#define MINUTE_NS (60 * (int64_t)SECOND_NS)
#define HOUR_NS   (60 * MINUTE_NS)
#define DAY_NS    (24 * HOUR_NS)

#define assert_near(a, b, most) assert_true(fabs((double)(a) - (double)(b)) <= (most))

typedef struct fleet_world {
    orr_arena *arena;
    orr_failure_catalog catalog;
    orr_failures failures; /* of one kind, explicit, replaced; tests change it */
    orr_failure_category categories[4];
    orr_fleet_options options;
    orr_error err;
} fleet_world;

static inline void world_set(fleet_world *w, const char *text)
{
    if (orr_fleet_set(&w->options, text, w->arena, &w->err) != ORR_OK)
        fail_msg("%s: %s", text, w->err.text);
}

static inline void world_open(fleet_world *w)
{
    const orr_fleet_timing *timing;
    memset(w, 0, sizeof *w);
    w->arena = orr_arena_new(0, 0);
    assert_non_null(w->arena);
    assert_int_equal(orr_failure_catalog_open(NULL, w->arena, &w->catalog, &w->err), ORR_OK);
    assert_int_equal(orr_fleet_timing_find(&w->catalog, "ft_hsdp", &timing, &w->err), ORR_OK);
    for (int i = 0; i < 4; i++)
        w->categories[i] = (orr_failure_category){.name = "gpu",
                                                  .layer = "gpu",
                                                  .count = {.value = 1, .basis = ORR_FACT_ASSUMED},
                                                  .replace = true};
    w->failures = (orr_failures){
        .name = "test", .title = "a test", .n_categories = 1, .categories = w->categories};
    orr_fleet_options_init(&w->options, &w->failures, timing);
    w->options.gpus = 512;
    w->options.horizon_ns = DAY_NS;
    w->options.repetitions = 4;
    w->options.threads = 1;
    /* A minute until it is known; 30 s to regroup; back after 60 + 120 + 10 + 20 + 100 (+ 30 + 40
     * alone). */
    world_set(
        w, "detect=1min,detect_hang=5min,regroup=30s,schedule=2min,start=10s,init_16k=20s,"
           "init_98k=20s,load=30s,first_step=40s,rebuild=100s,fetch=5s,rejoin=15s,save=0s,"
           "checkpoint=1000d,step=10s,rate=0,retried=1,slowdown=0.5,detect_slow=10min,repair=1h");
}

static inline void world_close(fleet_world *w)
{
    orr_arena_free(w->arena);
}

static inline orr_fleet_policy sync_policy(void)
{
    return (orr_fleet_policy){ORR_FLEET_SYNC, 1, 0};
}
static inline orr_fleet_policy ft_policy(uint32_t replicas)
{
    return (orr_fleet_policy){ORR_FLEET_FT, replicas, 0};
}

static inline int64_t run_sum(const orr_fleet_run *run)
{
    int64_t sum = run->productive;
    for (int i = 0; i < ORR_FLEET_LOSSES; i++)
        sum += run->lost[i];
    return sum;
}

/* A life; what is true of each. */
static inline orr_fleet_run world_run(fleet_world *w, orr_fleet_policy policy, uint32_t repetition)
{
    orr_fleet_run run;
    int64_t wall_ns = 0;
    if (orr_fleet_simulate(&w->options, &policy, repetition, NULL, &run, &w->err) != ORR_OK)
        fail_msg("%s", w->err.text);
    assert_int_equal(run_sum(&run), run.wall_ns * run.replicas);
    for (uint32_t i = 0; i <= run.replicas; i++)
        wall_ns += run.down_ns[i];
    assert_int_equal(wall_ns, run.wall_ns);
    for (int i = 0; i < ORR_FLEET_LOSSES; i++)
        assert_true(run.lost[i] >= 0);
    assert_true(run.productive >= 0);
    return run;
}

static inline double effective_of(const orr_fleet_run *run)
{
    return (double)run->productive / (double)run->wall_ns / run->replicas;
}

#endif /* FLEET_WORLD_H */
