/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include <orrery/explore.h>

static orr_exploration explored(plan_world *w, const char *model, const char *cluster,
                                const orr_explore_options *options)
{
    orr_exploration e;
    world_must(w,
               orr_explore(world_model(w, model), world_cluster(w, cluster), options, w->arena, &e,
                           &w->err),
               model);
    return e;
}

static orr_explore_options asking(const char *fix)
{
    orr_explore_options o;
    orr_explore_options_init(&o);
    o.fix = fix;
    o.threads = 1;
    return o;
}

static const orr_relaxation *relaxation(const orr_exploration *e, const char *what)
{
    for (uint32_t i = 0; i < e->n_relaxations; i++)
        if (strstr(e->relaxations[i].what, what) != NULL)
            return &e->relaxations[i];
    return NULL;
}

static void test_memory_is_told_with_what_would_do(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_explore_options options = asking("batch=64,seq=8192,precision=bf16");
    const orr_exploration e = explored(&w, "llama3.1-405b", "dgx_h100", &options);
    assert_int_equal(e.n, 0);
    assert_non_null(strstr(e.infeasible, "memory"));
    const orr_relaxation *more = relaxation(&e, "device memory");
    assert_non_null(more);
    assert_int_equal(more->plan.batch, 64);
    world_close(&w);
}

static void test_each_thing_let_go_makes_a_plan(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_explore_options options = asking("batch=100,seq=4096,tp=8,pp=4,dp=8,precision=bf16");
    const orr_exploration e = explored(&w, "llama3.1-70b", "dgx_h100_pod", &options);
    assert_int_equal(e.n, 0);
    assert_non_null(e.infeasible);
    assert_non_null(relaxation(&e, "dp=8"));
    assert_non_null(relaxation(&e, "batch=104"));
    for (uint32_t i = 0; i < e.n_relaxations; i++) {
        orr_job_options job;
        orr_outcome outcome;
        orr_job_options_init(&job);
        world_must(&w,
                   orr_outcome_of(world_model(&w, "llama3.1-70b"), &e.relaxations[i].plan,
                                  world_cluster(&w, "dgx_h100_pod"), &job, w.arena, &outcome,
                                  &w.err),
                   e.relaxations[i].what);
        assert_true(outcome.memory.fits);
        assert_true((double)outcome.step_ns == e.relaxations[i].step_ns);
        orr_outcome_free(&outcome);
    }
    world_close(&w);
}

static void test_more_devices_are_asked_for(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_explore_options options = asking("batch=64,seq=4096,precision=bf16");
    options.exclude = "optimizer,activations,both";
    options.max_devices = 8;
    const orr_exploration e = explored(&w, "llama3.1-70b", "dgx_h100_pod", &options);
    assert_int_equal(e.n, 0);
    const orr_relaxation *more = relaxation(&e, "on ");
    assert_non_null(more);
    assert_true(orr_plan_ranks(&more->plan) > 8);
    assert_null(relaxation(&e, "zero"));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_told_with_what_would_do),
        cmocka_unit_test(test_each_thing_let_go_makes_a_plan),
        cmocka_unit_test(test_more_devices_are_asked_for),
    };
    return cmocka_run_group_tests_name("relax", tests, NULL, NULL);
}
