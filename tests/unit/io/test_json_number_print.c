/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "io/json/reader.h"
#include "io/json/number.h"

static void integers(void **state)
{
    (void)state;
    orr_random random = orr_random_of(5, 0);
    for (int i = 0; i < 200000; i++) {
        const uint64_t bits = orr_random_u64(&random) >> orr_random_below(&random, 64);
        char want[32], got[ORR_INT_CHARS];
        size_t n = (size_t)snprintf(want, sizeof want, "%llu", (unsigned long long)bits);
        assert_int_equal(orr_print_uint64(got, bits), n);
        assert_memory_equal(got, want, n);
        n = (size_t)snprintf(want, sizeof want, "%lld", (long long)~bits);
        assert_int_equal(orr_print_int64(got, (int64_t)~bits), n);
        assert_memory_equal(got, want, n);
    }
    char got[ORR_INT_CHARS];
    assert_int_equal(orr_print_int64(got, INT64_MIN), 20);
    assert_memory_equal(got, "-9223372036854775808", 20);
    assert_int_equal(orr_print_uint64(got, 0), 1);
    assert_int_equal(got[0], '0');
}

static void microseconds(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {{0, "0"},
                 {1, "0.001"},
                 {10, "0.01"},
                 {1500, "1.5"},
                 {1000, "1"},
                 {-1, "-0.001"},
                 {-123456, "-123.456"},
                 {INT64_MAX, "9223372036854775.807"},
                 {INT64_MIN, "-9223372036854775.808"},
                 {100020, "100.02"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[ORR_INT_CHARS + 1];
        const size_t n = orr_print_us(got, cases[i].ns);
        assert_int_equal(n, strlen(cases[i].text));
        assert_memory_equal(got, cases[i].text, n);
    }
    orr_random random = orr_random_of(6, 0);
    for (int i = 0; i < 200000; i++) {
        const int64_t ns = (int64_t)orr_random_u64(&random) >> orr_random_below(&random, 64);
        char got[ORR_INT_CHARS + 1];
        int64_t back = 0;
        assert_true(orr_text_us_as_ns((orr_text){got, orr_print_us(got, ns)}, &back));
        assert_true(back == ns);
    }
}

static void doubles(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {0.1, "0.1"},
                 {1e15, "1e+15"},
                 {3, "3"},
                 {-2.5, "-2.5"},
                 {123456789012345, "123456789012345"},
                 {0.30000000000000004, "0.30000000000000004"},
                 {5e-324, "4.94065645841247e-324"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[ORR_DOUBLE_CHARS];
        const size_t n = orr_print_double(got, cases[i].value);
        assert_int_equal(n, strlen(cases[i].text));
        assert_memory_equal(got, cases[i].text, n);
    }
    orr_random random = orr_random_of(7, 0);
    for (int i = 0; i < 100000; i++) {
        const uint64_t bits = orr_random_u64(&random);
        double value, back = 0;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char got[ORR_DOUBLE_CHARS + 1];
        got[orr_print_double(got, value)] = '\0';
        back = strtod(got, NULL);
        assert_memory_equal(&back, &value, sizeof value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(microseconds),
        cmocka_unit_test(doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
