/* SPDX-License-Identifier: Apache-2.0 */
/* Baselines over several buildings: what each lets cross the cuts. */
#include "../outcome/catalog_jobs.h"

#include <stdio.h>
#include <stdlib.h>

#include <orrery/explore.h>

#include "model/plan/plan.h"

static orr_explored found(plan_world *w, orr_baseline baseline, const char *cluster,
                          const orr_explore_options *options)
{
    orr_explored e;
    memset(&e, 0, sizeof e);
    world_must(w,
               orr_baseline_of(baseline, world_model(w, "llama3.1-70b"), world_cluster(w, cluster),
                               options, &e, &w->err),
               orr_baseline_name(baseline));
    assert_true(e.step_ns > 0 && e.peak_bytes <= e.usable_bytes);
    return e;
}

static orr_explore_options asked(const char *fix)
{
    orr_explore_options o;
    memset(&o, 0, sizeof o);
    o.struct_bytes = sizeof o;
    o.fix = fix;
    return o;
}

static uint32_t units(const orr_plan *plan)
{
    uint32_t sum = 0;
    for (uint32_t s = 0; s < ORR_PLAN_PARTS; s++)
        sum += plan->sites[s];
    return sum;
}

/* 14, 10 and 8 zones: replicas in that proportion, and no device is idle. */
static void test_production_crosses_with_replicas(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    const orr_explore_options o = asked("batch=12288,seq=8k");
    const orr_explored e = found(&w, ORR_BASELINE_PRODUCTION, "three_buildings", &o);
    assert_int_equal(e.plan.cross, ORR_CROSS_DP);
    assert_int_equal(units(&e.plan), e.plan.dp);
    assert_int_equal(e.plan.order[ORR_BASE_AXES - 1], ORR_AXIS_DP + 1);
    assert_int_equal(e.n_devices, 98304);
    assert_int_equal(e.plan.sites[0] * 8, e.plan.sites[2] * 14);
    assert_int_equal(e.plan.sites[1] * 8, e.plan.sites[2] * 10);
    world_close(&w);
}

static void test_pipelines_cross_with_stages(void **state)
{
    static const orr_baseline pipelines[] = {ORR_BASELINE_ATLAS, ORR_BASELINE_CROSSPIPE,
                                             ORR_BASELINE_METIS, ORR_BASELINE_GALVATRON};
    plan_world w;
    (void)state;
    world_open(&w);
    const orr_explore_options o = asked("batch=12288,seq=8k");
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        const orr_explored e = found(&w, pipelines[i], "three_buildings", &o);
        assert_int_equal(e.plan.cross, ORR_CROSS_PP);
        assert_int_equal(units(&e.plan), e.plan.pp);
        assert_true(e.plan.pp > 1);
    }
    world_close(&w);
}

/* Buildings 1,000 km apart are other regions: no replicas of a stage on both sides. Buildings of
 * one may have them. */
static void test_sailor_keeps_replicas_in_a_region(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    const orr_explore_options o = asked("batch=1536,seq=8k");
    const orr_explored far = found(&w, ORR_BASELINE_SAILOR, "two_regions", &o);
    assert_int_equal(far.plan.cross, ORR_CROSS_PP);
    assert_int_equal(units(&far.plan), far.plan.pp);
    const orr_explored near = found(&w, ORR_BASELINE_SAILOR, "three_buildings", &o);
    assert_int_equal(units(&near.plan),
                     near.plan.cross == ORR_CROSS_PP ? near.plan.pp : near.plan.dp);
    world_close(&w);
}

/* H100, H200 and B200: the stages in the third building have twice the layers, or there is one site
 * alone. */
static void test_metis_balances_devices(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    const orr_explore_options o = asked("batch=6144,seq=8k,pp=16,tp=8");
    const orr_explored e = found(&w, ORR_BASELINE_METIS, "mixed_buildings", &o);
    uint32_t last = 0, layers = 0;
    while (last + 1 < ORR_PLAN_PARTS && e.plan.section_stages[last + 1] > 0)
        last++;
    for (uint32_t i = 0; i <= last; i++)
        layers += (uint32_t)e.plan.section_stages[i] * e.plan.section_layers[i];
    assert_int_equal(layers, 80);
    assert_true(e.plan.sites[2] > 0);
    assert_true(e.plan.section_layers[last] > e.plan.section_layers[0]);
    world_close(&w);
}

static void test_fewer_sites(void **state)
{
    plan_world w;
    (void)state;
    world_open(&w);
    orr_explore_options o = asked("batch=1536,seq=8k");
    o.max_sites = 1;
    for (int b = 0; b < ORR_BASELINES; b++) {
        const orr_explored e = found(&w, (orr_baseline)b, "three_buildings", &o);
        assert_true(e.plan.sites[0] > 0);
        assert_int_equal(e.plan.sites[0], units(&e.plan));
        assert_true(e.n_devices <= 43008);
    }
    world_close(&w);
}

/* The example of two trillion parameters has the published counts, and a place in the example of
 * two buildings. */
static void test_examples(void **state)
{
    plan_world w;
    orr_model_size size;
    orr_explored e;
    char model[1024], cluster[1024];
    const char *source = getenv("ORRERY_SOURCE");
    (void)state;
    if (source == NULL)
        skip();
    snprintf(model, sizeof model, "%s/examples/models/moe_2t.yaml", source);
    snprintf(cluster, sizeof cluster, "%s/examples/clusters/two_buildings.yaml", source);
    world_open(&w);
    const orr_model *moe = world_model(&w, model);
    world_must(&w, orr_model_count_parameters(moe, w.arena, &size, &w.err), "sizes");
    assert_near(size.total, 2e12, 0.02e12);
    assert_near(size.active, 288e9, 2e9);
    const orr_explore_options o = asked("batch=1536,seq=8k");
    world_must(
        &w,
        orr_baseline_of(ORR_BASELINE_PRODUCTION, moe, world_cluster(&w, cluster), &o, &e, &w.err),
        "production");
    assert_int_equal(e.plan.ep, 16);
    assert_int_equal(units(&e.plan), e.plan.dp);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_production_crosses_with_replicas),
        cmocka_unit_test(test_pipelines_cross_with_stages),
        cmocka_unit_test(test_sailor_keeps_replicas_in_a_region),
        cmocka_unit_test(test_metis_balances_devices),
        cmocka_unit_test(test_fewer_sites),
        cmocka_unit_test(test_examples),
    };
    return cmocka_run_group_tests_name("plan/baseline_sites", tests, NULL, NULL);
}
