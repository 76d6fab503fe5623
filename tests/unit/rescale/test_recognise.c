/* SPDX-License-Identifier: Apache-2.0 */
#include "recorded.h"

static const orr_synthetic job = {.plan = {.dp = 2,
                                           .tp = 2,
                                           .pp = 2,
                                           .micro_batches = 3,
                                           .micro_batch = 2,
                                           .layers = 4,
                                           .hidden = 64,
                                           .ffn = 192,
                                           .heads = 4,
                                           .seq = 16,
                                           .vocab = 512,
                                           .schedule = ORR_SCHEDULE_1F1B},
                                  .dtype = ORR_DTYPE_BF16,
                                  .host = true};

static const orr_finding *find(const orr_recognition *r, const char *what)
{
    for (uint32_t i = 0; i < r->n_findings; i++)
        if (strcmp(r->findings[i].what, what) == 0)
            return &r->findings[i];
    fail_msg("nothing is said of '%s'", what);
    return NULL;
}

static void a_recorded_plan_is_recognised(void **state)
{
    (void)state;
    world w;
    orr_recognition r;
    orr_error err = {0};
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_recognise(recorded, NULL, w.arena, &r, &err), &err, 0, "recognise");
    assert_true(r.whole);
    assert_null(r.why_not);
    assert_string_equal(orr_plan_text(&r.plan, w.arena), orr_plan_text(&job.plan, w.arena));
    assert_int_equal(find(&r, "tp")->confidence, ORR_CONFIDENCE_NAMED);
    assert_non_null(strstr(find(&r, "tp")->evidence, "TENSOR_MODEL_PARALLEL"));
    assert_int_equal(find(&r, "hidden")->confidence, ORR_CONFIDENCE_INFERRED);
    for (uint32_t i = 0; i < recorded->n_groups; i++)
        assert_true(r.dimension_of_group[i] >= ORR_DIMENSION_TP &&
                    r.dimension_of_group[i] <= ORR_DIMENSION_DP);
    orr_job_free(recorded);
    close_world(&w);
}

/* Blocks of rank 0, whose layers are 0 and 1; rank 4 has 2 and 3. */
static void blocks_are_layers_and_micro_batches(void **state)
{
    (void)state;
    world w;
    orr_recognition r;
    orr_error err = {0};
    uint32_t kernels[2][4][3] = {{{0}}};
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_recognise(recorded, NULL, w.arena, &r, &err), &err, 0, "recognise");
    for (uint32_t i = 0; i < r.n_blocks; i++) {
        const orr_block *b = &r.blocks[i];
        if (b->layer < 0 || (b->graph != 0 && b->graph != 4))
            continue;
        assert_true(b->layer / 2 == (b->graph == 4) && b->micro_batch < 3);
        kernels[b->phase == ORR_PHASE_BACKWARD][b->layer][b->micro_batch] += b->n_kernels;
    }
    for (uint32_t layer = 0; layer < 4; layer++)
        for (uint32_t m = 0; m < 3; m++) {
            /* Kernels, all-reduces, and the records of their events (two of each). */
            assert_int_equal(kernels[0][layer][m], 10 + 2 + 4);
            assert_int_equal(kernels[1][layer][m], 12 + 2 + 4 + (m == 2 ? 2 : 0));
        }
    orr_job_free(recorded);
    close_world(&w);
}

static void must_contradict(const char *stated, const char *why)
{
    world w;
    orr_recognition r;
    orr_plan plan;
    orr_error err = {0};
    open_world(&w, "dgx_h100_pod", 0);
    const orr_job *recorded = record(&w, &job, 0);
    must(orr_plan_parse(stated, &plan, &err), &err, 0, "parse");
    assert_int_equal(orr_recognise(recorded, &plan, w.arena, &r, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
    orr_job_free(recorded);
    close_world(&w);
}

static void what_is_stated_must_agree(void **state)
{
    (void)state;
    must_contradict("tp=4", "tp=4 is stated");
    must_contradict("layers=5", "layers=5 is stated");
    must_contradict("hidden=128", "hidden=128 is stated");
    must_contradict("micro_batches=7", "micro_batches=7 is stated");
}

static const orr_job *example(const char *name, orr_arena *arena)
{
    const orr_job *read = NULL;
    const orr_job_file *files;
    size_t n;
    orr_error err = {0};
    char path[512];
    const char *source = getenv("ORRERY_SOURCE");
    if (source == NULL)
        skip();
    snprintf(path, sizeof path, "%s/examples/traces/%s", source, name);
    const char *paths[] = {path};
    must(orr_job_read(paths, 1, NULL, arena, &read, &files, &n, &err), &err, 0, name);
    return read;
}

/* A small GPT, recorded on CPUs: no modules are numbered, so its two layers are told by
 * repetition. */
static void a_real_gpt_is_recognised(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_recognition r;
    orr_error err = {0};
    const orr_job *recorded = example("gpt_ddp_gloo_w2", arena);
    must(orr_recognise(recorded, NULL, arena, &r, &err), &err, 0, "recognise");
    assert_string_equal(orr_plan_text(&r.plan, arena),
                        "dp=2,tp=1,pp=1,micro_batches=1,micro_batch=8,layers=2,hidden=128,ffn=512,"
                        "heads=4,seq=64,vocab=256,schedule=1f1b");
    assert_false(r.whole);
    assert_non_null(strstr(r.why_not, "no device work"));
    orr_job_free(recorded);
    orr_arena_free(arena);
}

/* Qwen1.5-0.5B: https://huggingface.co/Qwen/Qwen1.5-0.5B/blob/main/config.json has 24 layers,
 * hidden size 1024, intermediate size 2816, 16 heads and 151936 tokens. */
static void a_real_inference_is_recognised(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_recognition r;
    orr_error err = {0};
    char path[512];
    const orr_job *recorded = NULL;
    const orr_job_file *files;
    size_t n;
    if (getenv("ORRERY_SHARED") == NULL)
        skip();
    snprintf(path, sizeof path, "%s/data/traces/kineto/qwen1.5-0.5b_h100.json.gz",
             getenv("ORRERY_SHARED"));
    const char *paths[] = {path};
    must(orr_job_read(paths, 1, NULL, arena, &recorded, &files, &n, &err), &err, 0, "read");
    must(orr_recognise(recorded, NULL, arena, &r, &err), &err, 0, "recognise");
    assert_int_equal(r.plan.layers, 24);
    assert_int_equal(r.plan.hidden, 1024);
    assert_int_equal(r.plan.ffn, 2816);
    assert_int_equal(r.plan.heads, 16);
    assert_int_equal(r.plan.vocab, 151936);
    assert_true(r.whole);
    orr_job_free(recorded);
    orr_arena_free(arena);
}

/* What is not there is said, not made up. */
static void a_real_mlp_has_no_layers(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_recognition r;
    orr_error err = {0};
    const orr_job *recorded = example("mlp_ddp_gloo_w2", arena);
    must(orr_recognise(recorded, NULL, arena, &r, &err), &err, 0, "recognise");
    assert_int_equal(r.plan.dp, 2);
    assert_int_equal(r.plan.layers, 0);
    assert_int_equal(r.plan.hidden, 0);
    assert_int_equal(find(&r, "layers")->confidence, ORR_CONFIDENCE_UNKNOWN);
    assert_int_equal(find(&r, "heads")->confidence, ORR_CONFIDENCE_UNKNOWN);
    orr_job_free(recorded);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_plan_is_recognised),
        cmocka_unit_test(blocks_are_layers_and_micro_batches),
        cmocka_unit_test(what_is_stated_must_agree),
        cmocka_unit_test(a_real_gpt_is_recognised),
        cmocka_unit_test(a_real_inference_is_recognised),
        cmocka_unit_test(a_real_mlp_has_no_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
