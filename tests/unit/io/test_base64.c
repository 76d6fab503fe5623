/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "io/json/base64.h"

static orr_text text_of(const char *text)
{
    return (orr_text){text, strlen(text)};
}

/* RFC 4648, section 10. */
static void test_vectors(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xfb\xff", "+/8="}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        orr_output *out;
        orr_error err;
        char quoted[32], got[32];
        size_t n;
        assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
        orr_base64_put(out, pairs[i][0], strlen(pairs[i][0]));
        assert_int_equal(orr_output_finish(out, &err), ORR_OK);
        const char *text = orr_output_memory(out, &n);
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", pairs[i][1]);
        assert_int_equal(n, strlen(quoted));
        assert_memory_equal(text, quoted, n);
        orr_output_close(out);
        assert_true(orr_base64_read(text_of(pairs[i][1]), got, &n));
        assert_int_equal(n, strlen(pairs[i][0]));
        assert_memory_equal(got, pairs[i][0], n);
    }
}

static void test_there_and_back(void **state)
{
    (void)state;
    orr_random r = orr_random_of(5, 0);
    for (size_t n = 0; n < 300; n++) {
        uint8_t bytes[300], got[303];
        size_t text_n, got_n;
        orr_output *out;
        orr_error err;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)orr_random_u32(&r);
        assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
        orr_base64_put(out, bytes, n);
        assert_int_equal(orr_output_finish(out, &err), ORR_OK);
        const char *text = orr_output_memory(out, &text_n);
        assert_true(orr_base64_read((orr_text){text + 1, text_n - 2}, got, &got_n));
        assert_int_equal(got_n, n);
        assert_memory_equal(got, bytes, n);
        orr_output_close(out);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "Z",        "Zg",    "Zg=",  "Z===", "====", "Zm9",  "Zm9-",  "Zm 9",
        "Zg==Zg==", "Zm9v=", "=m9v", "Zh==", "Zm9=", "Z=8=", "Zm9v\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char got[16];
        size_t n = 77;
        assert_false(orr_base64_read(text_of(wrong[i]), got, &n));
        assert_int_equal(n, 77);
    }
    /* A NUL is no letter. */
    size_t n;
    char got[8];
    assert_false(orr_base64_read((orr_text){"Zm9\0", 4}, got, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
