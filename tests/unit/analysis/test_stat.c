/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include <math.h>

#include "analysis/common.h"

static void assert_near(double got, double want)
{
    if (fabs(got - want) > 1e-12 * (1 + fabs(want)))
        fail_msg("%.17g is not %.17g", got, want);
}

static void test_running(void **state)
{
    (void)state;
    orr_stat stat = {0};
    assert_near(orr_stat_stddev(&stat), 0);
    const int64_t values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    for (size_t i = 0; i < 8; i++)
        orr_stat_add(&stat, values[i]);
    assert_int_equal(stat.count, 8);
    assert_int_equal(stat.sum, 40);
    assert_int_equal(stat.min, 2);
    assert_int_equal(stat.max, 9);
    assert_near(stat.mean, 5);
    assert_near(orr_stat_stddev(&stat), sqrt(32.0 / 7.0)); /* sample, not population */
}

static void test_one_value(void **state)
{
    (void)state;
    orr_stat stat = {0};
    orr_stat_add(&stat, -3);
    assert_int_equal(stat.min, -3);
    assert_int_equal(stat.max, -3);
    assert_near(orr_stat_stddev(&stat), 0);
}

/* Values far from zero: the textbook formula (sum of squares) would lose all digits. */
static void test_far_from_zero(void **state)
{
    (void)state;
    orr_stat stat = {0};
    for (int64_t i = 0; i < 3; i++)
        orr_stat_add(&stat, 1000000000000 + i);
    assert_near(orr_stat_stddev(&stat), 1);
}

/* pandas.Series([1, 2, 3, 4]).describe() */
static void test_describe(void **state)
{
    (void)state;
    double values[] = {4, 2, 1, 3};
    orr_distribution d = {0};
    orr_describe(values, 4, &d);
    assert_int_equal(d.count, 4);
    assert_near(d.mean, 2.5);
    assert_near(d.stddev, 1.2909944487358056);
    assert_near(d.min, 1);
    assert_near(d.p25, 1.75);
    assert_near(d.p50, 2.5);
    assert_near(d.p75, 3.25);
    assert_near(d.max, 4);
}

static void test_quantile_ns(void **state)
{
    (void)state;
    const int64_t values[] = {10, 20, 40};
    assert_int_equal(orr_quantile_ns(values, 3, 0), 10);
    assert_int_equal(orr_quantile_ns(values, 3, 0.5), 20);
    assert_int_equal(orr_quantile_ns(values, 3, 0.75), 30);
    assert_int_equal(orr_quantile_ns(values, 3, 1), 40);
    assert_int_equal(orr_quantile_ns(values, 1, 0.9), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_running),       cmocka_unit_test(test_one_value),
        cmocka_unit_test(test_far_from_zero), cmocka_unit_test(test_describe),
        cmocka_unit_test(test_quantile_ns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
