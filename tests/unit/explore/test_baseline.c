/* SPDX-License-Identifier: Apache-2.0 */
/* Baselines on one site: each finds a plan that fits, within what is asked, as its publication
 * would. */
#include "../outcome/catalog_jobs.h"

#include <orrery/explore.h>

#include "base/alloc.h"
#include "model/plan/plan.h"

static orr_explore_options asked(const char *fix)
{
    orr_explore_options o;
    memset(&o, 0, sizeof o);
    o.struct_bytes = sizeof o;
    o.fix = fix;
    return o;
}

static orr_explored found(plan_world *w, orr_baseline baseline, const char *model,
                          const char *cluster, const orr_explore_options *options)
{
    orr_explored e;
    memset(&e, 0, sizeof e);
    world_must(w,
               orr_baseline_of(baseline, world_model(w, model), world_cluster(w, cluster), options,
                               &e, &w->err),
               orr_baseline_name(baseline));
    return e;
}

static void refused(plan_world *w, orr_baseline baseline, const char *model, const char *cluster,
                    const orr_explore_options *options, const char *because)
{
    orr_explored e;
    assert_int_equal(orr_baseline_of(baseline, world_model(w, model), world_cluster(w, cluster),
                                     options, &e, &w->err),
                     ORR_INVALID);
    if (strstr(w->err.text, because) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", w->err.text, because);
}

static void test_each_finds_a_plan(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = world_cluster(&w, "dgx_h100_pod");
    const orr_explore_options o = asked("batch=256,seq=8k");
    for (int b = 0; b < ORR_BASELINES; b++) {
        const orr_explored e = found(&w, (orr_baseline)b, "llama3.1-8b", "dgx_h100_pod", &o);
        assert_int_equal(e.plan.batch, 256);
        assert_int_equal(e.plan.seq, 8192);
        assert_true(e.n_devices <= 256 && e.n_devices >= 128);
        assert_int_equal(orr_plan_ranks(&e.plan), e.n_devices);
        assert_true(e.step_ns > 0 && e.peak_bytes > 0 && e.peak_bytes <= e.usable_bytes);
        assert_true(e.mfu_frac > 0.02 && e.mfu_frac < 0.8);
        /* The step is what the simulator says of the text of the plan. */
        const char *text = orr_plan_text(&e.plan, w.arena);
        assert_int_equal(world_step_ns(&w, model, text, cluster, NULL), e.step_ns);
        assert_true(strlen(orr_baseline_name((orr_baseline)b)) > 2 &&
                    strlen(orr_baseline_about((orr_baseline)b)) > 9);
    }
    world_close(&w);
}

/* Llama 3 405B on 16,384 H100s: TP 8, PP 16, DP 128 at 8,192 tokens, CP 16 and DP 8 at 131,072, all
 * in the published order. */
/* Left to themselves planners hide no transfers of slices, and none is quicker for it. */
static void test_unaided(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    orr_explore_options o = asked("batch=256,seq=8k,tp=8");
    for (int b = 0; b < ORR_BASELINES; b++) {
        if (b == ORR_BASELINE_FSDP)
            continue; /* it has no slices */
        o.unaided = false;
        const orr_explored aided = found(&w, (orr_baseline)b, "llama3.1-70b", "dgx_h100_pod", &o);
        o.unaided = true;
        const orr_explored alone = found(&w, (orr_baseline)b, "llama3.1-70b", "dgx_h100_pod", &o);
        assert_int_equal(aided.plan.overlap_tp, ORR_SWITCH_ON);
        assert_int_not_equal(alone.plan.overlap_tp, ORR_SWITCH_ON);
        assert_true(alone.step_ns > aided.step_ns);
    }
    world_close(&w);
}

static void test_production_is_llama3(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    orr_explore_options o = asked("batch=2048,seq=8k");
    o.max_devices = 16384;
    orr_explored e = found(&w, ORR_BASELINE_PRODUCTION, "llama3.1-405b", "h100_24k", &o);
    assert_int_equal(e.plan.tp, 8);
    assert_int_equal(e.plan.cp, 1);
    assert_true(e.plan.pp == 8 || e.plan.pp == 16); /* 16 published; 8 are projected as well */
    assert_int_equal(e.plan.pp * e.plan.dp, 2048);
    assert_true(e.plan.vp > 1);
    assert_int_equal(e.plan.order[ORR_BASE_AXES - 1], ORR_AXIS_DP + 1);
    o = asked("batch=128,seq=128k");
    o.max_devices = 16384;
    e = found(&w, ORR_BASELINE_PRODUCTION, "llama3.1-405b", "h100_24k", &o);
    assert_int_equal(e.plan.tp, 8);
    assert_int_equal(e.plan.cp, 16);
    assert_true(e.plan.pp == 8 || e.plan.pp == 16);
    assert_int_equal(e.plan.pp * e.plan.dp, 128);
    world_close(&w);
}

/* DeepSeek-V3: experts over 64 ranks, no TP, 16 stages. */
static void test_production_is_deepseek(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    orr_explore_options o = asked("batch=15360,seq=4k");
    o.max_devices = 2048;
    const orr_explored e = found(&w, ORR_BASELINE_PRODUCTION, "deepseek-v3", "h100_24k", &o);
    assert_int_equal(e.plan.tp, 1);
    assert_int_equal(e.plan.pp, 16);
    assert_int_equal(e.plan.ep, 64);
    world_close(&w);
}

static void test_keeps_to_what_is_given(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    orr_explore_options o = asked("batch=256,seq=4k,tp=2,micro_batch=2,precision=bf16");
    o.limit = "pp<=2,dp>=8";
    for (int b = 0; b < ORR_BASELINES; b++) {
        const orr_explored e = found(&w, (orr_baseline)b, "llama3.1-8b", "dgx_h100_pod", &o);
        assert_int_equal(e.plan.tp, 2);
        assert_int_equal(e.plan.micro_batch, 2);
        assert_true(e.plan.pp <= 2 && e.plan.dp >= 8);
    }
    o = asked("batch=64,seq=4k");
    o.max_devices = 32;
    for (int b = 0; b < ORR_BASELINES; b++)
        assert_true(found(&w, (orr_baseline)b, "llama3.1-8b", "dgx_h100_pod", &o).n_devices <= 32);
    world_close(&w);
}

static void test_leaves_out(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    orr_explore_options o = asked("batch=256,seq=4k");
    o.exclude = "overlap_tp,overlap_dp,zero,interleaved,full,zero=3";
    for (int b = 0; b < ORR_BASELINES; b++) {
        if (b == ORR_BASELINE_FSDP)
            continue;
        const orr_explored e = found(&w, (orr_baseline)b, "llama3.2-1b", "dgx_h100_pod", &o);
        assert_int_equal(e.plan.overlap_tp, ORR_SWITCH_OFF);
        assert_int_equal(e.plan.overlap_dp, ORR_SWITCH_OFF);
        assert_int_equal(e.plan.zero, 0);
        assert_int_not_equal(e.plan.schedule, ORR_SCHEDULE_INTERLEAVED);
        assert_int_not_equal(e.plan.recompute, ORR_RECOMPUTE_FULL);
    }
    refused(&w, ORR_BASELINE_FSDP, "llama3.2-1b", "dgx_h100_pod", &o, "fits");
    world_close(&w);
}

static void test_fsdp_shards_all(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    orr_explore_options o = asked("batch=256,seq=8k");
    const orr_explored e = found(&w, ORR_BASELINE_FSDP, "llama3.1-8b", "dgx_h100_pod", &o);
    assert_int_equal(e.plan.zero, 3);
    assert_int_equal(e.plan.pp, 1);
    assert_int_equal(e.plan.dp, 256);
    assert_int_equal(e.plan.shards, 256);
    o = asked("batch=64,seq=8k"); /* fewer samples than devices: slices */
    assert_int_equal(found(&w, ORR_BASELINE_FSDP, "llama3.1-8b", "dgx_h100_pod", &o).n_devices,
                     256);
    o = asked("batch=256,pp=2");
    refused(&w, ORR_BASELINE_FSDP, "llama3.1-8b", "dgx_h100_pod", &o, "no pipeline");
    world_close(&w);
}

/* Metis takes data parallelism before tensor parallelism: a model that fits without slices gets
 * none. */
static void test_metis_prefers_replicas(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    const orr_explore_options o = asked("batch=256,seq=4k");
    assert_int_equal(found(&w, ORR_BASELINE_METIS, "llama3.2-1b", "dgx_h100_pod", &o).plan.tp, 1);
    world_close(&w);
}

static void test_says_why_not(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    orr_explore_options o = asked("seq=8k");
    refused(&w, ORR_BASELINE_ATLAS, "llama3.1-8b", "dgx_h100_pod", &o, "batch");
    o = asked("batch=8");
    for (int b = 0; b < ORR_BASELINES; b++)
        refused(&w, (orr_baseline)b, "llama3.1-405b", "dgx_h100", &o, "fits");
    o = asked("batch=256");
    o.limit = "tpp<=8";
    refused(&w, ORR_BASELINE_SAILOR, "llama3.1-8b", "dgx_h100_pod", &o, "tpp");
    static const char *const absurd[] = {
        "batch=2147483647,tp=4294967295,cp=4294967295,pp=4294967295",
        "batch=1,micro_batch=4294967295",
        "batch=2147483647,ep=4294967295,etp=4294967295",
        "batch=2147483647,pp=80,tp=65536,cp=65536",
        "batch=2147483647",
        "batch=7,dp=8",
        "batch=4294967295,vp=4294967295,recompute_layers=4294967295",
        "batch=256,vp=2147483648",
        "batch=256,pp=2,vp=2147483648"};
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
        for (int b = 0; b < ORR_BASELINES; b++) {
            orr_explored e;
            o = asked(absurd[i]);
            const orr_status status =
                orr_baseline_of((orr_baseline)b, world_model(&w, "llama3.1-8b"),
                                world_cluster(&w, "dgx_h100_pod"), &o, &e, &w.err);
            assert_true(status == ORR_OK || status == ORR_INVALID || status == ORR_LIMIT);
        }
    o = asked("batch=256,colour=3");
    refused(&w, ORR_BASELINE_AMP, "llama3.1-8b", "dgx_h100_pod", &o, "colour");
    o = asked("batch=256");
    o.min_devices = 100000;
    refused(&w, ORR_BASELINE_AMP, "llama3.1-8b", "dgx_h100_pod", &o, "fits");
    orr_explored e;
    assert_int_equal(orr_baseline_of((orr_baseline)99, world_model(&w, "llama3.1-8b"),
                                     world_cluster(&w, "dgx_h100_pod"), &o, &e, &w.err),
                     ORR_INVALID);
    assert_string_equal(orr_baseline_name((orr_baseline)99), "?");
    world_close(&w);
}

static void test_survives_no_memory(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.2-1b");
    const orr_cluster *cluster = world_cluster(&w, "dgx_h100");
    const orr_explore_options o = asked("batch=32,seq=1k");
    const orr_baseline few[] = {ORR_BASELINE_PRODUCTION, ORR_BASELINE_SAILOR,
                                ORR_BASELINE_CROSSPIPE, ORR_BASELINE_METIS};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (uint64_t nth = 1;; nth = nth < 24 ? nth + 1 : nth + nth / 4) {
            orr_explored e;
            orr_alloc_fail_from(nth);
            const orr_status status = orr_baseline_of(few[i], model, cluster, &o, &e, &w.err);
            orr_alloc_fail_from(0);
            if (status == ORR_OK)
                break;
            assert_int_equal(status, ORR_NO_MEMORY);
        }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_finds_a_plan),
        cmocka_unit_test(test_unaided),
        cmocka_unit_test(test_production_is_llama3),
        cmocka_unit_test(test_production_is_deepseek),
        cmocka_unit_test(test_keeps_to_what_is_given),
        cmocka_unit_test(test_leaves_out),
        cmocka_unit_test(test_fsdp_shards_all),
        cmocka_unit_test(test_metis_prefers_replicas),
        cmocka_unit_test(test_says_why_not),
        cmocka_unit_test(test_survives_no_memory),
    };
    return cmocka_run_group_tests_name("plan/baseline", tests, NULL, NULL);
}
