/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "engine/serve/load.h"

/* The schedule of an open-loop load, and what is made of latencies. */

/* Times between arrivals have the mean and the standard deviation of an exponential. */
static void arrivals_are_a_poisson_process(void **state)
{
    (void)state;
    enum { N = 100000 };
    orr_arrivals a = orr_arrivals_of(1000, 7), again = orr_arrivals_of(1000, 7),
                 other = orr_arrivals_of(1000, 8);
    double sum = 0, squares = 0;
    int64_t before = 0, same = 0;
    for (int i = 0; i < N; i++) {
        const int64_t at = orr_arrivals_next(&a);
        const double gap = (double)(at - before) * 1e-6; /* in 1 / rate */
        assert_true(at >= before);
        assert_int_equal(at, orr_arrivals_next(&again));
        same += at == orr_arrivals_next(&other);
        sum += gap;
        squares += gap * gap;
        before = at;
    }
    const double mean = sum / N, deviation = sqrt(squares / N - mean * mean);
    if (fabs(mean - 1) > 0.02 || fabs(deviation - 1) > 0.03)
        fail_msg("mean %g, deviation %g", mean, deviation);
    assert_true(same < 10);
}

static void quantiles_are_of_nearest_rank(void **state)
{
    (void)state;
    int64_t latencies[1000];
    orr_load_result r = {0};
    for (int i = 0; i < 1000; i++)
        latencies[i] = (i * 7919) % 1000 + 1; /* 1 .. 1000, in disorder */
    orr_load_summarize(latencies, 1000, &r);
    assert_true(r.p50_ns == 500 && r.p99_ns == 990 && r.p999_ns == 999 && r.most_ns == 1000);
    assert_int_equal(r.mean_ns, 500);
    latencies[0] = 5;
    orr_load_summarize(latencies, 1, &r);
    assert_true(r.p50_ns == 5 && r.p999_ns == 5 && r.most_ns == 5 && r.mean_ns == 5);
    orr_load_summarize(NULL, 0, &r);
    assert_true(r.p50_ns == 0 && r.most_ns == 0 && r.mean_ns == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrivals_are_a_poisson_process),
        cmocka_unit_test(quantiles_are_of_nearest_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
