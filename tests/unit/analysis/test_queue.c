/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

/* Calls at 0, 10, 20; work at 15, 30, 60; and a graph of two kernels, called at 40, at 70 and
 * 80 on stream 7 and 75 on stream 8. */
static void add_queue(small *s)
{
    const uint32_t cpu = small_thread(s, 1), a = small_stream(s, 0, 7), b = small_stream(s, 0, 8);
    const int64_t starts[] = {15, 30, 60};
    for (int64_t i = 0; i < 3; i++)
        small_work(s, ORR_NODE_COMPUTE, "k", a, starts[i], 5,
                   small_call(s, cpu, 10 * i, 2, ORR_NONE));
    const uint32_t graph = small_call(s, cpu, 40, 2, ORR_NONE);
    small_work(s, ORR_NODE_COMPUTE, "g1", a, 70, 5, graph);
    small_work(s, ORR_NODE_COMPUTE, "g2", b, 75, 5, graph);
    small_work(s, ORR_NODE_COMPUTE, "g3", a, 80, 5, graph);
    small_work(s, ORR_NODE_COMPUTE, "orphan", a, 0, 5, ORR_NONE);
    small_job(s);
}

static void test_series(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_series_sample *rows;
    size_t n;
    add_queue(&s);
    SMALL_SURVIVES_NO_MEMORY(
        orr_analyze_queue_length_series(s.job, NULL, s.arena, &rows, &n, &s.err));
    const int64_t at[] = {0, 10, 15, 20, 30, 40, 60, 70, 40, 75};
    const double value[] = {1, 2, 1, 2, 1, 2, 1, 0, 1, 0};
    assert_int_equal(n, 10);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(rows[i].series, i < 8 ? "7" : "8");
        assert_int_equal(rows[i].at_ns, at[i]);
        assert_float_equal(rows[i].value, value[i], 0);
    }
    small_end(&s);
}

static void test_distribution(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_distribution *rows;
    size_t n;
    add_queue(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_queue_length(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    assert_int_equal(rows[0].count, 8);
    assert_float_equal(rows[0].mean, 10.0 / 8, 1e-12);
    assert_float_equal(rows[0].min, 0, 0);
    assert_float_equal(rows[0].p50, 1, 0);
    assert_float_equal(rows[0].max, 2, 0);
    small_end(&s);
}

static void test_blocked(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_blocked *rows;
    size_t n;
    orr_analysis_options options = small_options();
    add_queue(&s);
    SMALL_SURVIVES_NO_MEMORY(
        orr_analyze_queue_blocked(s.job, &options, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    assert_int_equal(rows[0].blocked_ns, 0);
    options.queue_length_max = 2;
    assert_int_equal(orr_analyze_queue_blocked(s.job, &options, s.arena, &rows, &n, &s.err),
                     ORR_OK);
    assert_int_equal(rows[0].blocked_ns, 5 + 10 + 20);
    assert_float_equal(rows[0].frac, 35.0 / 70, 1e-12);
    assert_int_equal(rows[1].blocked_ns, 0);
    small_end(&s);
}

/* A launch and a start at one moment: the launch counts first, so no length is negative. */
static void test_never_negative(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const orr_series_sample *rows;
    size_t n;
    for (int64_t i = 0; i < 50; i++)
        small_work(&s, ORR_NODE_COMPUTE, "k", gpu, i, 0, small_call(&s, cpu, i, 0, ORR_NONE));
    small_job(&s);
    assert_int_equal(orr_analyze_queue_length_series(s.job, NULL, s.arena, &rows, &n, &s.err),
                     ORR_OK);
    assert_int_equal(n, 100);
    for (size_t i = 0; i < n; i++)
        assert_true(rows[i].value >= 0);
    assert_float_equal(rows[n - 1].value, 0, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_blocked),
        cmocka_unit_test(test_never_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
