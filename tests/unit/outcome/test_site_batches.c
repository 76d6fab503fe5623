/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog_jobs.h"

#include <stdio.h>

#include "base/philox.h"

/* Replicas with unequally many micro-batches, and layers split by cost, over sites. */

typedef struct scene {
    plan_world w;
    const orr_model *model;
    const orr_cluster *same, *mixed; /* sites of one device, and of several */
} scene;

static void scene_open(scene *s)
{
    world_open(&s->w);
    s->model = world_model(&s->w, "llama3.1-8b");
    s->same = world_cluster(&s->w, "three_buildings");
    s->mixed = world_cluster(&s->w, "mixed_buildings");
}

static orr_estimate estimated(scene *s, const orr_cluster *cluster, const char *text)
{
    const orr_plan plan = world_plan(&s->w, text);
    orr_estimator *estimator;
    orr_estimate estimate;
    world_must(&s->w, orr_estimator_new(s->model, cluster, NULL, &estimator, &s->w.err), text);
    world_must(&s->w, orr_estimate_of(estimator, &plan, &estimate, &s->w.err), text);
    orr_estimator_free(estimator);
    return estimate;
}

/* The plan with one field, or with another instead of it. */
static int64_t step_of(scene *s, const orr_cluster *cluster, const char *plan, const char *field)
{
    char text[256];
    snprintf(text, sizeof text, "%s,%s", plan, field);
    return world_step_ns(&s->w, s->model, text, cluster, NULL);
}

/* The same number on every site is that number, to the nanosecond. */
static void equal_numbers_are_one_number(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "tp=4,pp=2,dp=8,sites=4-2-2,cross=dp,seq=4k",
        "tp=4,pp=4,vp=2,dp=5,sites=2-2-1,cross=dp,seq=4k,zero=1,overlap_dp=off",
        "tp=8,pp=2,dp=6,sites=2-2-2,cross=dp,seq=4k,schedule=zb_h1",
    };
    scene s;
    scene_open(&s);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        for (int k = 0; k < 2; k++) {
            const orr_cluster *cluster = k == 0 ? s.same : s.mixed;
            char one[256], each[256];
            snprintf(one, sizeof one, "%s,micro_batches=8", plans[i]);
            snprintf(each, sizeof each, "%s,site_micro_batches=8-8-8", plans[i]);
            orr_outcome a = world_outcome(&s.w, s.model, one, cluster, NULL),
                        b = world_outcome(&s.w, s.model, each, cluster, NULL);
            const orr_estimate x = estimated(&s, cluster, one), y = estimated(&s, cluster, each);
            assert_int_equal(a.step_ns, b.step_ns);
            assert_memory_equal(a.waterfall_ns, b.waterfall_ns, sizeof a.waterfall_ns);
            assert_int_equal(a.plan.batch, b.plan.batch);
            assert_true(a.model_flops == b.model_flops && a.mfu_frac == b.mfu_frac);
            assert_true(a.memory.fits == b.memory.fits);
            assert_int_equal(x.step_ns, y.step_ns);
            assert_int_equal(x.bound_ns, y.bound_ns);
            assert_int_equal(x.peak_bytes, y.peak_bytes);
            orr_outcome_free(&a);
            orr_outcome_free(&b);
        }
    world_close(&s.w);
}

/* Replicas that meet once a step wait for those with most micro-batches: on equal devices the step
 * is that of the most on all sites, and the batch the sum. */
static void the_most_decide_on_equal_devices(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "tp=4,dp=6,sites=3-2-1,cross=dp,seq=4k",
        "tp=4,pp=4,dp=6,sites=3-2-1,cross=dp,seq=4k,zero=1",
        "tp=4,pp=4,vp=2,dp=6,sites=3-2-1,cross=dp,seq=4k",
    };
    scene s;
    scene_open(&s);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char text[256];
        const int64_t most = step_of(&s, s.same, plans[i], "micro_batches=12");
        assert_int_equal(step_of(&s, s.same, plans[i], "site_micro_batches=12-8-4"), most);
        assert_int_equal(step_of(&s, s.same, plans[i], "site_micro_batches=4-8-12"), most);
        assert_true(step_of(&s, s.same, plans[i], "site_micro_batches=8-8-4") < most);
        snprintf(text, sizeof text, "%s,site_micro_batches=12-8-4", plans[i]);
        orr_outcome o = world_outcome(&s.w, s.model, text, s.same, NULL);
        assert_int_equal(o.plan.batch, 3 * 12 + 2 * 8 + 4);
        assert_int_equal(o.plan.micro_batches, 12);
        assert_near(o.samples_per_s, 56 * 1e9 / (double)o.step_ns, 1e-9);
        assert_int_equal(waterfall_sum(&o), o.step_ns);
        orr_outcome_free(&o);
    }
    world_close(&s.w);
}

/* Faster devices with more of the same batch shorten the step; too many lengthen it. */
static void faster_devices_take_more(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    const char *plan = "pp=4,dp=4,sites=2-0-2,cross=dp,seq=8k,recompute=full";
    const int64_t equal = step_of(&s, s.mixed, plan, "site_micro_batches=32-0-32");
    const int64_t more = step_of(&s, s.mixed, plan, "site_micro_batches=26-0-38");
    const int64_t too_many = step_of(&s, s.mixed, plan, "site_micro_batches=4-0-60");
    assert_true(more < equal && equal < too_many);
    world_close(&s.w);
}

/* Random numbers: every rank simulated says what one representative of each kind does; the estimate
 * is near and the bound below; the trace of a rank has its own slots. */
static void all_agree(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "tp=4,pp=2,dp=4,sites=2-1-1,cross=dp,seq=4k",
        "tp=4,pp=4,vp=2,dp=3,sites=1-1-1,cross=dp,seq=4k,zero=1",
        "tp=4,pp=4,dp=3,sites=1-1-1,cross=dp,seq=4k,schedule=zb_h1",
        "tp=8,dp=4,sites=2-1-1,cross=dp,seq=4k,overlap_dp=off",
    };
    scene s;
    double errors = 0;
    orr_job_options whole;
    orr_job_options_init(&whole);
    whole.fold = false;
    scene_open(&s);
    for (uint64_t seed = 0; seed < 16; seed++) {
        orr_random random = orr_random_of(21, seed);
        char text[256];
        snprintf(text, sizeof text, "%s,site_micro_batches=%d-%d-%d", plans[seed % 4],
                 8 + 4 * (int)orr_random_below(&random, 4),
                 8 + 4 * (int)orr_random_below(&random, 4),
                 8 + 4 * (int)orr_random_below(&random, 4));
        orr_outcome one = world_outcome(&s.w, s.model, text, s.mixed, NULL),
                    all = world_outcome(&s.w, s.model, text, s.mixed, &whole);
        const orr_estimate e = estimated(&s, s.mixed, text);
        assert_int_equal(one.step_ns, all.step_ns);
        assert_memory_equal(one.waterfall_ns, all.waterfall_ns, sizeof one.waterfall_ns);
        assert_true(one.simulation->n_classes < all.simulation->n_classes);
        assert_true(e.bound_ns <= one.step_ns);
        const double error = fabs((double)(e.step_ns - one.step_ns)) / (double)one.step_ns;
        assert_true(error < 0.12);
        errors += error;
        assert_near(e.peak_bytes, one.memory.stages[one.memory.worst].peak_bytes,
                    0.02 * (double)e.peak_bytes);
        for (uint32_t rank = 0; rank < one.n_ranks; rank += 7) {
            const orr_graph *graph;
            world_must(&s.w, orr_outcome_rank(&one, rank, &graph, &s.w.err), text);
            orr_graph_free(graph);
        }
        orr_outcome_free(&one);
        orr_outcome_free(&all);
    }
    assert_true(errors / 16 < 0.03);
    world_close(&s.w);
}

/* A replica with fewer micro-batches than stages holds fewer in flight. */
static void memory_is_that_of_the_fullest_site(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    const char *many = "tp=4,pp=8,dp=2,sites=1-1,cross=dp,seq=8k,site_micro_batches=8-8",
               *few = "tp=4,pp=8,dp=2,sites=1-1,cross=dp,seq=8k,site_micro_batches=2-2",
               *both = "tp=4,pp=8,dp=2,sites=1-1,cross=dp,seq=8k,site_micro_batches=2-8";
    int64_t peak[3];
    const char *const plans[] = {many, few, both};
    for (int i = 0; i < 3; i++) {
        orr_outcome o = world_outcome(&s.w, s.model, plans[i], s.same, NULL);
        peak[i] = o.memory.stages[0].peak_bytes;
        orr_outcome_free(&o);
    }
    assert_true(peak[1] < peak[0]);
    assert_int_equal(peak[2], peak[0]);
    world_close(&s.w);
}

static void refuses(scene *s, const char *text, const char *why)
{
    const orr_plan plan = world_plan(&s->w, text);
    orr_error err = {0};
    assert_int_equal(orr_plan_check(&plan, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, err.text, why);
}

static void says_what_cannot_be(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    refuses(&s, "dp=4,site_micro_batches=2-4", "of which sites");
    refuses(&s, "dp=2,pp=4,sites=2-2,cross=pp,site_micro_batches=8-4", "of which sites");
    refuses(&s, "dp=4,sites=2-2,site_micro_batches=2", "site 2 has 2 replicas and 0");
    refuses(&s, "dp=4,sites=2-0-2,site_micro_batches=2-2-2", "site 2 has 0 replicas and 2");
    refuses(&s, "dp=4,sites=2-2,site_micro_batches=4-2,micro_batches=2", "4 at most");
    refuses(&s, "dp=4,sites=2-2,site_micro_batches=4-2,zero=2", "zero=2");
    refuses(&s, "dp=4,sites=2-2,site_micro_batches=4-2,zero=3", "zero=3");
    refuses(&s, "dp=4,sites=2-2,site_micro_batches=4-2,batch=16", "12 micro-batches");
    refuses(&s, "dp=4,sites=3-1,site_micro_batches=4-2,ep=2", "share experts");
    refuses(&s, "dp=4,pp=4,sites=2-2,site_micro_batches=8-9,schedule=dualpipe", "");
    refuses(&s, "sections=balanced,first_layers=3,pp=2,micro_batches=2", "too much");
    world_close(&s.w);
}

/* --- sections=balanced ------------------------------------------------------------------------ */

static uint32_t sum_of_sections(const orr_plan *plan)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        layers += (uint32_t)plan->section_stages[i] * plan->section_layers[i];
    return layers;
}

/* Of all splits near it, over four stages on two kinds of devices, none is more than 1 % faster. */
static void balanced_sections_are_the_fastest(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    const char *plan = "pp=4,sites=2-0-2,cross=pp,micro_batches=64,seq=8k,recompute=full";
    char text[256];
    snprintf(text, sizeof text, "%s,sections=balanced", plan);
    orr_outcome o = world_outcome(&s.w, s.model, text, s.mixed, NULL);
    const orr_estimate e = estimated(&s, s.mixed, text);
    assert_int_equal(sum_of_sections(&o.plan), 32);
    assert_near(e.step_ns, o.step_ns, 0.05 * (double)o.step_ns);
    assert_true(e.bound_ns <= o.step_ns);
    int64_t best = INT64_MAX;
    for (int a = 4; a <= 10; a++)
        for (int b = 4; b <= 10; b++)
            for (int c = 5; c <= 13 && c < 32 - a - b; c++) {
                char field[64];
                snprintf(field, sizeof field, "sections=1x%d-1x%d-1x%d-1x%d", a, b, c,
                         32 - a - b - c);
                const int64_t ns = step_of(&s, s.mixed, plan, field);
                best = ns < best ? ns : best;
            }
    assert_true((double)o.step_ns <= 1.01 * (double)best);
    assert_true((double)o.step_ns < 0.95 * (double)step_of(&s, s.mixed, plan, "vp=1"));
    orr_outcome_free(&o);
    world_close(&s.w);
}

/* Mixtures with dense layers first, several chunks, pipelines in both directions, replicas of one
 * pipeline on unlike devices: the split is a plan, and estimate and bound know the same one. */
static void balanced_sections_are_the_same_everywhere(void **state)
{
    (void)state;
    static const struct {
        const char *model, *plan;
    } jobs[] = {
        {"deepseek-v3", "pp=8,ep=8,dp=8,zero=1,sites=4-0-4,cross=pp,micro_batches=32,seq=4k"},
        {"llama3.1-8b", "tp=4,pp=4,vp=2,sites=2-1-1,cross=pp,micro_batches=16,seq=4k"},
        {"llama3.1-8b", "tp=4,pp=4,sites=1-1-2,cross=pp,schedule=zb_v,micro_batches=16,seq=4k"},
        {"llama3.1-8b", "tp=4,pp=4,sites=1-1-2,cross=pp,schedule=zb_h1,micro_batches=16,seq=4k"},
        {"llama3.1-8b", "tp=4,pp=4,dp=4,sites=2-1-1,cross=dp,micro_batches=16,seq=4k,zero=1"},
        {"llama3.1-8b", "tp=4,pp=4,dp=4,sites=2-1-1,cross=dp,seq=4k,site_micro_batches=8-8-12"},
        {"gpt_oss_20b", "tp=2,pp=4,sites=2-0-2,cross=pp,micro_batches=16,seq=8k"},
    };
    scene s;
    scene_open(&s);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char text[256], written[1024];
        s.model = world_model(&s.w, jobs[i].model);
        snprintf(text, sizeof text, "%s,sections=balanced", jobs[i].plan);
        orr_outcome o = world_outcome(&s.w, s.model, text, s.mixed, NULL);
        const orr_estimate e = estimated(&s, s.mixed, text);
        assert_int_equal(sum_of_sections(&o.plan), s.model->layers);
        orr_plan plan = world_plan(&s.w, jobs[i].plan);
        memcpy(plan.section_stages, o.plan.section_stages, sizeof plan.section_stages);
        memcpy(plan.section_layers, o.plan.section_layers, sizeof plan.section_layers);
        snprintf(written, sizeof written, "%s", orr_plan_text(&plan, s.w.arena));
        const orr_estimate same = estimated(&s, s.mixed, written);
        assert_int_equal(o.step_ns, world_step_ns(&s.w, s.model, written, s.mixed, NULL));
        assert_int_equal(e.step_ns, same.step_ns);
        assert_int_equal(e.bound_ns, same.bound_ns);
        assert_int_equal(e.peak_bytes, same.peak_bytes);
        assert_true(e.bound_ns <= o.step_ns);
        orr_outcome_free(&o);
    }
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_numbers_are_one_number),
        cmocka_unit_test(the_most_decide_on_equal_devices),
        cmocka_unit_test(faster_devices_take_more),
        cmocka_unit_test(all_agree),
        cmocka_unit_test(memory_is_that_of_the_fullest_site),
        cmocka_unit_test(says_what_cannot_be),
        cmocka_unit_test(balanced_sections_are_the_fastest),
        cmocka_unit_test(balanced_sections_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
