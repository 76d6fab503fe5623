/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog_jobs.h"

#include "base/alloc.h"
#include "outcome/heterogeneous.h"

/* Jobs over several sites. */
typedef struct scene {
    plan_world w;
    const orr_model *model;
    const orr_cluster *cluster;
} scene;

static void open_scene(scene *s, const char *cluster)
{
    world_open(&s->w);
    s->model = world_model(&s->w, "llama3.1-8b");
    s->cluster = world_cluster(&s->w, cluster);
}

static orr_outcome outcome(scene *s, const char *plan)
{
    return world_outcome(&s->w, s->model, plan, s->cluster, NULL);
}

static const orr_axis_use *axis_of(const orr_outcome *o, orr_axis axis)
{
    for (uint32_t i = 0; i < o->n_axes; i++)
        if (o->axes[i].axis == axis)
            return &o->axes[i];
    fail_msg("nothing travels along %s", orr_axis_name(axis));
    return NULL;
}

/* 12 replicas on three sites: of 12 links of the ring, one lies between each two. */
static void a_ring_passes_every_cut_once(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    orr_outcome o = outcome(&s, "tp=8,dp=12,sites=6-4-2,micro_batches=2,seq=1k,layers=4");
    const orr_axis_use *use = axis_of(&o, ORR_AXIS_GRADIENT);
    assert_int_equal(o.n_cuts, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const orr_site_link_use *cut = &o.cuts[i];
        const orr_site_link *link = &o.cluster->cuts[i];
        const uint32_t devices = 8 * (cut->b == 2 ? 2 : 4);
        const double carries = 2 * devices * link->bytes_per_s.value / link->oversubscription.value;
        assert_int_equal(cut->a, i == 2);
        assert_int_equal(cut->b, i == 0 ? 1 : 2);
        assert_int_equal(cut->axis, ORR_AXIS_GRADIENT);
        assert_near(cut->bytes, use->bytes * 96 / 12, 1e-9 * cut->bytes);
        assert_near(cut->busy_ns, use->busy_ns, 1);
        assert_near(cut->exposed_ns, use->exposed_ns, 1);
        assert_near(cut->utilisation_frac, cut->bytes / carries / (1e-9 * (double)o.step_ns),
                    1e-9 * cut->utilisation_frac);
    }
    orr_outcome_free(&o);
    world_close(&s.w);
}

/* What is summed inside of sites first crosses once there and once back, and in fp8 a quarter of
 * it. */
static void sums_of_sites_cross_between_neighbours(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    orr_outcome o = outcome(&s, "tp=8,dp=12,sites=6-4-2,micro_batches=2,seq=1k,layers=4,"
                                "dp_algorithm=hierarchical");
    orr_outcome small = outcome(&s, "tp=8,dp=12,sites=6-4-2,micro_batches=2,seq=1k,layers=4,"
                                    "dp_algorithm=hierarchical,compress=fp8");
    const double sent = axis_of(&o, ORR_AXIS_GRADIENT)->bytes * 96;
    assert_int_equal(o.n_cuts, 2);
    assert_int_equal(small.n_cuts, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(o.cuts[i].a, i);
        assert_int_equal(o.cuts[i].b, i + 1);
        assert_near(o.cuts[i].bytes, sent / 11, 1e-9 * sent);
        assert_near(small.cuts[i].bytes, sent / 11 / 4, 1e-9 * sent);
        assert_true(small.cuts[i].busy_ns < o.cuts[i].busy_ns);
    }
    orr_outcome_free(&o);
    orr_outcome_free(&small);
    world_close(&s.w);
}

/* Eight ranks of a stage, five micro-batches, there and back. */
static void stages_pass_their_boundary(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    orr_outcome o =
        outcome(&s, "tp=4,dp=2,pp=6,sites=0-4-2,cross=pp,micro_batches=5,seq=1k,layers=6");
    assert_int_equal(o.cluster->n_sites, 2);
    assert_string_equal(o.cluster->sites[0].name, "middle");
    assert_int_equal(o.n_cuts, 1);
    assert_int_equal(o.cuts[0].axis, ORR_AXIS_PP);
    assert_near(o.cuts[0].bytes, 8.0 * 2 * 5 * 1024 * 4096 * 2 / 4, 1);
    assert_true(o.cuts[0].busy_ns > 0);
    assert_true(o.cuts[0].exposed_ns > 0);
    orr_outcome_free(&o);
    world_close(&s.w);
}

/* Pipelines inside of regions, replicas between them: each cut has the traffic of one axis. */
static void regions_have_pipelines_of_their_own(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "two_regions");
    orr_outcome o = outcome(&s, "tp=8,dp=4,dp_outer=2,pp=4,sites=3-1-2-2,cross=pp,micro_batches=4,"
                                "seq=1k,layers=8");
    double bytes[ORR_SITES_MAX][ORR_SITES_MAX] = {{0}};
    for (uint32_t i = 0; i < o.n_cuts; i++) {
        const bool region = o.cuts[i].a / 2 == o.cuts[i].b / 2;
        assert_int_equal(region, o.cuts[i].axis == ORR_AXIS_PP);
        bytes[o.cuts[i].a][o.cuts[i].b] += o.cuts[i].bytes;
    }
    assert_near(bytes[0][1], 2.0 * 8 * 2 * 4 * 1024 * 4096 * 2 / 8, 1);
    assert_near(bytes[2][3], bytes[0][1], 1);
    assert_true(bytes[0][2] > 0); /* stages 0 and 1; 2 of the second site of the west */
    assert_true(bytes[0][3] > 0);
    assert_true(bytes[1][3] > 0);
    assert_near(bytes[1][2], 0, 0.5);
    orr_outcome_free(&o);
    world_close(&s.w);
}

/* The last stage has the first one's weights as well, on the other site: what is sent for that is
 * among the gradients, once by each of two stages' four ranks. */
static void twins_sum_across_the_cut(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    orr_outcome o = outcome(&s, "tp=4,pp=2,sites=1-1,cross=pp,schedule=dualpipe,micro_batches=4,"
                                "seq=1k,layers=4,gradients=bf16");
    double weights = 0;
    for (uint32_t i = 0; i < o.n_cuts; i++)
        if (o.cuts[i].axis == ORR_AXIS_GRADIENT)
            weights = o.cuts[i].bytes;
    orr_model_size size;
    world_must(&s.w, orr_model_count_parameters(o.model, s.w.arena, &size, &s.w.err), "size");
    assert_near(weights, 2.0 * 2 * (double)size.total, 0.02 * weights);
    orr_outcome_free(&o);
    world_close(&s.w);
}

/* A step alone, and a share of the meeting: bytes and time go with one over the steps between. */
static void parts_that_train_alone_meet_seldom(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "two_regions");
    static const char *const plans[] = {
        "tp=8,dp=4,sites=2-0-2,micro_batches=4,seq=1k,layers=8,zero=1",
        "tp=8,dp=4,sites=2-0-2,micro_batches=4,seq=1k,layers=8,zero=1,local_steps=10",
        "tp=8,dp=4,sites=2-0-2,micro_batches=4,seq=1k,layers=8,zero=1,local_steps=1000",
        "tp=8,dp=2,sites=2,micro_batches=4,seq=1k,layers=8,zero=1"};
    orr_outcome o[4];
    for (int i = 0; i < 4; i++)
        o[i] = outcome(&s, plans[i]);
    const orr_axis_use *often = axis_of(&o[1], ORR_AXIS_OUTER),
                       *seldom = axis_of(&o[2], ORR_AXIS_OUTER);
    assert_int_equal(often->members, 2);
    assert_int_equal(axis_of(&o[1], ORR_AXIS_SHARD)->members, 2);
    assert_int_equal(axis_of(&o[0], ORR_AXIS_SHARD)->members, 4);
    assert_near(often->bytes, 100 * seldom->bytes, 0.001 * often->bytes);
    assert_near(often->busy_ns, 100 * seldom->busy_ns, 100);
    assert_int_equal(often->exposed_ns, often->busy_ns);
    assert_int_equal(o[1].step_ns - o[2].step_ns, often->busy_ns - seldom->busy_ns);
    assert_true(o[1].step_ns < o[0].step_ns);
    /* All but the meeting and the jitter of more ranks is what a site takes by itself. */
    assert_true(o[2].step_ns - seldom->busy_ns >= o[3].step_ns);
    assert_true((double)(o[2].step_ns - seldom->busy_ns) < 1.01 * (double)o[3].step_ns);
    assert_int_equal(o[1].cuts[0].axis, ORR_AXIS_OUTER);
    assert_int_equal(o[1].n_cuts, 1);
    assert_true(o[1].memory.stages[0].bytes[ORR_MEMORY_OPTIMIZER] >
                o[3].memory.stages[0].bytes[ORR_MEMORY_OPTIMIZER]);
    for (int i = 0; i < 4; i++)
        orr_outcome_free(&o[i]);
    world_close(&s.w);
}

/* One rank of each stage and device stands for all; the step is that of the slowest. */
static void devices_of_sites_differ(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "mixed_buildings");
    orr_outcome all = outcome(&s, "tp=8,dp=6,pp=2,sites=3-0-3,micro_batches=4,seq=8k,layers=8");
    orr_outcome slow = outcome(&s, "tp=8,dp=6,pp=2,sites=6,micro_batches=4,seq=8k,layers=8");
    orr_outcome fast = outcome(&s, "tp=8,dp=6,pp=2,sites=0-0-6,micro_batches=4,seq=8k,layers=8");
    assert_int_equal(all.ensemble->n_graphs, 4);
    assert_int_equal(slow.ensemble->n_graphs, 2);
    assert_int_equal(all.ensemble->n_ranks, 4);
    uint32_t ranks = 0;
    for (uint32_t c = 0; c < all.simulation->n_classes; c++)
        ranks += all.simulation->timelines[c].n_ranks;
    assert_int_equal(ranks, 96);
    assert_int_equal(orr_outcome_timeline(&all, 60)->n_ranks, 24);
    assert_int_equal(orr_outcome_timeline(&all, 60)->rank, 56);
    assert_true(all.step_ns >= slow.step_ns);
    assert_true(fast.step_ns < slow.step_ns);
    assert_true(all.mfu_frac < slow.mfu_frac);
    assert_string_equal(fast.cluster->device->name, "b200_sxm_180g");
    orr_outcome_free(&all);
    orr_outcome_free(&slow);
    orr_outcome_free(&fast);
    world_close(&s.w);
}

/* Stages on another site have its memory. */
static void memory_is_that_of_the_stage(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "mixed_buildings");
    orr_outcome o = outcome(&s, "tp=1,pp=4,sites=2-0-2,cross=pp,micro_batches=8,seq=4k,layers=16,"
                                "schedule=gpipe,sections=2x1-2x7");
    assert_true(o.memory.stages[3].peak_bytes > o.memory.stages[0].peak_bytes);
    const orr_device *of =
        o.memory.worst >= 2 ? s.cluster->sites[2].device : s.cluster->sites[0].device;
    assert_true((double)o.memory.capacity_bytes < orr_fact_or(&of->memory_bytes, 0));
    assert_true((double)o.memory.capacity_bytes > 0.9 * orr_fact_or(&of->memory_bytes, 0));
    orr_outcome_free(&o);
    world_close(&s.w);
}

/* A setting is of its class of traffic alone. */
static void wires_are_set_by_class(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    static const char *const plans[] = {
        "tp=8,dp=4,pp=4,sites=2-2,micro_batches=8,seq=2k,layers=8",
        "tp=8,dp=4,pp=4,sites=2-2,micro_batches=8,seq=2k,layers=8,wire_dp=single",
        "tp=8,dp=4,pp=4,sites=2-2,micro_batches=8,seq=2k,layers=8,wire_pp=single"};
    orr_outcome o[3];
    for (int i = 0; i < 3; i++)
        o[i] = outcome(&s, plans[i]);
    static const orr_axis axes[] = {ORR_AXIS_GRADIENT, ORR_AXIS_PP};
    for (int i = 0; i < 2; i++) {
        const int64_t usual = axis_of(&o[0], axes[i])->busy_ns;
        assert_true(axis_of(&o[1 + i], axes[i])->busy_ns > usual);
        assert_int_equal(axis_of(&o[2 - i], axes[i])->busy_ns, usual);
        assert_int_equal(axis_of(&o[1 + i], ORR_AXIS_TP)->busy_ns,
                         axis_of(&o[0], ORR_AXIS_TP)->busy_ns);
    }
    for (int i = 0; i < 3; i++)
        orr_outcome_free(&o[i]);
    world_close(&s.w);
}

/* Without a word of sites a plan fills them from the first device on. */
static void a_plan_may_leave_sites_unsaid(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "mixed_buildings");
    orr_job_options options;
    orr_job_options_init(&options);
    options.detail = ORR_DETAIL_CHUNK;
    orr_outcome o = world_outcome(&s.w, s.model, "tp=8,dp=3088,micro_batches=1,seq=1k,layers=2",
                                  s.cluster, &options);
    assert_int_equal(o.n_ranks, 24704);
    assert_true(o.n_cuts > 0);
    orr_outcome_free(&o);
    world_close(&s.w);
}

static void what_cannot_lie_there_is_told(void **state)
{
    (void)state;
    scene s;
    orr_outcome o;
    open_scene(&s, "mixed_buildings");
    orr_plan plan = world_plan(&s.w, "tp=8,dp=1024,sites=0-0-1024,micro_batches=1");
    assert_int_equal(orr_outcome_of(s.model, &plan, s.cluster, NULL, s.w.arena, &o, &s.w.err),
                     ORR_INVALID);
    assert_non_null(strstr(s.w.err.text, "blackwell: it has 6144 devices"));
    world_close(&s.w);
}

/* Every allocation may fail, and nothing is left behind: the sanitizers would tell. */
static void out_of_memory(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "tp=2,dp=4,sites=2-1-1,micro_batches=2,layers=2,seq=512,zero=1,compress=fp8,wire_pp=qp4",
        "tp=2,pp=2,dp=2,dp_outer=2,sites=1-1-2,cross=pp,micro_batches=2,layers=2,seq=512"};
    scene s;
    open_scene(&s, "mixed_buildings");
    for (int i = 0; i < 2; i++) {
        const orr_plan plan = world_plan(&s.w, plans[i]);
        uint64_t n = 1;
        for (bool done = false; !done; n += 1 + n / 16) {
            orr_arena *arena = orr_arena_new(0, 0);
            orr_outcome o;
            orr_alloc_fail_from(n);
            const orr_status status =
                orr_outcome_of(s.model, &plan, s.cluster, NULL, arena, &o, &s.w.err);
            orr_alloc_fail_from(0);
            done = status == ORR_OK;
            if (done)
                orr_outcome_free(&o);
            else
                assert_int_equal(status, ORR_NO_MEMORY);
            orr_arena_free(arena);
        }
        assert_true(n > 50);
    }
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_passes_every_cut_once),
        cmocka_unit_test(sums_of_sites_cross_between_neighbours),
        cmocka_unit_test(stages_pass_their_boundary),
        cmocka_unit_test(regions_have_pipelines_of_their_own),
        cmocka_unit_test(twins_sum_across_the_cut),
        cmocka_unit_test(parts_that_train_alone_meet_seldom),
        cmocka_unit_test(devices_of_sites_differ),
        cmocka_unit_test(memory_is_that_of_the_stage),
        cmocka_unit_test(wires_are_set_by_class),
        cmocka_unit_test(a_plan_may_leave_sites_unsaid),
        cmocka_unit_test(what_cannot_lie_there_is_told),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
