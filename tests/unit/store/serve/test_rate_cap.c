/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/serve/rate_cap.h"

static void grants_at_the_rate(void **state)
{
    (void)state;
    orr_rate_cap cap;
    orr_rate_cap_init(&cap, 1000);
    const int64_t now = INT64_C(1000000000000);
    int64_t last = 0;
    for (int i = 0; i < 5000; i++)
        last = orr_rate_cap_take(&cap, 1, now);
    /* A thousandth of a second's reads may have come before. */
    assert_in_range(last - now, 4997 * INT64_C(1000000), 4999 * INT64_C(1000000));
}

static void saves_up_no_more_than_a_burst(void **state)
{
    (void)state;
    orr_rate_cap cap;
    orr_rate_cap_init(&cap, 10000);
    int64_t now = INT64_C(1000000000000);
    (void)orr_rate_cap_take(&cap, 1, now);
    now += INT64_C(3600) * 1000000000;
    int granted = 0;
    while (orr_rate_cap_take(&cap, 1, now) == now)
        granted++;
    assert_in_range(granted, 10, 12);
}

static void counts_what_comes_at_once(void **state)
{
    (void)state;
    orr_rate_cap one, many;
    orr_rate_cap_init(&one, 500);
    orr_rate_cap_init(&many, 500);
    for (int i = 0; i < 64; i++)
        (void)orr_rate_cap_take(&one, 1, 7000000);
    (void)orr_rate_cap_take(&many, 64, 7000000);
    assert_int_equal(orr_rate_cap_take(&one, 1, 7000000), orr_rate_cap_take(&many, 1, 7000000));
}

static void may_be_none(void **state)
{
    (void)state;
    orr_rate_cap cap;
    orr_rate_cap_init(&cap, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(orr_rate_cap_take(&cap, 1000, 17), 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_at_the_rate), cmocka_unit_test(saves_up_no_more_than_a_burst),
        cmocka_unit_test(counts_what_comes_at_once), cmocka_unit_test(may_be_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
