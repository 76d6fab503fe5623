/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

static void rows_are_kept_in_order_with_texts_of_their_own(void **state)
{
    (void)state;
    orr_samples *samples = orr_samples_new();
    const orr_device device = some_device("one", 100e12, 1e12);
    char op[] = "aten::mm";
    orr_work work = gemm(64, 64, 64);
    size_t n;

    work.op = op;
    work.kernel = NULL;
    add_sample(samples, &device, work, 5000);
    op[0] = 'x';
    add_sample(samples, &device, gemm(128, 64, 64), 6000);
    const orr_cost_sample *rows = orr_samples_rows(samples, &n);
    assert_int_equal(n, 2);
    assert_string_equal(rows[0].work.op, "aten::mm");
    assert_string_equal(rows[0].work.kernel, "");
    assert_ptr_equal(rows[1].device, &device);
    assert_true(rows[1].ns == 6000);
    orr_samples_free(samples);
}

static void work_is_completed(void **state)
{
    (void)state;
    orr_samples *samples = orr_samples_new();
    const orr_device device = some_device("one", 100e12, 1e12);
    const orr_work bare = {
        .family = ORR_FAMILY_GEMM, .dtype = ORR_DTYPE_FP16, .n_dims = 4, .dims = {1, 64, 32, 16}};
    size_t n;

    add_sample(samples, &device, bare, 5000);
    assert_true(orr_samples_rows(samples, &n)[0].work.flops == 2.0 * 64 * 32 * 16);
    orr_samples_free(samples);
}

static void work_that_says_nothing_is_counted_and_left_out(void **state)
{
    (void)state;
    orr_samples *samples = orr_samples_new();
    const orr_device device = some_device("one", 100e12, 1e12);
    const orr_cost_sample bare = {
        .device = &device, .work = {.family = ORR_FAMILY_OTHER}, .ns = 10};
    orr_samples_report report = {0};
    size_t n;

    assert_int_equal(orr_samples_add(samples, &bare, &report, NULL), ORR_OK);
    assert_int_equal(report.without_work, 1);
    assert_int_equal(report.taken, 0);
    orr_samples_rows(samples, &n);
    assert_int_equal(n, 0);
    orr_samples_free(samples);
}

/* What would make a file that is refused is not taken. */
static void what_no_file_may_hold_is_left_out(void **state)
{
    (void)state;
    orr_samples *samples = orr_samples_new();
    const orr_device device = some_device("one", 100e12, 1e12);
    static const double NS[] = {0, -1, 1e-4, 1e19, NAN, INFINITY};
    orr_samples_report report = {0};
    size_t n;

    for (size_t i = 0; i < sizeof NS / sizeof *NS; i++) {
        const orr_cost_sample row = {.device = &device, .work = gemm(64, 64, 64), .ns = NS[i]};
        assert_int_equal(orr_samples_add(samples, &row, &report, NULL), ORR_OK);
    }
    assert_int_equal(report.without_time, 6);
    const orr_cost_sample huge = {
        .device = &device, .work = gemm(INT64_MAX, INT64_MAX, INT64_MAX), .ns = 1};
    assert_int_equal(orr_samples_add(samples, &huge, &report, NULL), ORR_OK);
    assert_int_equal(report.without_work, 1);
    orr_samples_rows(samples, &n);
    assert_int_equal(n, 0);
    orr_samples_free(samples);
}

static void sources_are_the_last_parts_of_paths(void **state)
{
    (void)state;
    static const char *const PATHS[][2] = {
        {"a.csv", "a.csv"}, {"/x/y/rank0.json.gz", "rank0.json.gz"}, {"traces/", "traces"}};
    orr_samples *samples = orr_samples_new();

    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        assert_int_equal(orr_samples_add_source(samples, PATHS[i][0], NULL), ORR_OK);
        assert_string_equal(samples->sources.at[i], PATHS[i][1]);
    }
    orr_samples_free(samples);
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    const orr_device device = some_device("one", 100e12, 1e12);
    const orr_cost_sample sample = {.device = &device, .work = gemm(64, 64, 64), .ns = 10};
    orr_status status = ORR_NO_MEMORY;

    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_samples_report report = {0};
        orr_alloc_fail_from(nth);
        orr_samples *samples = orr_samples_new();
        status = samples == NULL ? ORR_NO_MEMORY : orr_samples_add(samples, &sample, &report, NULL);
        if (status == ORR_OK)
            status = orr_samples_add_source(samples, "a/b", NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_samples_free(samples);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_kept_in_order_with_texts_of_their_own),
        cmocka_unit_test(work_is_completed),
        cmocka_unit_test(work_that_says_nothing_is_counted_and_left_out),
        cmocka_unit_test(what_no_file_may_hold_is_left_out),
        cmocka_unit_test(sources_are_the_last_parts_of_paths),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
