/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/units.h"

static void counts_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {{"0", 0},          {"16k", 16000},  {"16K", 16000},   {"16Ki", 16384},
                 {"1.5M", 1500000}, {"3", 3},        {"1e6", 1000000}, {" 2 G ", 2000000000},
                 {".5k", 500},      {"2.5e-1k", 250}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t value = 0;
        assert_int_equal(orr_parse_count(cases[i].text, &value, NULL), ORR_OK);
        assert_true(value == cases[i].value);
    }
}

static void bytes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        {"80GiB", UINT64_C(80) << 30}, {"64 kB", 64000},           {"512", 512},   {"512B", 512},
        {"1.5MiB", 3 << 19},           {"2Ti", UINT64_C(2) << 40}, {"0.5KiB", 512}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t value = 0;
        assert_int_equal(orr_parse_bytes(cases[i].text, &value, NULL), ORR_OK);
        assert_true(value == cases[i].value);
    }
}

static void durations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {{"5us", 5000},
                 {"5\xc2\xb5s", 5000},
                 {"2.5 ms", 2500000},
                 {"90s", 90000000000},
                 {"3min", 180000000000},
                 {"1h", 3600000000000},
                 {"2d", 172800000000000},
                 {"7ns", 7},
                 {"0", 0},
                 {"0s", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ns = -1;
        assert_int_equal(orr_parse_duration(cases[i].text, &ns, NULL), ORR_OK);
        assert_true(ns == cases[i].ns);
    }
}

static void bandwidths_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"400Gbps", 50e9},  {"400Gbit/s", 50e9},   {"400 Gb/s", 50e9}, {"3.35TB/s", 3.35e12},
        {"1GiB/s", 0x1p30}, {"3.35TBps", 3.35e12}, {"8bps", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = 0;
        assert_int_equal(orr_parse_bandwidth(cases[i].text, &value, NULL), ORR_OK);
        assert_true(fabs(value - cases[i].value) <= 1e-12 * cases[i].value);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    " ",    "k",     "x", "-1",  "1x",  "1 2",   "1k k",
                                      "1kk", "0x10", "1.2.3", ".", "nan", "inf", "1e999", "1GiBs"};
    uint64_t value = 77;
    int64_t ns = 77;
    double rate = 77;
    orr_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(orr_parse_count(bad[i], &value, &err), ORR_INVALID);
        assert_non_null(strstr(err.text, "16k"));
        assert_int_equal(orr_parse_bytes(bad[i], &value, &err), ORR_INVALID);
        assert_int_equal(orr_parse_duration(bad[i], &ns, &err), ORR_INVALID);
        assert_int_equal(orr_parse_bandwidth(bad[i], &rate, &err), ORR_INVALID);
    }
    assert_int_equal(orr_parse_duration("5", &ns, &err), ORR_INVALID);
    assert_int_equal(orr_parse_count("1e30", &value, &err), ORR_LIMIT);
    assert_int_equal(orr_parse_duration("1000000000d", &ns, &err), ORR_LIMIT);
    assert_true(value == 77 && ns == 77 && rate == 77);
}

static void three_digits_are_printed(void **state)
{
    (void)state;
    char out[ORR_UNIT_CHARS];
    assert_string_equal(orr_format_bytes(out, 0), "0 B");
    assert_string_equal(orr_format_bytes(out, 1023), "1023 B");
    assert_string_equal(orr_format_bytes(out, 1536), "1.50 KiB");
    assert_string_equal(orr_format_bytes(out, UINT64_C(80) << 30), "80.0 GiB");
    assert_string_equal(orr_format_bytes(out, (1 << 20) - 1), "1.00 MiB");
    assert_string_equal(orr_format_bytes(out, UINT64_MAX), "16384 PiB");
    assert_string_equal(orr_format_count(out, 999), "999");
    assert_string_equal(orr_format_count(out, 4200000), "4.20 M");
}

/* Where the program's locale writes a decimal comma, nothing changes. */
static void locale_does_not_matter(void **state)
{
    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL)
        skip();
    char out[ORR_UNIT_CHARS];
    uint64_t value = 0;
    assert_string_equal(orr_format_bytes(out, 1536), "1.50 KiB");
    assert_int_equal(orr_parse_count("1.5k", &value, NULL), ORR_OK);
    assert_true(value == 1500);
    setlocale(LC_NUMERIC, "C");
}

static void rates_are_read(void **state)
{
    (void)state;
    static const struct {
        orr_status (*parse)(const char *, double *, orr_error *);
        const char *text;
        double value;
    } cases[] = {
        {orr_parse_flops, "989TFLOPS", 989e12},  {orr_parse_flops, "67 TFLOP/s", 67e12},
        {orr_parse_flops, "2PFLOPS", 2e15},      {orr_parse_flops, "1979TOPS", 1979e12},
        {orr_parse_flops, "5GOP/s", 5e9},        {orr_parse_frequency, "1410MHz", 1410e6},
        {orr_parse_frequency, "2.1 GHz", 2.1e9}, {orr_parse_power, "700W", 700},
        {orr_parse_power, "10.2kW", 10200},      {orr_parse_iops, "550kIOPS", 550e3},
        {orr_parse_iops, "1.5 MIOPS", 1.5e6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = 0;
        assert_int_equal(cases[i].parse(cases[i].text, &value, NULL), ORR_OK);
        assert_true(fabs(value - cases[i].value) <= 1e-12 * cases[i].value);
    }
    static const struct {
        orr_status (*parse)(const char *, double *, orr_error *);
        const char *text;
    } wrong[] = {
        {orr_parse_flops, "989"},      {orr_parse_flops, "989TFLOP"}, {orr_parse_flops, "-1TFLOPS"},
        {orr_parse_frequency, "1410"}, {orr_parse_frequency, "5us"},  {orr_parse_power, "700"},
        {orr_parse_power, "700Wh"},    {orr_parse_iops, "550k"},      {orr_parse_iops, "IOPS"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        double value = 42;
        orr_error err = {0};
        assert_int_equal(wrong[i].parse(wrong[i].text, &value, &err), ORR_INVALID);
        assert_true(value == 42);
        assert_non_null(strstr(err.text, "write for example"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_read),          cmocka_unit_test(bytes_are_read),
        cmocka_unit_test(durations_are_read),       cmocka_unit_test(rates_are_read),
        cmocka_unit_test(bandwidths_are_read),      cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(three_digits_are_printed), cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
