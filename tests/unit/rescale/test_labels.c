/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rescale/recognise/survey.h"

static void must_repeat(const char *text, uint32_t first, uint32_t period, uint32_t count)
{
    uint64_t signature[100];
    uint32_t got_first, got_period, got_count;
    const uint32_t n = (uint32_t)strlen(text);
    for (uint32_t i = 0; i < n; i++)
        signature[i] = (uint64_t)text[i];
    assert_int_equal(orr_find_repetition(signature, n, &got_first, &got_period, &got_count),
                     count > 0);
    if (count == 0)
        return;
    assert_int_equal(got_period, period);
    assert_int_equal(got_first, first);
    assert_int_equal(got_count, count);
}

static void what_repeats_is_found(void **state)
{
    (void)state;
    must_repeat("xyabcdabcdabcdz", 2, 4, 3);
    must_repeat("abcdeabcdeq", 0, 5, 2);
    /* One long period rather than a short one that covers less. */
    must_repeat("eaaabeaaabeaaab", 0, 5, 3);
}

static void what_does_not_repeat_is_not(void **state)
{
    (void)state;
    must_repeat("", 0, 0, 0);
    must_repeat("abcdefgh", 0, 0, 0);
    must_repeat("abcabcabx", 0, 0, 0); /* three operators are no layer */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_is_found),
        cmocka_unit_test(what_does_not_repeat_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
