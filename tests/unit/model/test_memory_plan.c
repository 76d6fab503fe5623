/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "base/alloc.h"

static orr_memory_plan plan_of(small_job *j)
{
    orr_memory_plan plan;
    assert_int_equal(orr_memory_plan_of_job(&j->job, j->arena, &plan, NULL), ORR_OK);
    return plan;
}

static int64_t sum(const orr_stage_memory *s)
{
    int64_t bytes = 0;
    for (int kind = 0; kind < ORR_MEMORY_KINDS; kind++)
        bytes += s->bytes[kind];
    return bytes;
}

enum { ELEMENTS = SMALL_ROWS * SMALL_COLUMNS, KEPT = SMALL_X + SMALL_Y };

static void kinds_add_up_to_the_peak(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.pp = 2, .micro_batches = 4, .dp = 2, .zero = 1},
                   ORR_TASK_PRETRAIN);
    const orr_memory_plan plan = plan_of(&j);
    assert_int_equal(plan.n_stages, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const orr_stage_memory *s = &plan.stages[i];
        assert_int_equal(sum(s), s->peak_bytes);
        assert_true(s->allocated_bytes < s->peak_bytes);
        assert_int_equal(s->bytes[ORR_MEMORY_CACHE], 0);
    }
    /* Embedding and two layers; two layers and the head, ten times as wide. */
    const orr_stage_memory *first = &plan.stages[0], *last = &plan.stages[1];
    assert_int_equal(first->bytes[ORR_MEMORY_WEIGHTS], 3 * 2 * ELEMENTS);
    assert_int_equal(first->bytes[ORR_MEMORY_GRADIENTS], 3 * 4 * ELEMENTS);
    assert_int_equal(first->bytes[ORR_MEMORY_OPTIMIZER], 3 * 6 * ELEMENTS);
    assert_int_equal(last->bytes[ORR_MEMORY_WEIGHTS], 12 * 2 * ELEMENTS);
    assert_int_equal(first->bytes[ORR_MEMORY_ACTIVATIONS], 2 * 3 * KEPT);
    assert_int_equal(last->bytes[ORR_MEMORY_ACTIVATIONS], 3 * KEPT);
    small_job_done(&j);
}

static void a_plan_that_does_not_fit_says_by_how_much(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.dp = 1}, ORR_TASK_PRETRAIN);
    orr_memory_plan plan = plan_of(&j);
    assert_int_equal(plan.capacity_bytes, -1);
    assert_true(plan.fits);
    assert_int_equal(plan.missing_bytes, 0);
    small_job_device(&j, 80.0 * (1 << 30), true);
    plan = plan_of(&j);
    assert_true(plan.fits);
    const int64_t driver = 80LL * (1 << 30) - plan.capacity_bytes;
    small_job_device(&j, (double)(driver + plan.stages[0].peak_bytes), true);
    plan = plan_of(&j);
    assert_true(plan.fits);
    small_job_device(&j, (double)(driver + plan.stages[0].peak_bytes - 1000), true);
    plan = plan_of(&j);
    assert_false(plan.fits);
    assert_int_equal(plan.missing_bytes, 1000);
    small_job_done(&j);
}

/* Each stage against its own device: the one with less to hold may be the one that does not fit. */
static void the_worst_stage_is_so_on_its_device(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.pp = 2, .micro_batches = 4}, ORR_TASK_PRETRAIN);
    small_job_device(&j, 80.0 * (1 << 30), true);
    orr_memory_plan plan = plan_of(&j);
    const int64_t driver = 80LL * (1 << 30) - plan.capacity_bytes;
    assert_int_equal(plan.worst, 1);
    orr_device small = j.device;
    small.memory_bytes.value = (double)(driver + plan.stages[0].peak_bytes - 77);
    const orr_device *const devices[] = {&small, &j.device};
    j.job.stage_devices = devices;
    plan = plan_of(&j);
    assert_true(plan.stages[1].peak_bytes > plan.stages[0].peak_bytes);
    assert_int_equal(plan.worst, 0);
    assert_false(plan.fits);
    assert_int_equal(plan.missing_bytes, 77);
    assert_int_equal(plan.capacity_bytes, plan.stages[0].peak_bytes - 77);
    small.memory_bytes.value = NAN; /* not known: no reason to fail */
    plan = plan_of(&j);
    assert_int_equal(plan.worst, 1);
    assert_true(plan.fits);
    small_job_done(&j);
}

/* Two stages of two layers, each twice: DualPipe keeps the parameters of both directions
 * (DeepSeek-V3, arXiv 2412.19437, table 2: 2 x). */
static void dualpipe_has_two_copies(void **state)
{
    (void)state;
    small_job j, plain;
    small_job_make(&j, (orr_plan){.pp = 2, .micro_batches = 8, .schedule = ORR_SCHEDULE_DUALPIPE},
                   ORR_TASK_PRETRAIN);
    small_job_make(&plain, (orr_plan){.pp = 2, .micro_batches = 8}, ORR_TASK_PRETRAIN);
    const orr_memory_plan dual = plan_of(&j), one = plan_of(&plain);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(dual.stages[i].bytes[ORR_MEMORY_WEIGHTS],
                         one.stages[0].bytes[ORR_MEMORY_WEIGHTS] +
                             one.stages[1].bytes[ORR_MEMORY_WEIGHTS]);
    small_job_done(&j);
    small_job_done(&plain);
}

static void inference_has_a_cache(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.pp = 2, .micro_batch = 3, .micro_batches = 2}, ORR_TASK_DECODE);
    j.workload.prompt = 100;
    j.workload.generated = 20;
    const orr_memory_plan plan = plan_of(&j);
    /* 2 layers x keys and values x 2 heads x 8 columns x 2 bytes x 120 tokens x 6 samples. */
    assert_int_equal(plan.stages[0].bytes[ORR_MEMORY_CACHE], 2 * 2 * 2 * 8 * 2 * 120 * 6);
    assert_int_equal(plan.stages[1].bytes[ORR_MEMORY_CACHE], 2 * 2 * 2 * 8 * 2 * 120 * 6);
    assert_int_equal(plan.stages[0].bytes[ORR_MEMORY_GRADIENTS], 0);
    assert_int_equal(plan.stages[0].bytes[ORR_MEMORY_ACTIVATIONS], 0);
    assert_int_equal(sum(&plan.stages[0]), plan.stages[0].peak_bytes);
    small_job_done(&j);
}

/* The largest batch and the largest context that are told fit, and a little more does not. */
static orr_memory_plan decoding(uint32_t samples, uint32_t tokens)
{
    small_job j;
    small_job_make(&j, (orr_plan){.micro_batch = samples, .micro_batches = 1}, ORR_TASK_DECODE);
    small_job_device(&j, 2.0 * (1 << 30), true);
    j.workload.prompt = tokens;
    j.workload.generated = 20;
    const orr_memory_plan plan = plan_of(&j);
    small_job_done(&j);
    return plan;
}

static void what_would_fit_is_told(void **state)
{
    (void)state;
    const orr_memory_plan few = decoding(1000, 100);
    assert_true(few.fits && few.most_samples > 1000 && few.most_tokens > 120);
    const uint32_t samples = (uint32_t)few.most_samples, tokens = (uint32_t)few.most_tokens - 20;
    assert_true(decoding(samples, 100).fits);
    assert_false(decoding(samples + samples / 100 + 1, 100).fits);
    assert_true(decoding(1000, tokens).fits);
    assert_false(decoding(1000, tokens + tokens / 100 + 1).fits);
    assert_in_range(decoding(2 * samples, 100).most_samples, samples - 1, samples + 1);
}

static void what_generation_needs_is_free_for_the_update(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.micro_batches = 2}, ORR_TASK_RL);
    j.workload.prompt = 1;
    j.workload.generated = 1;
    orr_memory_plan plan = plan_of(&j);
    assert_int_equal(plan.stages[0].bytes[ORR_MEMORY_CACHE], 0);
    assert_int_equal(plan.stages[0].bytes[ORR_MEMORY_WEIGHTS], 3 * 2 * ELEMENTS * 15);
    j.workload.generated = 100000;
    plan = plan_of(&j);
    assert_int_equal(plan.stages[0].bytes[ORR_MEMORY_CACHE], 4 * 2 * 2 * 8 * 2 * 100001LL * 2);
    assert_int_equal(plan.stages[0].bytes[ORR_MEMORY_ACTIVATIONS], 0);
    assert_int_equal(sum(&plan.stages[0]), plan.stages[0].peak_bytes);
    small_job_done(&j);
}

static void a_cache_that_no_device_has_is_told(void **state)
{
    (void)state;
    small_job j;
    orr_memory_plan plan = {.n_stages = 99};
    orr_error err;
    small_job_make(&j, (orr_plan){.micro_batch = UINT32_MAX, .micro_batches = 1}, ORR_TASK_DECODE);
    j.workload.prompt = UINT32_MAX;
    assert_int_equal(orr_memory_plan_of_job(&j.job, j.arena, &plan, &err), ORR_LIMIT);
    assert_int_equal(plan.n_stages, 99);
    small_job_done(&j);
}

static void tied_weights_are_there_once(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.dp = 1}, ORR_TASK_PRETRAIN);
    const orr_memory_plan apart = plan_of(&j);
    j.parts[0].s.values[j.parts[0].w].tag = ORR_WEIGHT_TIED;
    j.parts[2].s.values[j.parts[2].w].tag = ORR_WEIGHT_TIED;
    const orr_memory_plan tied = plan_of(&j);
    assert_int_equal(apart.stages[0].bytes[ORR_MEMORY_WEIGHTS] -
                         tied.stages[0].bytes[ORR_MEMORY_WEIGHTS],
                     10 * SMALL_W);
    small_job_done(&j);
}

static void failing_allocations_are_told(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.pp = 2, .micro_batches = 4}, ORR_TASK_PRETRAIN);
    orr_alloc_count();
    orr_memory_plan plan = plan_of(&j);
    const uint64_t n = orr_alloc_count();
    plan.n_stages = 99;
    for (uint64_t i = 1; i <= n; i++) {
        orr_alloc_fail_from(i);
        const orr_status status = orr_memory_plan_of_job(&j.job, j.arena, &plan, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_NO_MEMORY || status == ORR_OK);
        assert_true(status == ORR_OK || plan.n_stages == 99);
    }
    small_job_done(&j);
}

static void kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(orr_memory_kind_name(ORR_MEMORY_CACHE), "key-value cache");
    assert_string_equal(orr_memory_kind_name(ORR_MEMORY_KINDS), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_add_up_to_the_peak),
        cmocka_unit_test(what_would_fit_is_told),
        cmocka_unit_test(a_plan_that_does_not_fit_says_by_how_much),
        cmocka_unit_test(the_worst_stage_is_so_on_its_device),
        cmocka_unit_test(dualpipe_has_two_copies),
        cmocka_unit_test(inference_has_a_cache),
        cmocka_unit_test(what_generation_needs_is_free_for_the_update),
        cmocka_unit_test(a_cache_that_no_device_has_is_told),
        cmocka_unit_test(tied_weights_are_there_once),
        cmocka_unit_test(failing_allocations_are_told),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
