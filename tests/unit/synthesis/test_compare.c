/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "toy.h"

enum { SERIES = 4000 };

static void ks_distance_of_known_samples(void **state)
{
    (void)state;
    const int64_t a[] = {1, 2, 3, 4}, b[] = {1, 2, 3, 4}, c[] = {5, 6}, d[] = {3, 4, 5, 6};
    assert_true(orr_ks_distance(a, 4, b, 4) == 0);
    assert_true(orr_ks_distance(a, 4, c, 2) == 1);
    assert_true(orr_ks_distance(a, 4, d, 4) == 0.5);
    assert_true(isnan(orr_ks_distance(a, 4, c, 0)));
}

/* Long and short in turn, four of each. */
static void rhythm(int64_t *at, uint64_t seed)
{
    orr_random random = orr_random_of(seed, 0);
    for (int i = 0; i < SERIES; i++)
        at[i] = (i / 4 % 2 ? 1000 : 100000) + (int64_t)orr_random_below(&random, 100);
}

/* The measure sees an order that is lost, of which distributions know nothing. */
static void shuffled_durations_lose_their_autocorrelation(void **state)
{
    (void)state;
    static int64_t a[SERIES], b[SERIES];
    double first, second;
    rhythm(a, 1);
    rhythm(b, 2);
    assert_true(orr_autocorrelation_difference(a, SERIES, b, SERIES, &first, &second) < 0.02);
    assert_true(first > 0.4 && second > 0.4);
    orr_random random = orr_random_of(3, 0);
    for (int i = SERIES - 1; i > 0; i--) {
        const uint64_t k = orr_random_below(&random, (uint64_t)i + 1);
        const int64_t held = b[i];
        b[i] = b[k];
        b[k] = held;
    }
    assert_true(orr_autocorrelation_difference(a, SERIES, b, SERIES, &first, &second) > 0.4);
    assert_true(fabs(second) < 0.1);
}

static void short_or_constant_series_have_none(void **state)
{
    (void)state;
    int64_t at[100];
    for (int i = 0; i < 100; i++)
        at[i] = 5;
    assert_true(isnan(orr_autocorrelation_difference(at, 100, at, 100, NULL, NULL)));
    at[3] = 9;
    assert_true(isnan(orr_autocorrelation_difference(at, 20, at, 20, NULL, NULL)));
    assert_true(orr_autocorrelation_difference(at, 100, at, 100, NULL, NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ks_distance_of_known_samples),
        cmocka_unit_test(shuffled_durations_lose_their_autocorrelation),
        cmocka_unit_test(short_or_constant_series_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
