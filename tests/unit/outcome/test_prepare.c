/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog_jobs.h"

/* What a plan leaves open, and the job decides. */

static orr_job_options options_of(uint8_t task)
{
    orr_job_options options;
    orr_job_options_init(&options);
    options.workload.task = task;
    options.workload.prompt = 1024;
    return options;
}

/* A batch alone: training takes micro-batches of one sample, and what accumulates no gradients
 * takes the samples of a replica at once, or in as many parts as fill the pipeline. */
static void micro_batches_follow_from_the_task(void **state)
{
    (void)state;
    static const struct {
        const char *model, *plan;
        uint8_t task;
        uint32_t micro_batch, micro_batches;
    } cases[] = {
        {"llama3.1-8b", "tp=8,batch=32", ORR_TASK_PRETRAIN, 1, 32},
        {"llama3.1-8b", "tp=8,batch=32", ORR_TASK_LORA, 1, 32},
        {"llama3.1-8b", "tp=8,batch=32", ORR_TASK_DECODE, 32, 1},
        {"llama3.1-8b", "tp=4,dp=2,batch=32", ORR_TASK_PREFILL, 16, 1},
        {"llama3.1-8b", "tp=4,pp=2,batch=32", ORR_TASK_DECODE, 16, 2},
        {"llama3.1-8b", "tp=4,pp=2,batch=32", ORR_TASK_PREFILL, 4, 8},
        {"llama3.1-8b", "tp=2,pp=4,batch=6", ORR_TASK_DECODE, 2, 3},
        {"llama3.1-8b", "tp=8,batch=32,micro_batch=4", ORR_TASK_DECODE, 4, 8},
        {"llama3.1-8b", "tp=8,batch=32,micro_batches=4", ORR_TASK_DECODE, 8, 4},
        {"dlrm-dcnv2", "dp=8,batch=65536", ORR_TASK_PRETRAIN, 8192, 1},
    };
    plan_world w;
    world_open(&w);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_job_options options = options_of(cases[i].task);
        orr_outcome o = world_outcome(&w, world_model(&w, cases[i].model), cases[i].plan,
                                      world_cluster(&w, "dgx_h100"), &options);
        if (o.plan.micro_batch != cases[i].micro_batch ||
            o.plan.micro_batches != cases[i].micro_batches)
            fail_msg("%s of %s: %u micro-batches of %u", cases[i].plan,
                     orr_task_name((orr_task)cases[i].task), o.plan.micro_batches,
                     o.plan.micro_batch);
        assert_true(isfinite(o.tokens_per_s) == (o.model->kind == ORR_MODEL_TRANSFORMER));
        assert_true(isfinite(o.samples_per_s));
        orr_outcome_free(&o);
    }
    world_close(&w);
}

/* Replicas cross sites unless the plan says otherwise; within a site the usual order stays. */
static void replicas_cross_sites(void **state)
{
    (void)state;
    static const char plan[] = "tp=8,pp=16,dp=576,batch=4608";
    plan_world w;
    world_open(&w);
    const orr_cluster *regions = world_cluster(&w, "h100_3x24k");
    const orr_model *model = world_model(&w, "llama3.1-70b");
    const char *said = orr_arena_printf(w.arena, "%s,cross=dp", plan),
               *stages = orr_arena_printf(w.arena, "%s,cross=pp", plan);
    orr_outcome o = world_outcome(&w, model, plan, regions, NULL);
    assert_int_equal(o.plan.cross, ORR_CROSS_DP);
    assert_int_equal(o.step_ns, world_step_ns(&w, model, said, regions, NULL));
    assert_int_not_equal(o.step_ns, world_step_ns(&w, model, stages, regions, NULL));
    orr_outcome_free(&o);
    o = world_outcome(&w, model, "tp=8,pp=16,dp=2,batch=64", regions, NULL);
    assert_int_equal(o.plan.order[ORR_BASE_AXES - 1], ORR_AXIS_PP + 1);
    orr_outcome_free(&o);
    world_close(&w);
}

static void must_not_run(plan_world *w, const char *model, const char *plan_text, uint8_t task,
                         const char *why)
{
    const orr_job_options options = options_of(task);
    const orr_plan plan = world_plan(w, plan_text);
    orr_outcome o;
    assert_int_not_equal(orr_outcome_of(world_model(w, model), &plan,
                                        world_cluster(w, "dgx_h100_pod"), &options, w->arena, &o,
                                        &w->err),
                         ORR_OK);
    if (strstr(w->err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", w->err.text, why);
}

/* Serving spreads experts over the ranks that there are; training is told what would be right. */
static void experts_fit_the_ranks_that_serve(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        uint32_t etp;
    } cases[] = {
        {"tp=8,ep=8,batch=8", 1},        {"tp=8,ep=4,batch=8", 2},
        {"tp=8,dp=2,ep=16,batch=16", 1}, {"tp=8,ep=8,etp=1,batch=8", 1},
        {"tp=2,dp=4,ep=4,batch=8", 2},
    };
    plan_world w;
    world_open(&w);
    const orr_job_options options = options_of(ORR_TASK_DECODE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_outcome o = world_outcome(&w, world_model(&w, "deepseek-v2"), cases[i].plan,
                                      world_cluster(&w, "dgx_h100_pod"), &options);
        assert_int_equal(o.plan.etp, cases[i].etp);
        orr_outcome_free(&o);
    }
    must_not_run(&w, "deepseek-v2", "tp=8,ep=8,batch=8", ORR_TASK_PRETRAIN, "etp=1");
    must_not_run(&w, "deepseek-v2", "tp=8,ep=16,batch=8", ORR_TASK_DECODE, "ep=16");
    must_not_run(&w, "deepseek-v2", "tp=8,ep=8,batch=4", ORR_TASK_DECODE, "a multiple of 8");
    must_not_run(&w, "llama3.1-8b", "tp=8,ep=2,batch=8", ORR_TASK_PRETRAIN, "has no experts");
    world_close(&w);
}

/* Without folding every rank is simulated, and counted. */
static void nodes_are_those_simulated(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *host = world_cluster(&w, "dgx_h100");
    const orr_model *model = world_model(&w, "llama3.2-1b");
    orr_job_options options = options_of(ORR_TASK_PRETRAIN);
    orr_outcome folded = world_outcome(&w, model, "tp=4,dp=2,batch=8", host, &options);
    options.fold = false;
    orr_outcome all = world_outcome(&w, model, "tp=4,dp=2,batch=8", host, &options);
    assert_int_equal(folded.simulation->n_classes, 1);
    assert_int_equal(all.simulation->n_classes, 8);
    assert_int_equal(all.n_nodes, 8 * folded.n_nodes);
    orr_outcome_free(&folded);
    orr_outcome_free(&all);
    world_close(&w);
}

/* Layers are split by cost: never slower than evenly, and stated by the plan, which then says the
 * same job. */
static void layers_are_split_by_cost(void **state)
{
    (void)state;
    static const struct {
        const char *model, *cluster, *plan, *even;
        double gain_frac; /* at least */
    } cases[] = {
        {"llama3.2-1b", "dgx_h100", "pp=4,batch=32", "sections=4x4", 0.3},
        {"llama3.2-1b", "dgx_h100", "pp=2,tp=2,batch=16", "sections=2x8", 0.05},
        {"llama3.2-1b", "dgx_h100", "pp=4,batch=32,schedule=zb_v", "sections=4x4", 0},
        {"llama3.2-1b", "dgx_h100", "pp=4,vp=2,batch=32", "sections=4x4", 0.1},
        {"llama3.2-1b", "dgx_h100", "pp=4,batch=32,schedule=gpipe", "sections=4x4", 0.3},
        {"llama3.1-8b", "dgx_h100", "pp=8,batch=16", "sections=8x4", 0.1},
        {"llama3.1-8b", "dgx_h100", "pp=8,batch=16,schedule=zb_h1", "sections=8x4", 0.1},
        {"llama3.1-8b", "dgx_h100", "tp=2,pp=4,vp=4,batch=16", "sections=4x8", 0},
        {"llama3.1-8b", "dgx_a100", "tp=4,pp=2,batch=8,zero=1", "sections=2x16", 0},
        {"llama3.1-70b", "dgx_h100_pod", "tp=8,pp=8,batch=64", "sections=8x10", 0},
        {"llama3.1-70b", "dgx_h100_pod", "tp=8,pp=4,dp=2,vp=5,batch=32", "sections=4x20", 0},
        {"gpt3-175b", "dgx_h100_pod", "tp=8,pp=16,dp=2,batch=64", "sections=16x6", 0},
        {"deepseek-v3", "h100_24k", "pp=16,ep=8,dp=8,batch=256,seq=4k", "sections=2x3-13x4-1x3",
         0.1},
    };
    plan_world w;
    world_open(&w);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_model *model = world_model(&w, cases[i].model);
        const orr_cluster *cluster = world_cluster(&w, cases[i].cluster);
        orr_outcome o = world_outcome(&w, model, cases[i].plan, cluster, NULL);
        const char *even = orr_arena_printf(w.arena, "%s,%s", cases[i].plan, cases[i].even);
        const double gain =
            (double)world_step_ns(&w, model, even, cluster, NULL) / (double)o.step_ns - 1;
        if (gain < cases[i].gain_frac)
            fail_msg("%s, %s: %u layers, %u on the last stage: %.2f %% faster than evenly",
                     cases[i].model, cases[i].plan, o.plan.first_layers, o.plan.last_layers,
                     100 * gain);
        assert_int_equal(o.step_ns,
                         world_step_ns(&w, model, orr_plan_text(&o.plan, w.arena), cluster, NULL));
        orr_outcome_free(&o);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_follow_from_the_task),
        cmocka_unit_test(replicas_cross_sites),
        cmocka_unit_test(experts_fit_the_ranks_that_serve),
        cmocka_unit_test(nodes_are_those_simulated),
        cmocka_unit_test(layers_are_split_by_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
