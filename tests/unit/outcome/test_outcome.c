/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog_jobs.h"

#include "base/alloc.h"
#include "base/parallel_for.h"
#include "outcome/outcome.h"

/* A job of the catalogue from end to end. */
static void says_a_step(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *pod = world_cluster(&w, "dgx_h100_pod");
    orr_outcome o = world_outcome(&w, world_model(&w, "llama3.1-8b"),
                                  "tp=2,pp=4,dp=2,micro_batches=8,seq=4k", pod, NULL);
    assert_int_equal(o.n_ranks, 16);
    assert_int_equal(o.plan.micro_batches, 8);
    assert_int_equal(o.workload.seq, 4096);
    assert_int_equal(o.ensemble->n_graphs, 4);
    assert_int_equal(o.simulation->n_classes, 4);
    assert_int_equal(waterfall_sum(&o), o.step_ns);
    assert_int_equal(o.step_ns, o.simulation->end_ns - o.simulation->begin_ns);
    const double tokens = 2 * 8 * 4096, seconds = 1e-9 * (double)o.step_ns;
    assert_near(o.tokens_per_s, tokens / seconds, 1e-6 * tokens / seconds);
    assert_near(o.tokens_per_s_per_device, o.tokens_per_s / 16, 1e-6 * o.tokens_per_s);
    assert_near(o.model_flops, 3 * 16 * orr_model_flops(o.model, 4096, false),
                1e-9 * o.model_flops);
    assert_true(o.mfu_frac > 0.1 && o.mfu_frac < 0.7);
    assert_true(o.hfu_frac >= o.mfu_frac);
    assert_true(o.energy_j > 0);
    assert_int_equal(o.memory.n_stages, 4);
    orr_outcome_free(&o);
    assert_null(o.ensemble);
    orr_outcome_free(&o); /* zeroed is allowed */
    world_close(&w);
}

/* In fp8 the peak is that of fp8, so that half the time is the same MFU. */
static void mfu_is_of_the_peak_of_the_precision(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *cluster = world_cluster(&w, "dgx_h100");
    const orr_dtype dtypes[] = {ORR_DTYPE_BF16, ORR_DTYPE_FP8};
    const char *const plans[] = {"dp=8,micro_batches=2", "dp=8,micro_batches=2,precision=fp8"};
    for (int i = 0; i < 2; i++) {
        orr_outcome o = world_outcome(&w, world_model(&w, "llama3.2-1b"), plans[i], cluster, NULL);
        const double peak = cluster->device->peak_flops[dtypes[i]].value,
                     seconds = 1e-9 * (double)o.step_ns;
        assert_near(o.mfu_frac, o.model_flops / seconds / 8 / peak, 1e-9);
        orr_outcome_free(&o);
    }
    world_close(&w);
}

/* IDEAL is the model's FLOPs at the peak: MFU is its share of the step. */
static void ideal_time_is_mfu(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_outcome o = world_outcome(&w, world_model(&w, "llama3.2-1b"), "tp=2,dp=2,micro_batches=2",
                                  world_cluster(&w, "dgx_h100"), NULL);
    assert_near((double)o.waterfall_ns[ORR_WATERFALL_IDEAL] / (double)o.step_ns, o.mfu_frac, 1e-6);
    orr_outcome_free(&o);
    world_close(&w);
}

/* Recomputation shows as such, in time and in FLOPs. */
static void computes_again(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *host = world_cluster(&w, "dgx_h100");
    const orr_model *model = world_model(&w, "llama3.2-1b");
    orr_outcome none = world_outcome(&w, model, "dp=8,micro_batches=2,seq=2k", host, NULL);
    orr_outcome full =
        world_outcome(&w, model, "dp=8,micro_batches=2,seq=2k,recompute=full", host, NULL);
    assert_int_equal(none.waterfall_ns[ORR_WATERFALL_RECOMPUTE], 0);
    assert_true(full.waterfall_ns[ORR_WATERFALL_RECOMPUTE] > 0);
    assert_true(full.step_ns > none.step_ns);
    assert_true(full.hardware_flops > none.hardware_flops);
    assert_near(full.model_flops, none.model_flops, 1);
    orr_outcome_free(&none);
    orr_outcome_free(&full);
    world_close(&w);
}

/* Axes tell who speaks, and along which level. */
static void axes_are_told(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    orr_outcome o = world_outcome(&w, world_model(&w, "llama3.1-8b"),
                                  "tp=8,pp=2,dp=4,zero=1,micro_batches=4,seq=4k",
                                  world_cluster(&w, "dgx_h100_pod"), NULL);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < o.n_axes; i++) {
        const orr_axis_use *use = &o.axes[i];
        seen |= 1u << use->axis;
        assert_true(use->bytes > 0);
        assert_true(use->exposed_ns <= use->busy_ns + 1);
        if (use->axis == ORR_AXIS_TP)
            assert_int_equal(use->level, 0);
        if (use->axis == ORR_AXIS_SHARD)
            assert_true(use->level > 0);
    }
    assert_int_equal(seen, 1u << ORR_AXIS_TP | 1u << ORR_AXIS_PP | 1u << ORR_AXIS_SHARD);
    orr_outcome_free(&o);
    world_close(&w);
}

/* Transfers in line are exposed, those beside computation are not all. */
static void overlap_hides(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *pod = world_cluster(&w, "dgx_h100_pod");
    const orr_model *model = world_model(&w, "llama3.1-8b");
    const orr_calibration plain = world_plain(&w, pod);
    orr_job_options options;
    orr_job_options_init(&options);
    options.calibration = &plain;
    static const char *const on_off[][2] = {
        {"tp=2,pp=2,dp=8,micro_batches=4,seq=4k,zero=1,overlap_dp=on",
         "tp=2,pp=2,dp=8,micro_batches=4,seq=4k,zero=1,overlap_dp=off"},
        {"tp=2,pp=2,dp=8,micro_batches=4,seq=4k,overlap_pp=on",
         "tp=2,pp=2,dp=8,micro_batches=4,seq=4k,overlap_pp=off"},
        {"tp=8,dp=4,micro_batches=2,seq=4k,overlap_tp=on",
         "tp=8,dp=4,micro_batches=2,seq=4k,overlap_tp=off"},
        {"dp=32,zero=3,prefetch=1,seq=4k", "dp=32,zero=3,seq=4k,overlap_dp=off"},
    };
    for (size_t i = 0; i < sizeof on_off / sizeof *on_off; i++) {
        const int64_t on = world_step_ns(&w, model, on_off[i][0], pod, &options);
        const int64_t off = world_step_ns(&w, model, on_off[i][1], pod, &options);
        if (on >= off)
            fail_msg("%s: %lld ns, %lld without", on_off[i][0], (long long)on, (long long)off);
    }
    world_close(&w);
}

static void refuses(plan_world *w, const char *model, const char *plan_text, const char *cluster,
                    orr_status status)
{
    const orr_plan plan = world_plan(w, plan_text);
    orr_outcome o;
    memset(&w->err, 0, sizeof w->err);
    assert_int_equal(orr_outcome_of(world_model(w, model), &plan, world_cluster(w, cluster), NULL,
                                    w->arena, &o, &w->err),
                     status);
    assert_int_not_equal(w->err.text[0], '\0');
}

static void says_what_cannot_be(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    refuses(&w, "llama3.2-1b", "tp=3,dp=2", "dgx_h100", ORR_INVALID);
    refuses(&w, "llama3.2-1b", "dp=16", "dgx_h100", ORR_INVALID);
    refuses(&w, "llama3.2-1b", "pp=64,micro_batches=64", "dgx_h100_pod", ORR_INVALID);
    refuses(&w, "llama4-behemoth", "dp=8", "dgx_h100", ORR_UNSUPPORTED);
    world_close(&w);
}

/* 131,072 ranks are sixteen, and a few arrays of numbers. */
static void many_ranks_are_few(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *building = world_cluster(&w, "h100_24k");
    orr_cluster large = *building;
    orr_level levels[ORR_LEVELS_MAX];
    memcpy(levels, building->levels, building->n_levels * sizeof *levels);
    orr_level *top = &levels[building->n_levels - 1];
    top->size *= 6;
    top->devices *= 6;
    large.levels = levels;
    large.n_devices *= 6;
    orr_job_options options;
    orr_job_options_init(&options);
    options.detail = ORR_DETAIL_CHUNK;
    orr_outcome o = world_outcome(&w, world_model(&w, "llama3.1-405b"),
                                  "tp=8,pp=16,dp=1024,micro_batches=16,seq=8k", &large, &options);
    assert_int_equal(o.n_ranks, 131072);
    assert_int_equal(o.simulation->n_classes, 16);
    assert_true(o.n_nodes < 5000);
    assert_true(orr_arena_held_bytes(w.arena) < 50 << 20);
    assert_int_equal(waterfall_sum(&o), o.step_ns);
    orr_outcome_free(&o);
    world_close(&w);
}

/* Where links are shared the network says how long transfers take; with one job alone on it that is
 * about what the closed forms say. */
static void flows_say_about_the_same(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *pod = world_cluster(&w, "dgx_h100_pod");
    const orr_model *model = world_model(&w, "llama3.2-1b");
    orr_job_options options;
    orr_job_options_init(&options);
    static const char plan[] = "tp=8,pp=2,dp=2,micro_batches=4,seq=2k,zero=1";
    const int64_t closed_ns = world_step_ns(&w, model, plan, pod, &options);
    options.network = ORR_NETWORK_FLOWS;
    orr_outcome o = world_outcome(&w, model, plan, pod, &options);
    assert_near(o.step_ns, closed_ns, 0.15 * (double)closed_ns);
    assert_true(o.simulation->n_links > 0);
    assert_int_equal(waterfall_sum(&o), o.step_ns);
    orr_outcome_free(&o);
    world_close(&w);
}

/* Embedding and head share weights: the first and the last stage sum their gradients. */
static void tied_weights_are_summed(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *host = world_cluster(&w, "dgx_h100");
    for (int tied = 0; tied < 2; tied++) {
        orr_outcome o = world_outcome(&w, world_model(&w, tied ? "llama3.2-1b" : "llama3.1-8b"),
                                      "tp=2,pp=4,micro_batches=4,seq=1k", host, NULL);
        bool seen = false;
        for (uint32_t i = 0; i < o.n_axes; i++)
            seen |= o.axes[i].axis == ORR_AXIS_TIED;
        assert_int_equal(seen, tied);
        orr_outcome_free(&o);
    }
    world_close(&w);
}

/* Tasks that do not train run forward alone; what they say of FLOPs is one pass. */
static void inference_is_forward(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *host = world_cluster(&w, "dgx_h100");
    const orr_model *model = world_model(&w, "llama3.2-1b");
    orr_job_options options;
    orr_job_options_init(&options);
    options.workload = (orr_workload){.task = ORR_TASK_PREFILL, .prompt = 1024, .seq = 1024};
    orr_outcome o = world_outcome(&w, model, "tp=2,pp=2,dp=2,micro_batches=2", host, &options);
    assert_near(o.model_flops, 4 * orr_model_flops(model, 1024, false), 1);
    assert_int_equal(o.waterfall_ns[ORR_WATERFALL_OPTIMIZER], 0);
    assert_int_equal(o.waterfall_ns[ORR_WATERFALL_DP], 0);
    for (orr_node_id v = 0; v < o.ensemble->graphs[0]->n_nodes; v++)
        assert_int_equal(o.nodes[0][v].phase, ORR_SLOT_FORWARD);
    orr_outcome_free(&o);
    world_close(&w);
}

/* Independent jobs on threads of their own: models and clusters are shared, nothing else is. */
typedef struct batch {
    const orr_model *model;
    const orr_cluster *cluster;
    orr_plan plans[8];
    int64_t step_ns[8];
} batch;

static orr_status run_one(void *ctx, size_t i, orr_error *err)
{
    batch *b = ctx;
    orr_outcome o;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    const orr_status status =
        orr_outcome_of(b->model, &b->plans[i], b->cluster, NULL, arena, &o, err);
    if (status == ORR_OK) {
        b->step_ns[i] = o.step_ns;
        orr_outcome_free(&o);
    }
    orr_arena_free(arena);
    return status;
}

static void jobs_run_beside_one_another(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    batch b = {.model = world_model(&w, "llama3.2-1b"),
               .cluster = world_cluster(&w, "dgx_h100_pod")};
    for (uint32_t i = 0; i < 8; i++)
        b.plans[i] = (orr_plan){.tp = 2,
                                .pp = 1u << i % 3,
                                .dp = 4,
                                .micro_batches = 4 + i,
                                .seq = 1024,
                                .zero = i % 4};
    world_must(&w, orr_parallel_for(8, 4, run_one, &b, &w.err), "threads");
    for (size_t i = 0; i < 8; i++) {
        const int64_t beside_ns = b.step_ns[i];
        world_must(&w, run_one(&b, i, &w.err), "alone");
        assert_int_equal(b.step_ns[i], beside_ns);
    }
    world_close(&w);
}

/* Every allocation may fail, and nothing is left behind: the sanitizers would tell. */
static void out_of_memory(void **state)
{
    (void)state;
    plan_world w;
    world_open(&w);
    const orr_cluster *host = world_cluster(&w, "dgx_h100");
    const orr_model *model = world_model(&w, "llama3.2-1b");
    const orr_plan plan = world_plan(&w, "tp=2,pp=2,dp=2,micro_batches=2,layers=2,seq=512,zero=1");
    orr_outcome o;
    uint64_t n = 1;
    for (bool done = false; !done; n += 1 + n / 16) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(n);
        const orr_status status = orr_outcome_of(model, &plan, host, NULL, arena, &o, &w.err);
        orr_alloc_fail_from(0);
        done = status == ORR_OK;
        if (done)
            orr_outcome_free(&o);
        else
            assert_int_equal(status, ORR_NO_MEMORY);
        orr_arena_free(arena);
    }
    assert_true(n > 50);
    world_close(&w);
}

/* Backward passes in two shorten the pipeline at equal memory (Qi et al., arXiv 2401.10241, table
 * 1) where nothing is lost between their halves: with tensor slices, a reduction of the input's
 * gradient has no weight gradient beside it any more, in each micro-batch. */
static void split_backward_passes_shorten_the_pipeline(void **state)
{
    (void)state;
    static const char *const models[] = {"llama3.1-8b", "llama3.1-70b", "gpt3-175b",
                                         "mixtral-8x7b"},
                             *const plans[] = {"dp=8,pp=4,micro_batches=8,micro_batch=1",
                                               "dp=8,pp=8,micro_batches=32,zero=1",
                                               "dp=8,pp=8,micro_batches=16,graphs=on",
                                               "dp=8,pp=4,micro_batches=16,recompute=selective"};
    plan_world w;
    world_open(&w);
    const orr_cluster *cluster = world_cluster(&w, "h100_superpod");
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
            const orr_model *model = world_model(&w, models[m]);
            orr_plan plan = world_plan(&w, plans[p]);
            plan.schedule = ORR_SCHEDULE_ZB_H1;
            const char *text = orr_plan_text(&plan, w.arena);
            const int64_t whole = world_step_ns(&w, model, plans[p], cluster, NULL),
                          split = world_step_ns(&w, model, text, cluster, NULL);
            if (split > whole)
                fail_msg("%s, %s: %lld ns, with zb_h1 %lld", models[m], plans[p], (long long)whole,
                         (long long)split);
        }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_a_step),
        cmocka_unit_test(ideal_time_is_mfu),
        cmocka_unit_test(mfu_is_of_the_peak_of_the_precision),
        cmocka_unit_test(computes_again),
        cmocka_unit_test(axes_are_told),
        cmocka_unit_test(overlap_hides),
        cmocka_unit_test(says_what_cannot_be),
        cmocka_unit_test(many_ranks_are_few),
        cmocka_unit_test(flows_say_about_the_same),
        cmocka_unit_test(tied_weights_are_summed),
        cmocka_unit_test(inference_is_forward),
        cmocka_unit_test(jobs_run_beside_one_another),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(split_backward_passes_shorten_the_pipeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
