/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "outcome/multi_pass.h"

/* Tasks of a 70B model on hosts of eight H100. */
typedef struct fixture {
    orr_arena *arena;
    const orr_model *model;
    const orr_cluster *cluster;
} fixture;

static orr_error err;

static fixture open_fixture(const char *model)
{
    fixture f = {.arena = orr_arena_new(0, 0)};
    const orr_catalog *catalog;
    assert_int_equal(orr_catalog_open(f.arena, &catalog, &err), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, "dgx_h100", f.arena, &f.cluster, &err), ORR_OK);
    assert_int_equal(orr_model_load(model, f.arena, &f.model, &err), ORR_OK);
    return f;
}

static orr_outcome outcome(const fixture *f, orr_plan plan, orr_workload workload)
{
    orr_job_options options;
    orr_outcome o;
    orr_job_options_init(&options);
    options.workload = workload;
    if (orr_outcome_of(f->model, &plan, f->cluster, &options, f->arena, &o, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return o;
}

static int64_t waterfall(const orr_outcome *o)
{
    int64_t ns = 0;
    for (int i = 0; i < ORR_WATERFALLS; i++)
        ns += o->waterfall_ns[i];
    return ns;
}

static int64_t bytes_of(const orr_outcome *o, orr_memory_kind kind)
{
    return o->memory.stages[o->memory.worst].bytes[kind];
}

static void dpo_is_a_pass_of_the_reference_and_an_update_on_pairs(void **state)
{
    (void)state;
    fixture f = open_fixture("llama3.1-8b");
    const orr_plan plan = {.tp = 8, .micro_batches = 2, .micro_batch = 1, .seq = 2048};
    orr_plan pairs = plan;
    pairs.micro_batch = 2;
    orr_outcome dpo = outcome(&f, plan, (orr_workload){.task = ORR_TASK_DPO});
    orr_outcome reference =
        outcome(&f, pairs, (orr_workload){.task = ORR_TASK_PREFILL, .seq = 2048, .prompt = 2048});
    orr_outcome update = outcome(&f, pairs, (orr_workload){.task = ORR_TASK_PRETRAIN, .seq = 2048});
    assert_int_equal(dpo.n_phases, 2);
    assert_string_equal(dpo.phases[0].name, "reference");
    assert_int_equal(dpo.phases[0].ns, reference.step_ns);
    assert_int_equal(dpo.phases[1].ns, update.step_ns);
    assert_int_equal(dpo.step_ns, reference.step_ns + update.step_ns);
    assert_int_equal(waterfall(&dpo), waterfall(&reference) + waterfall(&update));
    assert_int_equal(dpo.n_nodes, update.n_nodes);
    /* The update's memory, and the weights of the reference. */
    assert_int_equal(bytes_of(&dpo, ORR_MEMORY_WEIGHTS), 2 * bytes_of(&update, ORR_MEMORY_WEIGHTS));
    assert_int_equal(bytes_of(&dpo, ORR_MEMORY_ACTIVATIONS),
                     bytes_of(&update, ORR_MEMORY_ACTIVATIONS));
    assert_int_equal(bytes_of(&dpo, ORR_MEMORY_OPTIMIZER), bytes_of(&update, ORR_MEMORY_OPTIMIZER));
    /* Samples are pairs; tokens those of both answers. */
    assert_true(fabs(dpo.tokens_per_s / dpo.samples_per_s - 2 * 2048) < 1e-6);
    assert_true(dpo.mfu_frac < update.mfu_frac * 1.5 && dpo.mfu_frac > 0);
    orr_outcome_free(&dpo);
    orr_outcome_free(&reference);
    orr_outcome_free(&update);
    orr_arena_free(f.arena);
}

static void rl_generates_scores_and_updates(void **state)
{
    (void)state;
    fixture f = open_fixture("llama3.1-8b");
    const orr_plan plan = {.tp = 8, .micro_batches = 4, .micro_batch = 1};
    orr_outcome rl =
        outcome(&f, plan, (orr_workload){.task = ORR_TASK_RL, .prompt = 512, .generated = 256});
    orr_plan all = plan;
    all.micro_batch = 4;
    all.micro_batches = 1;
    orr_outcome token =
        outcome(&f, all, (orr_workload){.task = ORR_TASK_DECODE, .prompt = 512 + 128});
    static const char *const names[] = {"prompt", "generation", "reference", "reward", "update"};
    assert_int_equal(rl.n_phases, 5);
    int64_t ns = 0;
    for (int i = 0; i < 5; i++) {
        assert_string_equal(rl.phases[i].name, names[i]);
        ns += rl.phases[i].ns;
    }
    assert_int_equal(rl.step_ns, ns);
    assert_int_equal(rl.phases[1].ns, 256 * token.step_ns);
    assert_int_equal(rl.phases[2].ns, rl.phases[3].ns);
    assert_true(rl.phases[4].ns > rl.phases[3].ns);
    assert_int_equal(bytes_of(&rl, ORR_MEMORY_WEIGHTS), 3 * bytes_of(&token, ORR_MEMORY_WEIGHTS));
    orr_outcome_free(&rl);
    orr_outcome_free(&token);
    orr_arena_free(f.arena);
}

static void generation_has_no_context_to_slice(void **state)
{
    (void)state;
    fixture f = open_fixture("llama3.1-8b");
    const orr_plan plan = {.tp = 2, .cp = 2, .pp = 2, .zero = 1, .micro_batches = 4};
    orr_outcome rl =
        outcome(&f, plan, (orr_workload){.task = ORR_TASK_RL, .prompt = 512, .generated = 512});
    assert_int_equal(rl.n_phases, 5);
    assert_int_equal(rl.n_ranks, 8);
    assert_true(fabs(rl.samples_per_s * (double)rl.step_ns / 1e9 - 4) < 1e-6);
    orr_outcome_free(&rl);
    orr_arena_free(f.arena);
}

/* A token of a sample reads all weights once: eight devices cannot give one faster than their
 * memories can. */
static void decoding_is_bound_by_memory(void **state)
{
    (void)state;
    fixture f = open_fixture("llama3.1-70b");
    const orr_workload workload = {.task = ORR_TASK_DECODE, .prompt = 1024};
    orr_outcome o = outcome(&f, (orr_plan){.tp = 8, .graphs = ORR_SWITCH_ON}, workload);
    orr_model_size size;
    assert_int_equal(orr_model_count_parameters(f.model, f.arena, &size, &err), ORR_OK);
    const double read_bytes =
        2.0 * (double)(size.total - (int64_t)f.model->vocab * f.model->hidden);
    const double floor_ns = 1e9 * read_bytes / (8 * f.cluster->device->memory_bytes_per_s.value);
    print_message("a token of 70B on 8 H100: %.2f ms, floor %.2f ms\n", 1e-6 * (double)o.step_ns,
                  1e-6 * floor_ns);
    assert_true((double)o.step_ns > floor_ns);
    /* Launches within a graph and 160 all-reduces of a few microseconds each are about as much
     * again. */
    assert_true((double)o.step_ns < 5 * floor_ns);
    assert_true(fabs(o.tokens_per_s * (double)o.step_ns / 1e9 - 1) < 1e-9);
    orr_outcome_free(&o);
    orr_arena_free(f.arena);
}

/* A step that reads mostly keys and values is nearly twice as fast where they have half the bytes;
 * what is not read in full, weights and all else, takes as long. */
static void a_cache_of_fewer_bytes_is_read_faster(void **state)
{
    (void)state;
    fixture f = open_fixture("llama3.1-70b");
    const orr_workload few = {.task = ORR_TASK_DECODE, .prompt = 16},
                       many = {.task = ORR_TASK_DECODE, .prompt = 4096 + 16};
    const orr_plan wide = {.tp = 8, .micro_batch = 64},
                   narrow = {.tp = 8, .micro_batch = 64, .kv_cache_dtype = ORR_PRECISION_FP8};
    int64_t ns[2][2];
    for (int k = 0; k < 2; k++) {
        orr_outcome short_one = outcome(&f, k ? narrow : wide, few),
                    long_one = outcome(&f, k ? narrow : wide, many);
        ns[k][0] = short_one.step_ns;
        ns[k][1] = long_one.step_ns;
        orr_outcome_free(&short_one);
        orr_outcome_free(&long_one);
    }
    const double ratio = (double)(ns[0][1] - ns[0][0]) / (double)(ns[1][1] - ns[1][0]);
    print_message("4,096 tokens more in the cache: %.2f times as fast in fp8\n", ratio);
    assert_true(ratio > 1.9 && ratio < 2.1);
    orr_arena_free(f.arena);
}

static void the_cache_is_what_the_closed_form_says(void **state)
{
    (void)state;
    fixture f = open_fixture("llama3.1-70b");
    const orr_workload workload = {.task = ORR_TASK_DECODE, .prompt = 4000, .generated = 96};
    orr_outcome o = outcome(&f, (orr_plan){.tp = 8, .micro_batch = 16}, workload);
    /* Layers x keys and values x heads of a slice x head size x 2 bytes x tokens x samples. */
    assert_int_equal(bytes_of(&o, ORR_MEMORY_CACHE), 80LL * 2 * 1 * 128 * 2 * 4096 * 16);
    orr_outcome_free(&o);
    orr_arena_free(f.arena);
}

static void a_task_of_one_pass_has_no_phases(void **state)
{
    (void)state;
    fixture f = open_fixture("llama3.1-8b");
    orr_job_options options;
    orr_outcome o;
    orr_job_options_init(&options);
    options.workload.task = ORR_TASK_SFT;
    assert_false(orr_task_is_multi_pass(ORR_TASK_SFT));
    assert_false(orr_task_is_multi_pass(ORR_TASK_DECODE));
    assert_int_equal(orr_multi_pass_outcome_of(f.model, &(orr_plan){.dp = 1}, f.cluster, &options,
                                               f.arena, &o, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "sft is one pass, not several");
    orr_arena_free(f.arena);
}

static void failing_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    fixture f = open_fixture("llama3.1-8b");
    const orr_plan plan = {.tp = 2, .layers = 2, .seq = 128};
    orr_job_options options;
    orr_outcome o = {.n_phases = 99};
    orr_job_options_init(&options);
    options.workload.task = ORR_TASK_DPO;
    for (uint64_t i = 1;; i += 37) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(i);
        const orr_status status =
            orr_multi_pass_outcome_of(f.model, &plan, f.cluster, &options, arena, &o, &err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            orr_outcome_free(&o);
        orr_arena_free(arena);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_int_equal(o.n_phases, 99);
    }
    orr_arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dpo_is_a_pass_of_the_reference_and_an_update_on_pairs),
        cmocka_unit_test(rl_generates_scores_and_updates),
        cmocka_unit_test(generation_has_no_context_to_slice),
        cmocka_unit_test(decoding_is_bound_by_memory),
        cmocka_unit_test(a_cache_of_fewer_bytes_is_read_faster),
        cmocka_unit_test(the_cache_is_what_the_closed_form_says),
        cmocka_unit_test(a_task_of_one_pass_has_no_phases),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
