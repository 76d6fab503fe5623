/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/philox.h"

/* Closed forms beside the simulation that they stand for. */
enum { PLANS = 40, MOST_PLANS = 120 };

typedef struct survey {
    double off[MOST_PLANS], memory_off[MOST_PLANS]; /* shares, absolute */
    int n, above; /* above: more than a hundredth above the simulation */
    double worst;
    char worst_plan[200];
} survey;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint32_t one_of(orr_random *r, uint32_t n, const uint32_t *values)
{
    return values[orr_random_below(r, n)];
}
#define ONE_OF(r, ...)                                                                             \
    one_of((r), sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                        \
           (const uint32_t[]){__VA_ARGS__})

static void choose_schedule(orr_random *r, orr_plan *p)
{
    p->schedule = (uint8_t)ONE_OF(r, 0, 0, 0, ORR_SCHEDULE_GPIPE, ORR_SCHEDULE_INTERLEAVED,
                                  ORR_SCHEDULE_INTERLEAVED, ORR_SCHEDULE_ZB_H1, ORR_SCHEDULE_ZB_V,
                                  ORR_SCHEDULE_DUALPIPE);
    if (p->pp == 1)
        p->schedule = ORR_SCHEDULE_UNKNOWN;
    if (p->schedule == ORR_SCHEDULE_INTERLEAVED)
        p->vp = ONE_OF(r, 2, 3, 4);
    if (p->schedule == ORR_SCHEDULE_DUALPIPE)
        p->micro_batches = 2 * (p->pp + ONE_OF(r, 0, 3, 8));
}

/* What a search looks at: gradients and states whole or in shards, weights whole. */
static orr_plan random_plan(orr_random *r, bool sharded)
{
    orr_plan p = {.tp = ONE_OF(r, 1, 2, 4, 8, 8),
                  .pp = ONE_OF(r, 1, 2, 4, 8, 8, 16),
                  .cp = ONE_OF(r, 1, 1, 1, 2),
                  .dp = ONE_OF(r, 1, 4, 16, 64),
                  .micro_batch = ONE_OF(r, 1, 1, 2),
                  .micro_batches = ONE_OF(r, 2, 8, 16, 32)};
    choose_schedule(r, &p);
    p.zero = ONE_OF(r, 0, 1, 1);
    if (sharded)
        p.zero = p.pp == 1 ? 3 : 2;
    if (sharded && p.schedule == ORR_SCHEDULE_DUALPIPE)
        p.schedule = ORR_SCHEDULE_UNKNOWN;
    p.recompute = (uint8_t)ONE_OF(r, 0, ORR_RECOMPUTE_FULL, ORR_RECOMPUTE_SELECTIVE);
    p.overlap_dp = (uint8_t)ONE_OF(r, 0, 0, 0, ORR_SWITCH_OFF);
    p.overlap_tp = (uint8_t)ONE_OF(r, 0, 0, 0, ORR_SWITCH_ON);
    p.overlap_pp = (uint8_t)ONE_OF(r, 0, 0, 0, ORR_SWITCH_OFF);
    p.precision = (uint8_t)ONE_OF(r, 0, 0, ORR_PRECISION_FP8);
    return p;
}

static void compare(plan_world *w, const orr_model *model, const orr_plan *plan,
                    const orr_cluster *cluster, orr_estimator *estimator, survey *s)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_estimate e;
    orr_outcome o;
    const orr_status status = orr_outcome_of(model, plan, cluster, NULL, arena, &o, &w->err);
    if (status == ORR_OK) {
        const char *text = orr_plan_text(plan, arena);
        world_must(w, orr_estimate_of(estimator, plan, &e, &w->err), text);
        const double off = (double)e.step_ns / (double)o.step_ns - 1;
        const int64_t peak = o.memory.stages[o.memory.worst].peak_bytes;
        s->off[s->n] = fabs(off);
        s->memory_off[s->n++] = fabs((double)e.peak_bytes / (double)peak - 1);
        s->above += off > 0.01;
        if (fabs(off) > s->worst) {
            s->worst = fabs(off);
            snprintf(s->worst_plan, sizeof s->worst_plan, "%s", text);
        }
        orr_outcome_free(&o);
    }
    orr_arena_free(arena);
}

static void survey_plans(const char *name, uint64_t seed, bool sharded, survey *s)
{
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, name);
    const orr_cluster *cluster = world_cluster(&w, "h100-24k");
    orr_estimator *estimator;
    world_must(&w, orr_estimator_new(model, cluster, NULL, &estimator, &w.err), name);
    orr_random random = orr_random_of(seed, 0);
    *s = (survey){0};
    for (int i = 0; i < PLANS; i++) {
        const orr_plan plan = random_plan(&random, sharded);
        compare(&w, model, &plan, cluster, estimator, s);
    }
    orr_estimator_free(estimator);
    world_close(&w);
    qsort(s->off, (size_t)s->n, sizeof *s->off, by_value);
    qsort(s->memory_off, (size_t)s->n, sizeof *s->memory_off, by_value);
    print_message(
        "%s: %d plans, off by %.2f %% in the median, %.2f %% in nine of ten, at most %.2f "
        "%% (%s); %d more than 1 %% above; memory %.2f %%, at most %.2f %%\n",
        name, s->n, 100 * s->off[s->n / 2], 100 * s->off[s->n * 9 / 10], 100 * s->worst,
        s->worst_plan, s->above, 100 * s->memory_off[s->n / 2], 100 * s->memory_off[s->n - 1]);
    assert_true(s->n >= PLANS * 2 / 3);
}

/* What <orrery/outcome.h> guarantees. */
static void steps_are_those_of_the_simulation(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt3-175b", "llama3.1-405b"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        survey s;
        survey_plans(models[i], 11 + i, false, &s);
        assert_true(s.off[s.n / 2] < 0.01);
        assert_true(s.off[s.n * 9 / 10] < 0.025);
        assert_true(s.worst < 0.09);
        assert_true(s.memory_off[s.n / 2] < 0.01);
        assert_true(s.memory_off[s.n - 1] < 0.10);
    }
}

static void shards_of_gradients_and_weights_too(void **state)
{
    (void)state;
    survey s;
    survey_plans("llama3.1-70b", 5, true, &s);
    assert_true(s.off[s.n / 2] < 0.01);
    assert_true(s.off[s.n * 9 / 10] < 0.05);
    assert_true(s.worst < 0.20);
    assert_true(s.memory_off[s.n - 1] < 0.10);
}

/* Experts, latent attention, encoders, tables, convolutions. */
static void other_models_are_as_near(void **state)
{
    (void)state;
    static const struct {
        const char *model, *plan;
        double most; /* of a step of a few ms, what overlaps is more of it */
    } jobs[] = {
        {"mixtral-8x7b", "tp=4,pp=2,ep=8,etp=1,dp=16,micro_batches=16,zero=1", 0.015},
        {"deepseek-v3", "tp=1,ep=8,dp=16,pp=4,micro_batches=16,zero=1,vp=2", 0.015},
        {"llama4-scout", "tp=4,pp=8,dp=4,micro_batches=16,recompute=block,recompute_layers=1",
         0.015},
        {"dlrm-dcnv2", "dp=64,micro_batch=512", 0.015},
        {"resnet50", "dp=8,micro_batch=32", 0.015},
    };
    plan_world w;
    world_open(&w);
    const orr_cluster *cluster = world_cluster(&w, "h100-24k");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const orr_model *model = world_model(&w, jobs[i].model);
        const orr_plan plan = world_plan(&w, jobs[i].plan);
        orr_estimator *estimator;
        survey s = {0};
        world_must(&w, orr_estimator_new(model, cluster, NULL, &estimator, &w.err), "new");
        compare(&w, model, &plan, cluster, estimator, &s);
        orr_estimator_free(estimator);
        assert_int_equal(s.n, 1);
        if (s.off[0] > jobs[i].most || s.memory_off[0] > 0.01)
            fail_msg("%s: off by %.2f %%, memory by %.2f %%", jobs[i].model, 100 * s.off[0],
                     100 * s.memory_off[0]);
    }
    world_close(&w);
}

/* A calibration that no fit changes. */
static const orr_calibration FIXED = {.name = "",
                                      .source = "",
                                      .matmul_bf16 = 0.75,
                                      .matmul_fp8 = 0.63,
                                      .matmul_fp4 = 0.6,
                                      .matmul_half = 2e8,
                                      .matmul_narrow = 25,
                                      .matmul_grouped = 0.8,
                                      .matmul_odd = 0.5,
                                      .attention = 0.6,
                                      .attention_backward = 0.45,
                                      .attention_half = 180,
                                      .attention_narrow = 13,
                                      .attention_eager = 0.9,
                                      .memory = 0.6,
                                      .stream = 0.85,
                                      .kernel_ns = 3000,
                                      .launch_ns = 20000,
                                      .scale_up = 0.76,
                                      .scale_up_ns = 30000,
                                      .scale_out = 0.9,
                                      .scale_out_ns = 50000,
                                      .collective_ns = 15000,
                                      .compute_slowdown = 1.05,
                                      .dp_exposed = 0.3,
                                      .micro_batch_ns = 3e5,
                                      .step_ns = 1e7,
                                      .jitter_frac = 0.01,
                                      .error_frac = NAN,
                                      .low_frac = NAN,
                                      .high_frac = NAN,
                                      .basis = ORR_BASIS_FITTED};

/* Plans without sites, wires or sections: to the ns what they were before there were any. */
static void figures_stay_as_they_were(void **state)
{
    (void)state;
    static const struct {
        const char *model, *plan;
        int64_t step_ns, peak_bytes;
    } jobs[] = {
        {"llama3.1-405b",
         "dp=64,tp=1,pp=4,micro_batches=32,micro_batch=2,cp=1,vp=4,zero=1,schedule=interleaved,"
         "recompute=selective,precision=fp8,graphs=on",
         332599232088, 1779214441779},
        {"llama3.1-405b",
         "dp=1,tp=8,pp=8,micro_batches=100,micro_batch=1,cp=4,zero=3,prefetch=1,schedule=zb_v,"
         "recompute=selective,precision=fp8,overlap_dp=off,reshard=off",
         16056179377, 71008669053},
        {"llama3.1-405b",
         "dp=64,tp=8,pp=8,micro_batches=128,micro_batch=2,seq=4096,cp=1,zero=1,schedule=zb_h1,"
         "recompute=selective,precision=fp8,overlap_pp=off,graphs=on,offload=optimizer",
         51740290040, 138633648714},
        {"gpt3-175b",
         "dp=4,tp=1,pp=2,micro_batches=8,micro_batch=4,cp=4,zero=1,schedule=gpipe,precision=fp8,"
         "overlap_ep=on,offload=optimizer",
         12080658521, 812043210199},
        {"gpt3-175b",
         "dp=16,tp=1,pp=16,micro_batches=16,micro_batch=4,seq=4096,cp=2,zero=3,shards=8,precision=fp8,"
         "overlap_pp=off,reshard=off",
         18734035834, 344322260820},
        {"mixtral-8x7b",
         "dp=32,tp=2,pp=16,micro_batches=48,micro_batch=1,cp=1,ep=8,zero=1,schedule=dualpipe,"
         "recompute=full,overlap_dp=off,graphs=on,offload=optimizer",
         3337921733, 26265179504},
        {"mixtral-8x7b",
         "dp=16,tp=2,pp=8,micro_batches=2,micro_batch=4,cp=1,ep=2,etp=1,zero=2,shards=4,"
         "precision=fp8,graphs=on",
         2351206903, 52679391183},
        {"deepseek-v3",
         "dp=2,tp=8,pp=8,micro_batches=100,micro_batch=1,seq=4096,cp=2,ep=16,etp=1,vp=2,zero=2,"
         "schedule=interleaved,recompute=full,gradients=bf16,fusion=off,graphs=on,order=tp-cp-pp-dp",
         9933357387, 64882244464},
        {"llama3.1-8b",
         "dp=32,tp=4,pp=2,micro_batches=8,micro_batch=1,cp=1,zero=1,overlap_dp=off,overlap_ep=on",
         1139991682, 18603303362},
    };
    plan_world w;
    orr_job_options options;
    world_open(&w);
    orr_job_options_init(&options);
    options.calibration = &FIXED;
    const orr_cluster *cluster = world_cluster(&w, "h100-24k");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const orr_model *model = world_model(&w, jobs[i].model);
        const orr_plan plan = world_plan(&w, jobs[i].plan);
        orr_estimator *e;
        orr_estimate estimate;
        world_must(&w, orr_estimator_new(model, cluster, &options, &e, &w.err), jobs[i].model);
        world_must(&w, orr_estimate_of(e, &plan, &estimate, &w.err), jobs[i].plan);
        assert_int_equal(estimate.step_ns, jobs[i].step_ns);
        assert_int_equal(estimate.peak_bytes, jobs[i].peak_bytes);
        orr_estimator_free(e);
    }
    world_close(&w);
}

/* Replicas or stages over buildings, regions and kinds of devices; sections, wires, pieces, local
 * steps. */
static void sites_are_as_near(void **state)
{
    (void)state;
    static const struct {
        const char *model, *cluster, *plan;
    } jobs[] = {
        {"llama3.1-70b", "three_buildings", "tp=8,pp=4,dp=24,sites=8-8-8,micro_batches=16,zero=1"},
        {"llama3.1-70b", "three_buildings",
         "tp=8,pp=4,dp=24,sites=12-8-4,micro_batches=16,zero=1,dp_algorithm=hierarchical,wire_dp=qp4"},
        {"llama3.1-70b", "two_regions",
         "tp=8,pp=8,dp=8,cross=pp,sites=2-2-2-2,micro_batches=32,zero=1,wire_pp=qp16"},
        {"llama3.1-70b", "two_regions",
         "tp=8,pp=8,dp=8,cross=pp,dp_outer=2,sites=4-4-4-4,micro_batches=32,zero=1"},
        {"llama3.1-70b", "two_regions",
         "tp=8,pp=4,dp=16,sites=4-4-4-4,local_steps=32,micro_batches=16,zero=1"},
        {"llama3.1-70b", "mixed_buildings", "tp=8,pp=4,dp=12,sites=4-4-4,micro_batches=16,zero=1"},
        {"llama3.1-70b", "mixed_buildings",
         "tp=8,pp=8,dp=8,cross=pp,sites=4-0-4,sections=4x6-4x14,micro_batches=32,zero=1"},
        {"mixtral-8x7b", "gcp_a100_two_regions",
         "tp=4,ep=2,pp=4,dp=16,sites=8-4-4,micro_batches=16,zero=1"},
    };
    plan_world w;
    world_open(&w);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const orr_model *model = world_model(&w, jobs[i].model);
        const orr_cluster *cluster = world_cluster(&w, jobs[i].cluster);
        const orr_plan plan = world_plan(&w, jobs[i].plan);
        orr_estimator *estimator;
        survey s = {0};
        world_must(&w, orr_estimator_new(model, cluster, NULL, &estimator, &w.err), "new");
        compare(&w, model, &plan, cluster, estimator, &s);
        orr_estimator_free(estimator);
        assert_int_equal(s.n, 1);
        if (s.off[0] > 0.02 || s.memory_off[0] > 0.01)
            fail_msg("%s: off by %.2f %%, memory by %.2f %%", jobs[i].plan, 100 * s.off[0],
                     100 * s.memory_off[0]);
    }
    world_close(&w);
}

/* Memory is that of the stage's own device. */
static void memory_is_that_of_the_stage(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *cluster = world_cluster(&w, "mixed_buildings");
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_plan large = world_plan(&w, "tp=1,pp=4,dp=2,cross=pp,sites=0-2-2,micro_batches=8"),
                   both = world_plan(&w, "tp=1,pp=4,dp=2,cross=pp,sites=2-0-2,micro_batches=8");
    orr_estimator *e;
    orr_estimate a, b;
    world_must(&w, orr_estimator_new(model, cluster, NULL, &e, &w.err), "new");
    world_must(&w, orr_estimate_of(e, &large, &a, &w.err), "H200 and B200");
    world_must(&w, orr_estimate_of(e, &both, &b, &w.err), "H100 and B200");
    assert_true(a.usable_bytes > 120ll << 30);
    assert_true(b.usable_bytes <= 80ll << 30);
    orr_estimator_free(e);
    world_close(&w);
}

/* In any order, and by an estimator that has seen others. */
static void answers_depend_on_the_plan_alone(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_cluster *cluster = world_cluster(&w, "h100-24k");
    orr_estimator *used, *fresh;
    orr_random random = orr_random_of(3, 0);
    world_must(&w, orr_estimator_new(model, cluster, NULL, &used, &w.err), "new");
    for (int i = 0; i < PLANS; i++) {
        const orr_plan plan = random_plan(&random, i % 2);
        orr_estimate a, b, c;
        if (orr_estimate_of(used, &plan, &a, &w.err) != ORR_OK)
            continue;
        world_must(&w, orr_estimator_new(model, cluster, NULL, &fresh, &w.err), "new");
        world_must(&w, orr_estimate_of(fresh, &plan, &b, &w.err), "fresh");
        world_must(&w, orr_estimate_of(used, &plan, &c, &w.err), "again");
        orr_estimator_free(fresh);
        assert_int_equal(a.step_ns, b.step_ns);
        assert_int_equal(a.step_ns, c.step_ns);
        assert_int_equal(a.peak_bytes, b.peak_bytes);
        assert_int_equal(a.bound_ns, b.bound_ns);
        assert_int_equal(a.bound_ns, c.bound_ns);
        int64_t sum = 0;
        for (int part = 0; part < ORR_WATERFALLS; part++) {
            assert_int_equal(a.waterfall_ns[part], b.waterfall_ns[part]);
            sum += a.waterfall_ns[part];
        }
        assert_int_equal(sum, a.step_ns);
        assert_int_equal(a.fits, a.peak_bytes <= 80ll << 30);
    }
    orr_estimator_free(used);
    world_close(&w);
}

static void must_refuse(plan_world *w, orr_estimator *e, const char *text, const char *why)
{
    const orr_plan plan = world_plan(w, text);
    orr_estimate estimate;
    assert_int_equal(orr_estimate_of(e, &plan, &estimate, &w->err), ORR_INVALID);
    if (strstr(w->err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, w->err.text, why);
}

static void plans_that_cannot_be_are_refused(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *host = world_cluster(&w, "dgx_h100");
    const orr_model *model = world_model(&w, "llama3.1-8b");
    orr_estimator *e;
    world_must(&w, orr_estimator_new(model, host, NULL, &e, &w.err), "new");
    must_refuse(&w, e, "pp=2", "micro-batches");
    must_refuse(&w, e, "tp=16", "has 8 devices");
    must_refuse(&w, e, "tp=3", "3");
    must_refuse(&w, e, "pp=8,vp=8,micro_batches=8", "layers");
    orr_estimator_free(e);
    orr_estimator_free(NULL);
    orr_job_options options;
    orr_job_options_init(&options);
    options.workload.task = ORR_TASK_RL;
    assert_int_equal(orr_estimator_new(model, host, &options, &e, &w.err), ORR_UNSUPPORTED);
    options.workload.task = ORR_TASK_PRETRAIN;
    options.n_heterogeneous = 1;
    assert_int_equal(orr_estimator_new(model, host, &options, &e, &w.err), ORR_UNSUPPORTED);
    world_close(&w);
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *host = world_cluster(&w, "dgx_h100");
    const orr_model *model = world_model(&w, "llama3.2-1b");
    const orr_plan plan = world_plan(&w, "tp=2,pp=4,micro_batches=8,vp=2,zero=1");
    orr_status status = ORR_NO_MEMORY;
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_estimator *e = NULL;
        orr_estimate estimate, again;
        orr_alloc_fail_from(nth);
        status = orr_estimator_new(model, host, NULL, &e, &w.err);
        if (status == ORR_OK)
            status = orr_estimate_of(e, &plan, &estimate, &w.err);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        if (e != NULL) /* what failed half way is built anew */
            world_must(&w, orr_estimate_of(e, &plan, &again, &w.err), "after");
        orr_estimator_free(e);
        assert_true(nth < 10000);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_simulation),
        cmocka_unit_test(shards_of_gradients_and_weights_too),
        cmocka_unit_test(other_models_are_as_near),
        cmocka_unit_test(figures_stay_as_they_were),
        cmocka_unit_test(sites_are_as_near),
        cmocka_unit_test(memory_is_that_of_the_stage),
        cmocka_unit_test(answers_depend_on_the_plan_alone),
        cmocka_unit_test(plans_that_cannot_be_are_refused),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
