/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog_jobs.h"

#include "outcome/heterogeneous.h"

static const char plan_text[] = "tp=4,pp=2,dp=8,micro_batches=4,seq=2k,layers=8";

typedef struct scene {
    plan_world w;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_job_options options;
    int64_t usual_ns;
} scene;

static void open_scene(scene *s)
{
    world_open(&s->w);
    s->model = world_model(&s->w, "llama3.1-8b");
    s->cluster = world_cluster(&s->w, "dgx_h100_pod");
    orr_job_options_init(&s->options);
    s->usual_ns = world_step_ns(&s->w, s->model, plan_text, s->cluster, &s->options);
}

/* Folded and not, all say the same. */
static int64_t step_ns(scene *s, uint32_t *ret_graphs)
{
    orr_outcome folded = world_outcome(&s->w, s->model, plan_text, s->cluster, &s->options);
    s->options.fold = false;
    orr_outcome each = world_outcome(&s->w, s->model, plan_text, s->cluster, &s->options);
    s->options.fold = true;
    assert_int_equal(folded.step_ns, each.step_ns);
    assert_int_equal(waterfall_sum(&folded), folded.step_ns);
    assert_int_equal(each.simulation->n_classes, 64);
    assert_true(folded.simulation->n_classes < 64);
    for (int part = 0; part < ORR_WATERFALLS; part++)
        assert_int_equal(folded.waterfall_ns[part], each.waterfall_ns[part]);
    *ret_graphs = folded.ensemble->n_graphs;
    const int64_t ns = folded.step_ns;
    orr_outcome_free(&folded);
    orr_outcome_free(&each);
    return ns;
}

/* One slow rank holds up all; the graphs are the same for it. */
static void a_straggler(void **state)
{
    (void)state;
    scene s;
    uint32_t graphs;
    open_scene(&s);
    for (int detail = 0; detail <= ORR_DETAIL_OPERATOR; detail++) {
        const orr_heterogeneous_ranks heterogeneous = {.first = 45, .count = 1, .slowdown = 1.5};
        s.options.detail = (uint8_t)detail;
        s.options.heterogeneous = &heterogeneous;
        s.options.n_heterogeneous = 1;
        assert_true(step_ns(&s, &graphs) > s.usual_ns);
        assert_int_equal(graphs, 2);
    }
    world_close(&s.w);
}

/* A host of another generation: only its ranks have a graph of their own. */
static void another_device(void **state)
{
    (void)state;
    scene s;
    uint32_t graphs;
    open_scene(&s);
    const orr_heterogeneous_ranks heterogeneous = {
        .first = 8, .count = 8, .device = orr_catalog_device(s.w.catalog, "a100_sxm_80g")};
    s.options.heterogeneous = &heterogeneous;
    s.options.n_heterogeneous = 1;
    assert_true(step_ns(&s, &graphs) > s.usual_ns);
    assert_int_equal(graphs, 3);
    world_close(&s.w);
}

/* Who reaches across the slow link is slowed, and nobody where it carries nothing. */
static void a_slow_link(void **state)
{
    (void)state;
    scene s;
    uint32_t graphs;
    open_scene(&s);
    orr_slow_link slow = {.level = 0, .unit = 1, .bandwidth_frac = 0.25};
    s.options.slow = &slow;
    s.options.n_slow = 1;
    assert_true(step_ns(&s, &graphs) > s.usual_ns);
    assert_true(graphs > 2);
    slow.bandwidth_frac = 1;
    assert_int_equal(step_ns(&s, &graphs), s.usual_ns);
    assert_int_equal(graphs, 2);
    world_close(&s.w);
}

/* Every rank differs: by its own slowdown. */
static void all_different(void **state)
{
    (void)state;
    scene s;
    orr_heterogeneous_ranks heterogeneous[64];
    open_scene(&s);
    for (uint32_t i = 0; i < 64; i++)
        heterogeneous[i] =
            (orr_heterogeneous_ranks){.first = i, .count = 1, .slowdown = 1 + 0.001 * i};
    s.options.detail = ORR_DETAIL_OPERATOR;
    s.options.heterogeneous = heterogeneous;
    s.options.n_heterogeneous = 64;
    orr_outcome o = world_outcome(&s.w, s.model, plan_text, s.cluster, &s.options);
    assert_int_equal(o.simulation->n_classes, 64);
    assert_true(o.step_ns > s.usual_ns);
    orr_outcome_free(&o);
    world_close(&s.w);
}

static void refuse(scene *s)
{
    const orr_plan plan = world_plan(&s->w, plan_text);
    orr_outcome o;
    assert_int_equal(
        orr_outcome_of(s->model, &plan, s->cluster, &s->options, s->w.arena, &o, &s->w.err),
        ORR_INVALID);
}

static void says_what_does_not_exist(void **state)
{
    (void)state;
    static const orr_heterogeneous_ranks heterogeneous[] = {
        {.first = 64, .count = 1, .slowdown = 2},
        {.first = 60, .count = 5, .slowdown = 2},
        {.first = 0, .count = 0, .slowdown = 2},
        {.first = 0, .count = 1, .slowdown = 0.5},
        {.first = 0, .count = 1, .slowdown = NAN}};
    static const orr_slow_link slow[] = {{.level = 9, .unit = 0, .bandwidth_frac = 0.5},
                                         {.level = 0, .unit = 8, .bandwidth_frac = 0.5},
                                         {.level = 0, .unit = 0, .bandwidth_frac = 0},
                                         {.level = 0, .unit = 0, .bandwidth_frac = 1.5}};
    scene s;
    open_scene(&s);
    for (size_t i = 0; i < sizeof heterogeneous / sizeof *heterogeneous; i++) {
        s.options.heterogeneous = &heterogeneous[i];
        s.options.n_heterogeneous = 1;
        refuse(&s);
    }
    s.options.n_heterogeneous = 0;
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        s.options.slow = &slow[i];
        s.options.n_slow = 1;
        refuse(&s);
    }
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_straggler),
        cmocka_unit_test(another_device),
        cmocka_unit_test(a_slow_link),
        cmocka_unit_test(all_different),
        cmocka_unit_test(says_what_does_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
