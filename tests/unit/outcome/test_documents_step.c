/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog_jobs.h"

/* Steps whose samples are packed of documents. */

static const char *const PLANS[] = {
    "tp=4,cp=4,pp=2,dp=1,seq=32k,micro_batches=4",
    "tp=4,cp=4,pp=2,dp=1,seq=32k,micro_batches=4,cp_kind=all_gather,recompute=full",
    "tp=2,cp=2,pp=2,dp=4,seq=16k,micro_batches=8,micro_batch=2,schedule=zb_h1",
    "tp=2,cp=8,dp=2,seq=64k,micro_batches=2,zero=3,recompute=selective",
    "tp=2,dp=16,seq=8k,micro_batches=2,zero=1",
};
enum { N_PLANS = sizeof PLANS / sizeof *PLANS };

typedef struct scene {
    plan_world w;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_estimator *estimator;
} scene;

static orr_job_options with(const orr_documents *documents)
{
    orr_job_options options;
    orr_job_options_init(&options);
    options.workload.documents = documents;
    return options;
}

static void scene_open(scene *s, const char *model)
{
    world_open(&s->w);
    s->model = world_model(&s->w, model);
    s->cluster = world_cluster(&s->w, "dgx_h100_pod");
}

/* A document that fills its sample, or several samples, is a step without documents. */
static void long_documents_change_nothing(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1 << 16, 1 << 20};
    scene s;
    scene_open(&s, "llama3.1-8b");
    for (size_t i = 0; i < N_PLANS; i++) {
        orr_outcome none = world_outcome(&s.w, s.model, PLANS[i], s.cluster, NULL);
        for (size_t k = 0; k < 2; k++) {
            const orr_documents documents = {&lengths[k], 1, lengths[k], NULL};
            const orr_job_options options = with(&documents);
            orr_outcome one = world_outcome(&s.w, s.model, PLANS[i], s.cluster, &options);
            assert_int_equal(one.step_ns, none.step_ns);
            assert_memory_equal(one.waterfall_ns, none.waterfall_ns, sizeof one.waterfall_ns);
            assert_true(one.model_flops == none.model_flops && one.mfu_frac == none.mfu_frac);
            assert_true(one.hardware_flops == none.hardware_flops);
            assert_true(one.document_seen_frac == 1 && one.document_imbalance == 1);
            assert_int_equal(one.memory.stages[0].peak_bytes, none.memory.stages[0].peak_bytes);
            orr_outcome_free(&one);
        }
        assert_true(none.document_seen_frac == 0);
        orr_outcome_free(&none);
    }
    world_close(&s.w);
}

/* Cut into halves again and again, documents never make a step longer; FLOPs are those that are
 * needed, and no slice has less than the mean to do. Estimate and bound follow. */
static void shorter_documents_are_not_slower(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, "llama3.1-8b");
    static const uint32_t longest[] = {50000, 3000, 20000, 9000};
    for (size_t i = 0; i < N_PLANS; i++) {
        int64_t before_ns = INT64_MAX;
        double flops = INFINITY;
        for (uint32_t cut = 1; cut <= 64; cut *= 4) {
            uint32_t lengths[4 * 64];
            const orr_documents documents = {lengths, 4 * cut, 20500.0 / cut, NULL};
            for (uint32_t k = 0; k < 4 * cut; k++)
                lengths[k] = longest[k / cut] / cut + (k % cut < longest[k / cut] % cut);
            const orr_job_options options = with(&documents);
            const orr_plan plan = world_plan(&s.w, PLANS[i]);
            orr_outcome o = world_outcome(&s.w, s.model, PLANS[i], s.cluster, &options);
            orr_estimate estimate;
            assert_true(o.step_ns <= before_ns && o.model_flops < flops);
            assert_true(o.document_imbalance >= 1 && o.document_seen_frac < 1);
            assert_true(o.hardware_flops >= o.model_flops * 0.99);
            before_ns = o.step_ns;
            flops = o.model_flops;
            world_must(&s.w,
                       orr_estimator_new(s.model, s.cluster, &options, &s.estimator, &s.w.err),
                       PLANS[i]);
            world_must(&s.w, orr_estimate_of(s.estimator, &plan, &estimate, &s.w.err), PLANS[i]);
            assert_true(estimate.bound_ns <= o.step_ns);
            assert_near(estimate.step_ns, o.step_ns, 0.05 * (double)o.step_ns);
            orr_estimator_free(s.estimator);
            orr_outcome_free(&o);
        }
    }
    world_close(&s.w);
}

/* Without recomputation what is computed is what is needed, also where slices are uneven: the
 * excess over the mean slice is time, not FLOPs. Flash attention computes scores again: 7 products
 * of pairs where the model has 6. */
static void uneven_slices_take_time_and_no_flops(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {30000, 500, 900, 700, 14000, 300};
    const orr_documents documents = {lengths, 6, 46400.0 / 6, NULL};
    const orr_job_options options = with(&documents);
    scene s;
    scene_open(&s, "llama3.1-8b");
    orr_outcome even = world_outcome(&s.w, s.model, "tp=4,cp=1,dp=4,seq=32k", s.cluster, &options);
    orr_outcome cut =
        world_outcome(&s.w, s.model, "tp=4,cp=4,dp=1,micro_batches=4,seq=32k", s.cluster, &options);
    assert_true(even.document_imbalance == 1 && cut.document_imbalance > 1.1);
    assert_near(even.document_seen_frac, cut.document_seen_frac, 1e-12);
    assert_near(even.model_flops, cut.model_flops, 1e-9 * even.model_flops);
    assert_near(even.hardware_flops, cut.hardware_flops, 0.001 * even.hardware_flops);
    orr_outcome_free(&even);
    orr_outcome_free(&cut);
    world_close(&s.w);
}

/* Who does not train language models packs no documents; who multiplies all pairs gains nothing. */
static void says_where_there_are_none(void **state)
{
    (void)state;
    static const uint32_t length = 512;
    const orr_documents documents = {&length, 1, length, NULL};
    orr_job_options options = with(&documents);
    scene s;
    orr_outcome o;
    scene_open(&s, "llama3.1-8b");
    const char *text = "tp=2,dp=2,seq=4k,flash=off";
    assert_int_equal(world_step_ns(&s.w, s.model, text, s.cluster, &options),
                     world_step_ns(&s.w, s.model, text, s.cluster, NULL));
    options.workload.task = ORR_TASK_DECODE;
    const orr_plan plan = world_plan(&s.w, "tp=2,dp=2,batch=8");
    assert_int_equal(orr_outcome_of(s.model, &plan, s.cluster, &options, s.w.arena, &o, &s.w.err),
                     ORR_UNSUPPORTED);
    assert_non_null(strstr(s.w.err.text, "documents"));
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_documents_change_nothing),
        cmocka_unit_test(shorter_documents_are_not_slower),
        cmocka_unit_test(uneven_slices_take_time_and_no_flops),
        cmocka_unit_test(says_where_there_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
