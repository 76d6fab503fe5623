/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "engine/step/square_sum.h"

enum { N = 3 * ORR_SQUARE_PIECE + 77 };

static orr_square_sum sum_of(const float *numbers, int64_t n)
{
    orr_square_sum sum = {.not_finite = 0};
    for (int64_t at = 0; at < n; at += ORR_SQUARE_PIECE)
        orr_square_sum_add(&sum, numbers + at,
                           n - at < ORR_SQUARE_PIECE ? n - at : ORR_SQUARE_PIECE);
    return sum;
}

static double value_of(const float *numbers, int64_t n)
{
    const orr_square_sum sum = sum_of(numbers, n);
    return orr_square_sum_value(&sum);
}

/* Squares whose sums are known. */
static void sums_are_exact(void **state)
{
    (void)state;
    static float numbers[N];
    assert_true(value_of(numbers, N) == 0);
    for (int i = 0; i < N; i++)
        numbers[i] = i % 2 ? 0.5F : -3;
    assert_true(value_of(numbers, N) == (N + 1) / 2 * 9.0 + N / 2 * 0.25);
    const float wide[] = {0x1p-149F, 0x1p100F, -0x1p-126F, 0x1.8p-130F};
    assert_true(value_of(wide, 1) == 0x1p-298);
    assert_true(value_of(wide, 2) == 0x1p200);
    assert_true(value_of(wide + 2, 2) == 0x1p-252 + 0x1.2p-259);
    const float most[] = {0x1.fffffep127F, 0x1.fffffep127F};
    assert_true(value_of(most, 2) == 2 * (0x1.fffffep127 * 0x1.fffffep127));
    for (int i = 0; i < N; i++)
        numbers[i] = most[0]; /* every bin and limb as full as can be */
    assert_true(fabs(value_of(numbers, N) / N - 0x1.fffffep127 * 0x1.fffffep127) < 0x1p220);
}

static void numbers_that_are_none_are_told(void **state)
{
    (void)state;
    const float infinite[] = {1, -INFINITY, 2, 3, 4, 5}, none[] = {1, 2, INFINITY, NAN, 4};
    assert_true(isinf(value_of(infinite, 6)));
    assert_true(isnan(value_of(none, 5)));
    orr_square_sum sum = sum_of(infinite + 2, 4);
    const orr_square_sum other = sum_of(infinite, 2);
    assert_true(orr_square_sum_value(&sum) == 4 + 9 + 16 + 25);
    orr_square_sum_join(&sum, &other);
    assert_true(isinf(orr_square_sum_value(&sum)));
}

/* However numbers are cut and ordered, the bits are the same; plain sums in fp64 are near, and are
 * not. */
static void cuts_and_order_make_no_difference(void **state)
{
    (void)state;
    static float numbers[N];
    orr_random random = orr_random_of(11, 0);
    double forth = 0, back = 0;
    for (int i = 0; i < N; i++)
        numbers[i] =
            ldexpf((float)orr_random_unit(&random) - 0.5F, (int)orr_random_below(&random, 40) - 30);
    const double want = value_of(numbers, N);
    for (int i = 0; i < N; i++) {
        forth += (double)numbers[i] * numbers[i];
        back += (double)numbers[N - 1 - i] * numbers[N - 1 - i];
    }
    assert_true(forth != back && fabs(forth - want) < 1e-9 * want);
    for (int round = 0; round < 20; round++) {
        orr_square_sum all = {.not_finite = 0};
        for (int64_t at = 0, n; at < N; at += n) {
            n = 1 + (int64_t)orr_random_below(&random, ORR_SQUARE_PIECE / 2);
            n = n < N - at ? n : N - at;
            const orr_square_sum part = sum_of(numbers + at, n);
            orr_square_sum_join(&all, &part);
        }
        assert_true(orr_square_sum_value(&all) == want);
        for (int i = 0; i < N / 2; i++) {
            const uint64_t a = orr_random_below(&random, N), b = orr_random_below(&random, N);
            const float kept = numbers[a];
            numbers[a] = numbers[b];
            numbers[b] = kept;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_exact),
                                       cmocka_unit_test(numbers_that_are_none_are_told),
                                       cmocka_unit_test(cuts_and_order_make_no_difference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
