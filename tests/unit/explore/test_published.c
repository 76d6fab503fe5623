/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <orrery/explore.h>

typedef struct library {
    plan_world w;
    orr_published published;
    orr_explore_options options;
} library;

static void open_library(library *l)
{
    memset(l, 0, sizeof *l);
    world_open(&l->w);
    world_must(&l->w, orr_published_open(NULL, l->w.arena, &l->published, &l->w.err), "published");
    orr_explore_options_init(&l->options);
}

static const orr_published_result *results_of(library *l, const char *model, const char *cluster,
                                              uint32_t *ret_n)
{
    const orr_published_result *results;
    world_must(&l->w,
               orr_published_plans_of(&l->published, world_model(&l->w, model),
                                      world_cluster(&l->w, cluster), &l->options, l->w.arena,
                                      &results, ret_n, &l->w.err),
               model);
    return results;
}

static void every_entry_names_what_there_is(void **state)
{
    (void)state;
    static library l;
    open_library(&l);
    assert_true(l.published.n_plans >= 10 && l.published.n_records >= 20);
    for (uint32_t i = 0; i < l.published.n_plans; i++) {
        const orr_published_plan *p = l.published.plans[i];
        const orr_device *device;
        (void)world_model(&l.w, p->model);
        world_must(&l.w, orr_device_load(l.w.catalog, p->device, l.w.arena, &device, &l.w.err),
                   p->name);
        assert_true(orr_fact_or(&p->step, 0) > 0 || orr_fact_or(&p->reached, 0) > 0);
        assert_true(*p->source != '\0');
    }
}

/* Llama 3's table says TFLOP/s of a device; the steps are those of docs/accuracy.md. */
static void the_plan_of_a_job_is_found_and_simulated(void **state)
{
    (void)state;
    static library l;
    uint32_t n;
    open_library(&l);
    l.options.fix = "batch=2048,seq=8192";
    l.options.max_devices = 16384;
    const orr_published_result *r = results_of(&l, "llama3.1-405b", "h100_24k", &n);
    assert_int_equal(n, 1);
    assert_string_equal(r->published->name, "llama3_405b_16384");
    assert_null(r->why_not);
    assert_near(r->measured_step_ns, 6.461e9, 0.01e9);
    assert_true(r->fits == (r->explored.peak_bytes <= r->explored.usable_bytes));
    orr_job_options options;
    orr_outcome o;
    orr_job_options_init(&options);
    world_must(&l.w,
               orr_outcome_of(world_model(&l.w, "llama3.1-405b"), &r->published->plan,
                              world_cluster(&l.w, "h100_24k"), &options, l.w.arena, &o, &l.w.err),
               "outcome");
    const int64_t step_ns = o.step_ns;
    orr_outcome_free(&o);
    assert_int_equal(step_ns, r->explored.step_ns);
    /* Half of the batch is another job: nothing is measured of it. */
    l.options.fix = "batch=1024,seq=8192";
    r = results_of(&l, "llama3.1-405b", "h100_24k", &n);
    assert_true(n == 1 && isnan(r->measured_step_ns) && r->explored.plan.batch == 1024);
    assert_true(r->explored.step_ns < step_ns);
    /* A batch that its replicas do not divide is told. */
    l.options.fix = "batch=100,seq=8192";
    r = results_of(&l, "llama3.1-405b", "h100_24k", &n);
    assert_true(n == 1 && r->why_not != NULL && !r->fits);
    /* Other devices, other numbers of them, other lengths, other models: other jobs. */
    l.options.fix = "batch=2048,seq=8192";
    (void)results_of(&l, "llama3.1-405b", "h800_pod", &n);
    assert_int_equal(n, 0);
    (void)results_of(&l, "llama3.1-70b", "h100_24k", &n);
    assert_int_equal(n, 0);
    l.options.max_devices = 16380;
    (void)results_of(&l, "llama3.1-405b", "h100_24k", &n);
    assert_int_equal(n, 0);
    l.options.max_devices = 16384;
    l.options.fix = "batch=2048,seq=4096";
    (void)results_of(&l, "llama3.1-405b", "h100_24k", &n);
    assert_int_equal(n, 0);
    world_close(&l.w);
}

static double record_of(library *l, const char *model, const char *cluster, const char *text,
                        const orr_record **ret)
{
    double share;
    const orr_plan plan = world_plan(&l->w, text);
    world_must(&l->w,
               orr_published_record_of(&l->published, world_model(&l->w, model),
                                       world_cluster(&l->w, cluster), &plan, l->w.arena, &share,
                                       ret, &l->w.err),
               model);
    return share;
}

/* Classes are told apart by device, precision and experts; shares are counted as simulated ones. */
static void records_are_of_a_class(void **state)
{
    (void)state;
    static library l;
    const orr_record *r;
    open_library(&l);
    const double dense = record_of(&l, "llama3.1-405b", "h100_24k", "tp=8", &r);
    /* 6,159 tokens/s of a device, of 15.6 billion parameters less 256,000 words of 6,144, at 4,096
     * tokens. */
    assert_string_equal(r->name, "h100_bf16_15b");
    assert_near(dense, 6159 * (6 * 14.05e9 + 6 * 32 * 6144 * 4096.0) / 989.4e12, 0.01);
    const double fp8 = record_of(&l, "llama3.1-405b", "h100_24k", "tp=8,precision=fp8", &r);
    assert_true(fp8 > 0.3 && fp8 < 0.5);
    print_message("# h100: bf16 %.3f, fp8 %.3f\n", dense, fp8);
    assert_near(record_of(&l, "mixtral-8x7b", "h100_24k", "tp=8", &r), 0.493, 1e-9);
    const double v3 = record_of(&l, "deepseek-v3", "h800_pod", "pp=16,precision=fp8", &r);
    assert_true(v3 > 0.15 && v3 < 0.25);
    assert_true(isnan(record_of(&l, "llama3.1-8b", "h800_pod", "tp=8", &r)) && r == NULL);
    world_close(&l.w);
}

static orr_explore_answer answer_of(library *l, const char *model, const char *cluster,
                                    const orr_exploration *exploration)
{
    orr_explore_answer answer;
    orr_decision_options how;
    orr_decision_options_init(&how);
    how.draws = 3;
    world_must(&l->w,
               orr_explore_answer_of(world_model(&l->w, model), world_cluster(&l->w, cluster),
                                     &l->options, exploration, &how, l->w.arena, &answer,
                                     &l->w.err),
               "answer");
    return answer;
}

/* Where the search found nothing yet, what was published is the answer; it is there once. */
static void the_published_plan_is_always_there(void **state)
{
    (void)state;
    static library l;
    open_library(&l);
    l.options.fix = "batch=15360,seq=4096";
    orr_exploration x = {0};
    orr_explore_answer a = answer_of(&l, "deepseek-v3", "h800_pod", &x);
    assert_true(a.n_published == 1 && a.decision.n == 1 && a.decision.n_set == 1);
    assert_true(a.published->fits && a.plans[0].step_ns == a.published->explored.step_ns);
    assert_near(a.published->measured_step_ns, 19.926e9, 1);
    const orr_explored found = a.plans[0];
    x = (orr_exploration){.n = 1, .best = &found, .n_candidates = 1, .candidates = &found};
    a = answer_of(&l, "deepseek-v3", "h800_pod", &x);
    assert_int_equal(a.decision.n, 1);
    assert_false(a.has_fp8); /* it is in fp8 */
    x = (orr_exploration){0};
    a = answer_of(&l, "llama3.2-1b", "h800_pod", &x);
    assert_true(a.n_published == 0 && a.decision.n == 0);
    world_close(&l.w);
}

/* fp8 is told of a plan in bf16 where nothing forbids it. */
static void fp8_is_told_unless_it_is_excluded(void **state)
{
    (void)state;
    static library l;
    open_library(&l);
    orr_explored found;
    const orr_plan plan = world_plan(&l.w, "tp=2,dp=4,zero=1,batch=16,seq=4096"),
                   fp8 = world_plan(&l.w, "tp=2,dp=4,zero=1,batch=16,seq=4096,precision=fp8");
    const orr_exploration x = {.n = 1, .best = &found, .n_candidates = 1, .candidates = &found};
    l.options.fix = "batch=16,seq=4096";
    world_must(&l.w,
               orr_explore_evaluate(world_model(&l.w, "llama3.1-8b"),
                                    world_cluster(&l.w, "dgx_h100"), &l.options, &plan, &found,
                                    &l.w.err),
               "plan");
    orr_explore_answer a = answer_of(&l, "llama3.1-8b", "dgx_h100", &x);
    assert_true(a.has_fp8 && a.fp8_fits && a.fp8.step_ns < found.step_ns);
    assert_true(a.fp8.other_numerics && !found.other_numerics);
    assert_int_equal(a.fp8.step_ns,
                     world_step_ns(&l.w, world_model(&l.w, "llama3.1-8b"),
                                   "tp=2,dp=4,zero=1,batch=16,seq=4096,precision=fp8",
                                   world_cluster(&l.w, "dgx_h100"), NULL));
    assert_true(orr_plan_equal(&a.fp8.plan, &fp8));
    /* Its share is of a peak twice as high. */
    assert_near(a.fp8.mfu_frac * (double)a.fp8.step_ns,
                0.5 * found.mfu_frac * (double)found.step_ns, 1e-3 * (double)found.step_ns);
    l.options.exclude = "fp8";
    assert_false(answer_of(&l, "llama3.1-8b", "dgx_h100", &x).has_fp8);
    l.options.exclude = NULL;
    assert_false(answer_of(&l, "llama3.1-8b", "dgx_a100", &x).has_fp8);
    world_close(&l.w);
}

static void expect_refused(const char *text, const char *part)
{
    char path[] = "/tmp/orrery-published-XXXXXX";
    static library l;
    orr_published published;
    open_library(&l);
    const int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(file);
    const orr_status status = orr_published_open(path, l.w.arena, &published, &l.w.err);
    (void)unlink(path);
    assert_int_equal(status, ORR_INVALID);
    if (strstr(l.w.err.text, part) == NULL)
        fail_msg("%s", l.w.err.text);
    world_close(&l.w);
}

static void what_is_wrong_in_a_file_is_told(void **state)
{
    (void)state;
    expect_refused(
        "plans:\n  a: {model: m, device: d, devices: 8, plan: \"tp=4,batch=8,seq=4k\"}\n",
        "its degrees are not of 8 devices");
    expect_refused("plans:\n  a: {model: m, device: d, devices: 8, plan: \"tq=4\"}\n", "tq");
    expect_refused("plans:\n  a: {model: m, device: d, devices: 4, plan: \"tp=4\"}\n",
                   "of which batch");
    expect_refused("plans:\n  a: {model: m, device: d, devices: 8}\n", "plan");
    expect_refused("records:\n  a: {device: d, precision: bf16, mfu: 0.4}\n", "mfu and kind");
    expect_refused("records:\n  a: {device: d, precision: bf16, rate: 5, model: m}\n",
                   "rate with model and seq");
    expect_refused("recods: {}\n", "recods");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_names_what_there_is),
        cmocka_unit_test(the_plan_of_a_job_is_found_and_simulated),
        cmocka_unit_test(records_are_of_a_class),
        cmocka_unit_test(the_published_plan_is_always_there),
        cmocka_unit_test(fp8_is_told_unless_it_is_excluded),
        cmocka_unit_test(what_is_wrong_in_a_file_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
