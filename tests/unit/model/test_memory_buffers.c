/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "base/alloc.h"

static orr_buffer_bytes buffers(small_job *j, uint32_t stage)
{
    orr_buffer_bytes b;
    j->stage.stage = stage;
    assert_int_equal(orr_stage_buffers(&j->stage, &b, NULL), ORR_OK);
    return b;
}

/* Bytes beyond those of inference, which has no gradients. */
static int64_t gradients(orr_plan plan, uint32_t stage)
{
    small_job j, none;
    small_job_make(&j, plan, ORR_TASK_PRETRAIN);
    small_job_make(&none, plan, ORR_TASK_PREFILL);
    const int64_t bytes = buffers(&j, stage).visible - buffers(&none, stage).visible;
    small_job_done(&j);
    small_job_done(&none);
    return bytes;
}

static void fused_accumulation_keeps_one_gradient_of_each_shape(void **state)
{
    (void)state;
    assert_int_equal(gradients((orr_plan){.dp = 2}, 0), SMALL_W + 10 * SMALL_W);
    /* The head is on the last stage alone. */
    assert_int_equal(gradients((orr_plan){.pp = 2, .micro_batches = 4}, 0), SMALL_W);
    assert_int_equal(gradients((orr_plan){.pp = 2, .micro_batches = 4}, 1), SMALL_W + 10 * SMALL_W);
}

static void without_it_there_is_none(void **state)
{
    (void)state;
    assert_int_equal(gradients((orr_plan){.dp = 2, .zero = 2}, 0), 0);
    assert_int_equal(gradients((orr_plan){.precision = ORR_PRECISION_FP32}, 0), 0);
}

static void of_experts_it_is_one_experts(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.dp = 1}, ORR_TASK_PRETRAIN);
    const int64_t before = buffers(&j, 0).visible;
    orr_tape_value *w = &j.parts[1].s.values[j.parts[1].w];
    w->type.rank = 3;
    w->type.dim[0] = 4;
    w->type.dim[1] = SMALL_ROWS;
    w->type.dim[2] = SMALL_COLUMNS;
    assert_int_equal(buffers(&j, 0).visible, before);
    w->frozen = true;
    j.parts[0].s.values[j.parts[0].w].frozen = true;
    assert_int_equal(buffers(&j, 0).visible, before - SMALL_W);
    small_job_done(&j);
}

static void a_communicator_for_each_axis_with_company(void **state)
{
    (void)state;
    int64_t hidden[3];
    const orr_plan plans[] = {{.dp = 1}, {.dp = 8}, {.dp = 4, .tp = 2}};
    for (int i = 0; i < 3; i++) {
        small_job j;
        small_job_make(&j, plans[i], ORR_TASK_PRETRAIN);
        hidden[i] = buffers(&j, 0).hidden;
        small_job_done(&j);
    }
    assert_true(hidden[0] > 0);
    assert_true(hidden[1] > hidden[0]);
    assert_int_equal(hidden[2] - hidden[1], hidden[1] - hidden[0]);
}

static void workspaces_depend_on_the_device(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.dp = 1}, ORR_TASK_PREFILL);
    small_job_device(&j, 80e9, true);
    assert_int_equal(buffers(&j, 0).visible, 64 << 20);
    small_job_device(&j, 80e9, false);
    assert_int_equal(buffers(&j, 0).visible, 25 << 19);
    small_job_done(&j);
}

static void the_driver_keeps_some_of_the_memory(void **state)
{
    (void)state;
    small_job j;
    small_job_make(&j, (orr_plan){.dp = 1}, ORR_TASK_PREFILL);
    const double gib = 1 << 30;
    assert_int_equal(orr_usable_bytes(NULL), -1);
    small_job_device(&j, NAN, true);
    assert_int_equal(orr_usable_bytes(&j.device), -1);
    small_job_device(&j, 80 * gib, true);
    /* What PyTorch prints as the capacity of an A100 and of an H100 of 80 GB. */
    assert_in_range(orr_usable_bytes(&j.device), (int64_t)(79.0 * gib), (int64_t)(79.4 * gib));
    small_job_device(&j, 1000, true);
    assert_int_equal(orr_usable_bytes(&j.device), 0);
    small_job_done(&j);
}

static void failing_allocations_are_told(void **state)
{
    (void)state;
    small_job j;
    orr_buffer_bytes b = {.visible = -1};
    small_job_make(&j, (orr_plan){.dp = 1}, ORR_TASK_PRETRAIN);
    orr_alloc_fail_from(1);
    const orr_status status = orr_stage_buffers(&j.stage, &b, NULL);
    orr_alloc_fail_from(0);
    assert_int_equal(status, ORR_NO_MEMORY);
    assert_int_equal(b.visible, -1);
    small_job_done(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_accumulation_keeps_one_gradient_of_each_shape),
        cmocka_unit_test(without_it_there_is_none),
        cmocka_unit_test(of_experts_it_is_one_experts),
        cmocka_unit_test(a_communicator_for_each_axis_with_company),
        cmocka_unit_test(workspaces_depend_on_the_device),
        cmocka_unit_test(the_driver_keeps_some_of_the_memory),
        cmocka_unit_test(failing_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
