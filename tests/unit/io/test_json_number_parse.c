/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "io/json/reader.h"

enum { SEED = 4711, ROUNDS = 300000 };

static orr_text of(const char *text)
{
    return (orr_text){text, strlen(text)};
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"7", 7},
                {"-42", -42},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"12.0", 12},
                {"1.2e1", 12},
                {"1200e-2", 12},
                {"0.000e99", 0},
                {"007", 7},
                {"1e18", INT64_C(1000000000000000000)},
                {"0.0000000000000000001e19", 1},
                {"0e999999999999999999999", 0}};
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      "1.5",
                                      "9223372036854775808",
                                      " 1",
                                      "1 ",
                                      "-9223372036854775809",
                                      "1e19",
                                      "1e",
                                      "1.",
                                      ".5",
                                      "0x1",
                                      "NaN",
                                      "1e-1",
                                      "1-",
                                      "--1",
                                      "1e99999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 77;
        if (!orr_text_int64(of(good[i].text), &value) || value != good[i].value)
            fail_msg("%s gives %lld", good[i].text, (long long)value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value = 77;
        if (orr_text_int64(of(bad[i]), &value) || value != 77)
            fail_msg("%s gives %lld", bad[i], (long long)value);
    }
    uint64_t u = 77;
    assert_true(orr_text_uint64(of("18446744073709551615"), &u) && u == UINT64_MAX);
    assert_true(orr_text_uint64(of("0"), &u) && u == 0);
    assert_false(orr_text_uint64(of("18446744073709551616"), &u));
    assert_false(orr_text_uint64(of("-1"), &u));
    assert_false(orr_text_uint64(of(""), &u));
}

static void random_integers(void **state)
{
    (void)state;
    print_message("seed %d\n", SEED);
    orr_random random = orr_random_of(SEED, 0);
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t want = (int64_t)orr_random_u64(&random) >> orr_random_below(&random, 64);
        char text[32];
        int64_t got = 0;
        (void)snprintf(text, sizeof text, "%lld", (long long)want);
        assert_true(orr_text_int64(of(text), &got) && got == want);
    }
}

static void microseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"0", 0},
                {"1", 1000},
                {"1.5", 1500},
                {"1.0005", 1001},
                {"1.00049", 1000},
                {"-1.0005", -1001},
                {"-1.0004", -1000},
                {"12e-1", 1200},
                {"0.0004999", 0},
                {"0.0005", 1},
                {"-0.0005", -1},
                {"1700000000000000.123", INT64_C(1700000000000000123)},
                {"5e-4", 1},
                {"4.9e-4", 0},
                {"9223372036854775.807", INT64_MAX},
                {"9223372036854775.8074", INT64_MAX},
                {"-9223372036854775.808", INT64_MIN},
                {"1e-400", 0},
                {"0e400", 0},
                {"1.000500000000000000000000000000000000000001", 1001},
                {"0.00049999999999999999999999999999999", 0},
                {"100000000000000000000e-20", 1000},
                {"12.34", 12340},
                {"12.345", 12345},
                {"12.3456", 12346}};
    static const char *const bad[] = {"9223372036854775.808",
                                      "9223372036854775.8075",
                                      "1e16",
                                      "-9223372036854775.809",
                                      "99999999999999999999",
                                      "1e400",
                                      "",
                                      "1.",
                                      "x",
                                      "1.5x",
                                      ".5",
                                      "-"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t ns = 77;
        if (!orr_text_us_as_ns(of(good[i].text), &ns) || ns != good[i].ns)
            fail_msg("%s gives %lld", good[i].text, (long long)ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ns = 77;
        if (orr_text_us_as_ns(of(bad[i]), &ns))
            fail_msg("%s gives %lld", bad[i], (long long)ns);
    }
}

/* Against the same sum in 128 bits: whole microseconds and six decimals. */
static void random_microseconds(void **state)
{
    (void)state;
    orr_random random = orr_random_of(SEED, 1);
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t whole = orr_random_u64(&random) >> (11 + orr_random_below(&random, 50));
        const unsigned millionths = (unsigned)orr_random_below(&random, 1000000);
        const bool negative = orr_random_below(&random, 4) == 0;
        char text[64];
        (void)snprintf(text, sizeof text, "%s%llu.%06u", negative ? "-" : "",
                       (unsigned long long)whole, millionths);
        const __int128 picoseconds = (__int128)whole * 1000000 + millionths;
        const __int128 magnitude = (picoseconds + 500) / 1000;
        int64_t ns = 0;
        const bool fits = magnitude <= (__int128)INT64_MAX + negative;
        assert_int_equal(orr_text_us_as_ns(of(text), &ns), fits);
        if (fits)
            assert_true((__int128)ns == (negative ? -magnitude : magnitude));
    }
}

static void same_double(const char *text)
{
    double got = 0;
    const double want = strtod(text, NULL);
    const bool is = orr_text_double(of(text), &got);
    if (is != (isfinite(want) != 0) || (is && memcmp(&got, &want, sizeof got) != 0))
        fail_msg("%s gives %.17g, not %.17g", text, got, want);
}

static void doubles(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "0.0",
        "-0.0e5",
        "1",
        "0.1",
        "123456789012345",
        "1234567890123456",
        "1e22",
        "1e23",
        "123e-22",
        "1e-23",
        "9007199254740993",
        "9007199254740992.9999",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "1e309",
        "1e400",
        "2.2250738585072014e-308",
        "4.9e-324",
        "2.4e-324",
        "2.5e-324",
        "1e-400",
        "0e999999999999",
        "1e-999999999999",
        "5e-324",
        "0.3e1",
        "179769313486231570000000000000000000000000000000000000000000000000000000000000000000000e222"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        same_double(texts[i]);
    static const char *const bad[] = {"",         "-",   "1.",    ".5", "+1", "1e", "NaN",
                                      "Infinity", "inf", "0x1p3", "1 ", " 1", "1,5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = 77;
        assert_false(orr_text_double(of(bad[i]), &value));
        assert_true(value == 77);
    }
}

/* Exactly between two doubles, and a little more a thousand digits later. */
static void digits_far_behind_decide(void **state)
{
    (void)state;
    char text[2000] = "9007199254740993.";
    const size_t n = strlen(text);
    memset(text + n, '0', 1500);
    double value;
    assert_true(orr_text_double((orr_text){text, n + 1500}, &value) && value == 9007199254740992.0);
    text[n + 1499] = '1';
    assert_true(orr_text_double((orr_text){text, n + 1500}, &value) && value == 9007199254740994.0);
    int64_t whole;
    assert_false(orr_text_int64((orr_text){text, n + 1500}, &whole));
    text[n + 1499] = '0';
    assert_true(orr_text_int64((orr_text){text, n + 1500}, &whole) && whole == 9007199254740993);
}

static void random_doubles(void **state)
{
    (void)state;
    orr_random random = orr_random_of(SEED, 2);
    for (int i = 0; i < ROUNDS; i++) {
        char text[64];
        uint64_t bits = orr_random_u64(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        (void)snprintf(text, sizeof text, "%.*g", (int)orr_random_below(&random, 19) + 1, value);
        char *plus = strchr(text, '+');
        if (plus != NULL && i % 2 == 0)
            memmove(plus, plus + 1, strlen(plus));
        same_double(text);
        (void)snprintf(text, sizeof text, "%.*f", (int)orr_random_below(&random, 8),
                       (double)(int64_t)bits / 1e6);
        same_double(text);
    }
}

static void locale_does_not_matter(void **state)
{
    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL)
        skip();
    double value = 0;
    const bool is = orr_text_double(of("1234567890.12345678901"), &value);
    setlocale(LC_NUMERIC, "C");
    assert_true(is && value == 1234567890.12345678901);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),       cmocka_unit_test(random_integers),
        cmocka_unit_test(microseconds),   cmocka_unit_test(random_microseconds),
        cmocka_unit_test(doubles),        cmocka_unit_test(digits_far_behind_decide),
        cmocka_unit_test(random_doubles), cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
