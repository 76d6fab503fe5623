/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <math.h>

#include "report/humanize/human.h"

static char buf[ORR_HUMAN_MAX];

static void times_have_four_digits_and_a_unit(void **state)
{
    (void)state;
    assert_string_equal(orr_human_ns(buf, 0), "0 ns");
    assert_string_equal(orr_human_ns(buf, 999), "999 ns");
    assert_string_equal(orr_human_ns(buf, 1000), "1.000 us");
    assert_string_equal(orr_human_ns(buf, 12345), "12.35 us");
    assert_string_equal(orr_human_ns(buf, 123456), "123.5 us");
    assert_string_equal(orr_human_ns(buf, 999960), "1.000 ms"); /* never "1000.0 us" */
    assert_string_equal(orr_human_ns(buf, 1.5), "1.500 ns");
    assert_string_equal(orr_human_ns(buf, -2500000), "-2.500 ms");
    assert_string_equal(orr_human_ns(buf, 7200e9), "7200.0 s");
    assert_string_equal(orr_human_ns(buf, NAN), "-");
    assert_string_equal(orr_human_ns(buf, INFINITY), "-");
}

static void no_number_overflows_its_text(void **state)
{
    (void)state;
    const double extremes[] = {1e300, -1e300, 5e-324, 1e18, -1e18, (double)INT64_MAX};
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        assert_true(strlen(orr_human_ns(buf, extremes[i])) < ORR_HUMAN_MAX);
        assert_true(strlen(orr_human_bytes(buf, extremes[i])) < ORR_HUMAN_MAX);
        assert_true(strlen(orr_human_frac(buf, extremes[i])) < ORR_HUMAN_MAX);
        assert_true(strlen(orr_human_number(buf, extremes[i])) < ORR_HUMAN_MAX);
    }
    assert_string_equal(orr_human_count(buf, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void sizes_rates_and_shares(void **state)
{
    (void)state;
    assert_string_equal(orr_human_bytes(buf, 1536), "1.500 KiB");
    assert_string_equal(orr_human_bytes(buf, 25 << 20), "25.00 MiB");
    assert_string_equal(orr_human_bytes_per_s(buf, 12.3e9), "12.30 GB/s");
    assert_string_equal(orr_human_frac(buf, 0.1234), "12.3 %");
    assert_string_equal(orr_human_frac(buf, 0.0001), "<0.1 %");
    assert_string_equal(orr_human_frac(buf, 0), "0.0 %");
    assert_string_equal(orr_human_count(buf, 1234567), "1,234,567");
    assert_string_equal(orr_human_count(buf, 999), "999");
    assert_string_equal(orr_human_number(buf, 2.411), "2.411");
    assert_string_equal(orr_human_number(buf, 3), "3");
}

static void long_text_loses_its_middle(void **state)
{
    char out[64];
    (void)state;
    assert_int_equal(orr_text_elide("short", 10, out, sizeof out), 5);
    assert_string_equal(out, "short");
    orr_text_elide("abcdefghijklmnopqrstuvwxyz", 11, out, sizeof out);
    assert_string_equal(out, "abcdef\xE2\x80\xA6wxyz");
    assert_int_equal(orr_text_display_width(out), 11);
    orr_text_elide("äöüßäöüßäöüß", 5, out, sizeof out); /* code points stay whole */
    assert_string_equal(out, "äöü\xE2\x80\xA6ß");
    assert_int_equal(orr_text_elide("anything", 0, out, sizeof out), 0);
    assert_string_equal(out, "");
    assert_true(orr_text_elide("abcdefghijklmnop", 16, out, 8) < 8);
}

static void a_name_cannot_drive_the_terminal(void **state)
{
    char out[64];
    (void)state;
    orr_text_elide("a\x1b[2Jb\x7f\n\xC2\x9B"
                   "c\xFF",
                   40, out, sizeof out);
    assert_string_equal(out, "a?[2Jb???c?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_four_digits_and_a_unit),
        cmocka_unit_test(no_number_overflows_its_text),
        cmocka_unit_test(sizes_rates_and_shares),
        cmocka_unit_test(long_text_loses_its_middle),
        cmocka_unit_test(a_name_cannot_drive_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
