/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

static const orr_kernel *analyze(small *s, const orr_analysis_options *options, size_t *n)
{
    const orr_kernel *rows;
    assert_int_equal(orr_analyze_kernels(s->job, options, s->arena, &rows, n, &s->err), ORR_OK);
    return rows;
}

/* Kernels k1 (sum 10) to k12 (sum 120), two launches each, the second twice as long... */
static void add_kernels(small *s)
{
    const uint32_t gpu = small_stream(s, 0, 7);
    int64_t at = 0;
    for (int i = 1; i <= 12; i++) {
        const char name[] = {'k', (char)('a' + i), '\0'};
        small_work(s, ORR_NODE_COMPUTE, name, gpu, at, 4 * i, ORR_NONE);
        small_work(s, ORR_NODE_COMPUTE, name, gpu, at + 200, 6 * i, ORR_NONE);
        at += 1000;
    }
    small_work(s, ORR_NODE_SET, "Memset (Device)", gpu, at, 3, ORR_NONE);
    small_work(s, ORR_NODE_COLLECTIVE, "ncclKernel_AllReduce", gpu, at + 10, 30, ORR_NONE);
    small_job(s);
}

static void test_all_named(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    orr_analysis_options options = small_options();
    options.top_kernels = 0;
    add_kernels(&s);
    const orr_kernel *rows = analyze(&s, &options, &n);
    assert_int_equal(n, 14);
    assert_string_equal(rows[0].name, "km"); /* i = 12 */
    assert_string_equal(rows[0].type, "COMPUTATION");
    assert_int_equal(rows[0].count, 2);
    assert_int_equal(rows[0].sum_ns, 120);
    assert_int_equal(rows[0].max_ns, 72);
    assert_int_equal(rows[0].min_ns, 48);
    assert_float_equal(rows[0].mean_ns, 60, 1e-9);
    assert_float_equal(rows[0].stddev_ns, 16.970562748477143, 1e-9);
    for (size_t i = 1; i < 12; i++)
        assert_true(rows[i - 1].sum_ns > rows[i].sum_ns);
    assert_string_equal(rows[12].type, "COMMUNICATION");
    assert_int_equal(rows[12].sum_ns, 30);
    assert_float_equal(rows[12].stddev_ns, 0, 0);
    assert_string_equal(rows[13].type, "MEMORY");
    small_end(&s);
}

/* 780 ns in all. Named are at most top_kernels, and no more than make up the share. */
static void test_others(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    orr_analysis_options options = small_options();
    options.top_kernels = 3;
    options.top_duration_frac = 1;
    add_kernels(&s);
    const orr_kernel *rows = analyze(&s, &options, &n);
    assert_int_equal(n, 3 + 1 + 1 + 1);
    assert_string_equal(rows[3].name, "others");
    assert_int_equal(rows[3].count, 18);
    assert_int_equal(rows[3].sum_ns, 780 - 120 - 110 - 100);
    assert_int_equal(rows[3].min_ns, 4);
    assert_int_equal(rows[3].max_ns, 54);
    assert_float_equal(rows[3].mean_ns, 450.0 / 18, 1e-9);
    /* of 4i and 6i for i = 1..9: (52 * 285 - 450 * 450 / 18) / 17 = 210 */
    assert_float_equal(rows[3].stddev_ns, 14.491376746189438, 1e-9);

    options.top_kernels = 10;
    options.top_duration_frac = 0.25; /* of 780: 120 is not enough, 120 + 110 is */
    rows = analyze(&s, &options, &n);
    assert_int_equal(n, 2 + 1 + 1 + 1);
    assert_string_equal(rows[2].name, "others");
    assert_int_equal(rows[2].sum_ns, 780 - 230);
    small_end(&s);
}

static void test_allocation_failure(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    const orr_kernel *rows;
    add_kernels(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_kernels(s.job, NULL, s.arena, &rows, &n, &s.err));
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_named),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
