/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include "explore/explore.h"

/* A search has an answer at every moment: what it begins with, and what it says when it is cut
 * short. */

static orr_explore_options asked(const char *fix)
{
    orr_explore_options o;
    orr_explore_options_init(&o);
    o.fix = fix;
    o.threads = 1;
    return o;
}

/* Three buildings of `devices` each, in two regions. */
static const orr_cluster *three_buildings(plan_world *w, uint32_t devices)
{
    const uint32_t of_site[ORR_SITES_MAX] = {devices, devices, devices};
    const orr_cluster *part;
    world_must(w,
               orr_cluster_select_sites(world_cluster(w, "two_regions"), of_site, w->arena, &part,
                                        &w->err),
               "sites");
    return part;
}

static orr_exploration explored(plan_world *w, const orr_model *model, const orr_cluster *cluster,
                                const orr_explore_options *o)
{
    orr_exploration x;
    world_must(w, orr_explore(model, cluster, o, w->arena, &x, &w->err), o->fix);
    return x;
}

/* Replicas that train alone between their averages share states among themselves: sharded over all
 * replicas, their plans are none. */
static void regions_that_train_alone_are_searched(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_explore_options o =
        asked("batch=96,seq=8192,precision=bf16,tp=4,pp=1,zero=1,local_steps=64,cross=dp");
    o.allow = "local_steps";
    o.min_devices = 192;
    const orr_exploration x =
        explored(&w, world_model(&w, "llama3.1-8b"), three_buildings(&w, 64), &o);
    assert_true(x.n > 0);
    const orr_plan best = orr_plan_with_defaults(&x.best[0].plan);
    assert_int_equal(best.dp, 48);
    assert_int_equal(best.dp_outer, 3);
    assert_int_equal(best.shards, 16);
    world_close(&w);
}

/* --- what a search begins with --------------------------------------------------------------- */

/* Cut off at once, with the jobs, machines and limits of very different searches. */
static void a_search_that_is_stopped_at_once_has_an_answer(void **state)
{
    static const struct {
        const char *model, *cluster, *fix;
        uint32_t devices;
    } JOBS[] = {{"llama3.1-405b", "h100_24k", "batch=2048,seq=8192", 16384},
                {"llama3.1-8b", "h100_24k", "batch=64,seq=8192", 32},
                {"llama3.1-70b", "mixed_buildings", "batch=2048,seq=8192", 0},
                {"mixtral-8x7b", "two_regions", "batch=4096,seq=4096", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof JOBS / sizeof *JOBS; i++) {
        plan_world w;
        world_open(&w);
        orr_explore_options o = asked(JOBS[i].fix);
        o.max_devices = JOBS[i].devices;
        o.limit_ns = 1;
        const orr_exploration x =
            explored(&w, world_model(&w, JOBS[i].model), world_cluster(&w, JOBS[i].cluster), &o);
        assert_true(x.n > 0);
        assert_false(x.complete);
        assert_true(x.best[0].step_ns > 0 && x.best[0].peak_bytes <= x.best[0].usable_bytes);
        assert_true(!(x.bound > x.best[0].value[ORR_OBJECTIVE_STEP]));
        world_close(&w);
    }
}

/* No planner's plan fits into the memory of so few devices, but one that computes much again. */
static void memory_options_are_applied_until_a_plan_fits(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_device device;
    orr_cluster cluster = *world_cluster(&w, "dgx_h100");
    device = *cluster.device;
    cluster.device = &device;
    orr_explore_options o = asked("batch=8,seq=8192,precision=bf16,cp=1,micro_batch=1,zero=1");
    o.limit_ns = 1;
    uint32_t found = 0, missing = 0;
    for (double gib = 80; gib >= 2; gib -= 6) {
        device.memory_bytes.value = gib * 1024 * 1024 * 1024;
        const orr_exploration x = explored(&w, world_model(&w, "llama3.1-8b"), &cluster, &o);
        found += x.n > 0;
        missing += x.n == 0;
        if (x.n == 0)
            assert_non_null(strstr(x.infeasible, "what comes nearest needs"));
    }
    assert_true(found > 4 && missing > 0);
    world_close(&w);
}

static volatile bool sampling_begins;

static void stop_at_sampling(void *ctx, const orr_explore_progress *at)
{
    (void)ctx;
    sampling_begins |= strcmp(at->phase, "sampling") == 0;
}

/* Before any family is looked at, the neighbours of what the planners propose are tried. */
static void the_first_plan_is_better_than_all_planners(void **state)
{
    static const orr_baseline FIRST[] = {ORR_BASELINE_FSDP,  ORR_BASELINE_PRODUCTION,
                                         ORR_BASELINE_AMP,   ORR_BASELINE_SAILOR,
                                         ORR_BASELINE_ATLAS, ORR_BASELINE_GALVATRON};
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-405b");
    const orr_cluster *cluster = world_cluster(&w, "h100_24k");
    orr_explore_options o = asked("batch=2048,seq=8192,precision=bf16");
    o.max_devices = 16384;
    double least = INFINITY;
    for (size_t i = 0; i < sizeof FIRST / sizeof *FIRST; i++) {
        orr_explored e;
        if (orr_baseline_of(FIRST[i], model, cluster, &o, &e, &w.err) == ORR_OK)
            least = fmin(least, (double)e.step_ns);
    }
    sampling_begins = false;
    o.stop = &sampling_begins;
    o.progress = stop_at_sampling;
    const orr_exploration x = explored(&w, model, cluster, &o);
    assert_true(sampling_begins && x.n > 0 && isfinite(least));
    if ((double)x.best[0].step_ns >= least)
        fail_msg("%lld ns of %.0f ns", (long long)x.best[0].step_ns, least);
    world_close(&w);
}

static void a_start_is_never_beaten_by_a_worse_plan(void **state)
{
    static const char *const STARTS[] = {"tp=2,pp=2,zero=1", "tp=4,dp=8,batch=128", "tp=3",
                                         "tp=1,zero=3,precision=fp8", "tp=8,pp=4,vp=2"};
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = world_cluster(&w, "h100_24k");
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++) {
        const orr_plan start = world_plan(&w, STARTS[i]);
        orr_explore_options o = asked("batch=64,seq=8192,precision=bf16");
        o.max_devices = 32;
        o.limit_ns = 1;
        o.starts = &start;
        o.n_starts = 1;
        const orr_exploration x = explored(&w, model, cluster, &o);
        assert_true(x.n > 0);
        orr_plan plan = start;
        plan.batch = 64;
        plan.precision = ORR_PRECISION_BF16;
        plan.dp = plan.dp > 0 ? plan.dp : 32 / (start.tp * (start.pp > 0 ? start.pp : 1));
        if (start.tp == 3) {
            assert_int_equal(x.n_remarks, 1);
            assert_non_null(strstr(x.remarks[0], "the start tp=3 is left aside"));
            continue;
        }
        const char *text = orr_plan_text(&plan, w.arena);
        const int64_t step_ns = world_step_ns(&w, model, text, cluster, NULL);
        if (x.best[0].step_ns > step_ns)
            fail_msg("%s: %lld ns, found %lld", text, (long long)step_ns,
                     (long long)x.best[0].step_ns);
    }
    world_close(&w);
}

static void a_start_that_is_not_in_the_space_is_told(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_plan start = world_plan(&w, "tp=2,zero=3,dp=8");
    orr_explore_options o = asked("batch=16,seq=8192,precision=bf16");
    o.exclude = "zero=3";
    o.max_devices = 16;
    o.starts = &start;
    o.n_starts = 1;
    const orr_exploration x =
        explored(&w, world_model(&w, "llama3.1-8b"), world_cluster(&w, "h100_24k"), &o);
    assert_int_equal(x.n_remarks, 1);
    assert_non_null(strstr(x.remarks[0], "zero=3 is not in the space"));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_that_is_stopped_at_once_has_an_answer),
        cmocka_unit_test(memory_options_are_applied_until_a_plan_fits),
        cmocka_unit_test(the_first_plan_is_better_than_all_planners),
        cmocka_unit_test(a_start_is_never_beaten_by_a_worse_plan),
        cmocka_unit_test(a_start_that_is_not_in_the_space_is_told),
        cmocka_unit_test(regions_that_train_alone_are_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
