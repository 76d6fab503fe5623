/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include "explore/explore.h"

/* Searches whose answer differs by site. */

typedef struct scene {
    plan_world w;
    const orr_model *model;
    const orr_cluster *cluster; /* a building with two hosts of one device, and one with two of
                                 * another */
} scene;

static void scene_open(scene *s)
{
    static const uint32_t devices[ORR_SITES_MAX] = {16, 0, 16};
    world_open(&s->w);
    s->model = world_model(&s->w, "llama3.1-8b");
    world_must(&s->w,
               orr_cluster_select_sites(world_cluster(&s->w, "mixed_buildings"), devices,
                                        s->w.arena, &s->cluster, &s->w.err),
               "sites");
}

static orr_exploration search(scene *s, const char *fix, uint32_t threads)
{
    orr_explore_options o;
    orr_exploration x;
    orr_explore_options_init(&o);
    o.fix = fix;
    o.threads = threads;
    o.min_devices = o.max_devices = 32;
    world_must(&s->w, orr_explore(s->model, s->cluster, &o, s->w.arena, &x, &s->w.err), fix);
    assert_true(x.n > 0);
    return x;
}

/* Replicas on the faster devices have more micro-batches, the batch is what was asked for, the
 * simulation of the answer's text is the answer, and no equal number is as fast. */
static void replicas_are_balanced(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    const char *fix = "batch=512,seq=8192,tp=1,cp=1,pp=4,dp=8,cross=dp,zero=1,micro_batch=1,vp=1,"
                      "recompute=full,precision=bf16,schedule=1f1b,offload=none";
    const orr_exploration x = search(&s, fix, 1), y = search(&s, fix, 2);
    const orr_explored *best = &x.best[0];
    const char *text = orr_plan_text(&best->plan, s.w.arena);
    const uint16_t *each = best->plan.site_micro_batches;
    if (each[0] == 0)
        fail_msg("%s", text);
    assert_true(each[1] > each[0]);
    assert_int_equal(4 * each[0] + 4 * each[1], 512);
    assert_int_equal(best->step_ns, world_step_ns(&s.w, s.model, text, s.cluster, NULL));
    orr_plan equal = best->plan;
    memset(equal.site_micro_batches, 0, sizeof equal.site_micro_batches);
    equal.micro_batches = 0;
    assert_true((double)best->step_ns <
                0.95 * (double)world_step_ns(&s.w, s.model, orr_plan_text(&equal, s.w.arena),
                                             s.cluster, NULL));
    assert_string_equal(text, orr_plan_text(&y.best[0].plan, s.w.arena));
    world_close(&s.w);
}

/* Stages on the faster devices have more layers, by what layers cost there. */
static void stages_are_balanced(void **state)
{
    (void)state;
    scene s;
    scene_open(&s);
    const orr_exploration x =
        search(&s,
               "batch=512,seq=8192,tp=4,cp=1,pp=8,dp=1,cross=pp,zero=0,micro_batch=1,vp=1,"
               "recompute=full,precision=bf16,schedule=1f1b,offload=none",
               1);
    const char *text = orr_plan_text(&x.best[0].plan, s.w.arena);
    assert_int_equal(x.best[0].step_ns, world_step_ns(&s.w, s.model, text, s.cluster, NULL));
    const char *even = "batch=512,seq=8192,tp=4,pp=8,cross=pp,sites=4-4,recompute=full,"
                       "sections=balanced";
    assert_true(x.best[0].step_ns <= world_step_ns(&s.w, s.model, even, s.cluster, NULL));
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_balanced),
        cmocka_unit_test(stages_are_balanced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
