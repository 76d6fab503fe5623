/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

static const orr_overhead ROWS[] = {
    {"", ORR_T1, 1, 0, 10},  {"a", ORR_T2, 10, 0, 10},   {"b", ORR_T2, 20, 0, 30},
    {"a", ORR_T3, 3, 0, 10}, {"b", ORR_T3, 5, 0, 10},    {"cudaLaunchKernel", ORR_T4, 4, 0, 10},
    {"a", ORR_T5, 2, 0, 10}, {"view", ORR_T5, 7, 0, 10},
};
static const orr_overheads OVERHEADS = {ROWS, sizeof ROWS / sizeof *ROWS};
static const char *const CALLS[] = {"cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernel"};

static orr_host_op op(const char *name, uint32_t launches, const double *kernel_us)
{
    return (orr_host_op){.name = name,
                         .launches = CALLS,
                         .n_launches = launches,
                         .kernel_us = kernel_us,
                         .n_kernels = kernel_us != NULL ? launches : 0};
}

static void test_host_time(void **state)
{
    (void)state;
    const orr_host_op ops[] = {op("a", 1, NULL), op("view", 0, NULL), op("a", 3, NULL)};
    orr_host_time t[3];
    orr_host_timeline(&OVERHEADS, ops, 3, ORR_ANNOTATION_LAUNCHES, t);
    assert_true(t[0].cpu_us == 1 + 10 + 4 + 3);
    assert_true(t[1].cpu_us == 18 + 1 + 7);
    assert_true(t[2].cpu_us == 26 + 1 + 10 + 3 * 4 + 2 * 2 + 3);
    assert_true(t[2].gpu_us[0] == 0 && t[2].active_us == 0);
}

/* A kernel starts when its call returns, or 1 us after the one before it. */
static void test_device_time(void **state)
{
    (void)state;
    static const double LONG[] = {100, 100}, SHORT[] = {1};
    const orr_host_op ops[] = {op("a", 2, LONG), op("a", 1, SHORT)};
    orr_host_time t[2];
    orr_host_timeline(&OVERHEADS, ops, 2, ORR_ANNOTATION_LAUNCHES, t);
    assert_true(t[0].gpu_us[0] == 1 + 10 + 4 + 100 + 1 + 100);
    assert_true(t[1].gpu_us[0] == 216 + 1 + 1);
    assert_true(t[1].active_us == 201);
    orr_host_timeline(&OVERHEADS, ops + 1, 1, ORR_ANNOTATION_LAUNCHES, t); /* host bound */
    assert_true(t[0].gpu_us[0] == 16);
}

static void test_waiting(void **state)
{
    (void)state;
    static const double LONG[] = {1000};
    orr_host_op waits = op("a", 1, LONG);
    waits.waits = true;
    orr_host_time t[1];
    orr_host_timeline(&OVERHEADS, &waits, 1, ORR_ANNOTATION_LAUNCHES, t);
    assert_true(t[0].cpu_us == 1 + 10 + 4 + 1000 + 3);
}

/* Communication runs beside computation until something joins them. */
static void test_two_streams(void **state)
{
    (void)state;
    static const double LONG[] = {1000}, SHORT[] = {10};
    orr_host_op ops[] = {op("a", 1, LONG), op("a", 1, SHORT), op("a", 1, SHORT)};
    ops[0].stream = 1;
    ops[2].joins = true;
    orr_host_time t[3];
    orr_host_timeline(&OVERHEADS, ops, 3, ORR_ANNOTATION_LAUNCHES, t);
    assert_true(t[0].gpu_us[1] == 1015);
    assert_true(t[1].gpu_us[0] == 18 + 15 + 10);
    assert_true(t[1].active_us == 1000); /* hidden behind the communication */
    assert_true(t[2].gpu_us[0] == 1015 + 1 + 10);
}

static void test_annotation_as_a_whole(void **state)
{
    (void)state;
    orr_host_op step = op("a", 3, NULL);
    step.annotation = true;
    orr_host_time launches, whole, plain;
    orr_host_timeline(&OVERHEADS, &step, 1, ORR_ANNOTATION_LAUNCHES, &launches);
    orr_host_timeline(&OVERHEADS, &step, 1, ORR_ANNOTATION_AS_PUBLISHED, &whole);
    assert_true(launches.cpu_us == 1 + 10 + 3 * 4 + 2 * 2 + 3);
    assert_true(whole.cpu_us == 1 + 2 * (10 + 3) + 2 * 2);
    step.annotation = false;
    orr_host_timeline(&OVERHEADS, &step, 1, ORR_ANNOTATION_AS_PUBLISHED, &plain);
    assert_true(plain.cpu_us == launches.cpu_us);
}

/* What the overheads do not have gets the mean of its kind, weighted by count. */
static void test_unknown_operators(void **state)
{
    (void)state;
    const orr_host_op ops[] = {op("new", 1, NULL), op("other", 0, NULL)};
    orr_host_time t[2];
    orr_host_timeline(&OVERHEADS, ops, 2, ORR_ANNOTATION_LAUNCHES, t);
    assert_true(fabs(t[0].cpu_us - (1 + 17.5 + 4 + 4)) < 1e-9);
    assert_true(fabs(t[1].cpu_us - t[0].cpu_us - (1 + 7)) < 1e-9);
    const orr_overheads none = {NULL, 0};
    orr_host_timeline(&none, ops, 2, ORR_ANNOTATION_LAUNCHES, t);
    assert_true(t[1].cpu_us == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_time),
        cmocka_unit_test(test_device_time),
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_two_streams),
        cmocka_unit_test(test_annotation_as_a_whole),
        cmocka_unit_test(test_unknown_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
