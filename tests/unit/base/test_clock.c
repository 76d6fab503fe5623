/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static void monotonic_goes_on(void **state)
{
    (void)state;
    const int64_t before = orr_clock_now_ns(&orr_clock_monotonic);
    assert_true(before > 0);
    const int64_t until = before + 2000000;
    orr_clock_sleep_until_ns(&orr_clock_monotonic, until);
    assert_true(orr_clock_now_ns(&orr_clock_monotonic) >= until);
    orr_clock_sleep_until_ns(&orr_clock_monotonic, -5);
    orr_clock_sleep_until_ns(&orr_clock_monotonic, before);
}

static void manual_moves_when_told(void **state)
{
    (void)state;
    int64_t now = 100;
    const orr_clock clock = orr_clock_manual(&now);
    assert_true(orr_clock_now_ns(&clock) == 100);
    orr_clock_sleep_until_ns(&clock, 500);
    assert_true(orr_clock_now_ns(&clock) == 500);
    orr_clock_sleep_until_ns(&clock, 200);
    assert_true(orr_clock_now_ns(&clock) == 500);
    now = 700;
    assert_true(orr_clock_now_ns(&clock) == 700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_goes_on),
        cmocka_unit_test(manual_moves_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
