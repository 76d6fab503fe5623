/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "engine/serve/wear.h"

#define SECOND INT64_C(1000000000)

static void is_near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * want)
        fail_msg("%g, not %g", got, want);
}

/* Against the counter itself, at a rate that changes: the range begins one to two minutes ago. */
static void the_rate_is_that_of_the_last_minutes(void **state)
{
    (void)state;
    uint64_t bytes[600];
    bytes[0] = 12345;
    for (int i = 1; i < 600; i++)
        bytes[i] = bytes[i - 1] + (uint64_t)(i < 300 ? 1000 : i < 450 ? 0 : i * i);
    orr_wear w = orr_wear_from(77 * SECOND, bytes[0]);
    is_near(orr_wear_bytes_per_day(&w, 77 * SECOND, bytes[0]), 0);
    for (int i = 5; i < 600; i += 5) {
        const int at = i < 120 ? 0 : i / 60 * 60 - 60;
        is_near(orr_wear_bytes_per_day(&w, (77 + i) * SECOND, bytes[i]),
                (double)(bytes[i] - bytes[at]) / (i - at) * 86400);
    }
}

static void looks_that_are_rare_count_from_the_one_before(void **state)
{
    (void)state;
    orr_wear w = orr_wear_from(0, 0);
    is_near(orr_wear_bytes_per_day(&w, 1000 * SECOND, 5000), 5 * 86400);
    is_near(orr_wear_bytes_per_day(&w, 3000 * SECOND, 9000), 2 * 86400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_is_that_of_the_last_minutes),
        cmocka_unit_test(looks_that_are_rare_count_from_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
