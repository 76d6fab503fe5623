/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "io/json/reader.h"
#include "io/stream/stream_test.h"
#include "io/json/utf8.h"

/* One string, decoded; false when it is refused. */
static bool decode(const char *text, size_t len, size_t step, bool tolerant, char *out,
                   size_t *ret_n)
{
    orr_stream *stream;
    orr_json *json;
    orr_text back;
    bool is = false;
    orr_stream_test_step(step);
    assert_int_equal(orr_stream_open_memory(text, len, &stream, NULL), ORR_OK);
    orr_stream_test_step(0);
    assert_int_equal(orr_json_new(stream, tolerant, &json, NULL), ORR_OK);
    const orr_status status = orr_json_text(json, &back, &is, NULL);
    if (status == ORR_OK) {
        assert_true(is);
        memcpy(out, back.at, back.n);
        *ret_n = back.n;
    }
    orr_json_free(json);
    orr_stream_close(stream);
    return status == ORR_OK;
}

static void every_escaped_code_unit(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x10000; code++) {
        char text[16], want[4], got[64];
        size_t n = 0;
        (void)snprintf(text, sizeof text, "\"\\u%04X\"", code);
        const bool surrogate = code >= 0xd800 && code < 0xe000;
        assert_int_equal(decode(text, 8, 0, false, got, &n), !surrogate);
        if (surrogate)
            continue;
        assert_int_equal(n, orr_utf8_encode(want, code));
        assert_memory_equal(got, want, n);
    }
}

static void surrogate_pairs(void **state)
{
    (void)state;
    for (uint32_t code = 0x10000; code < 0x110000; code += 61) {
        char text[32], want[4], got[64];
        size_t n = 0;
        (void)snprintf(text, sizeof text, "\"\\u%04x\\u%04x\"", 0xd800 + ((code - 0x10000) >> 10),
                       0xdc00 + ((code - 0x10000) & 0x3ff));
        assert_true(decode(text, 14, code % 9, false, got, &n));
        assert_int_equal(n, orr_utf8_encode(want, code));
        assert_memory_equal(got, want, n);
    }
}

/* What RFC 3629 says, in another way: decode by arithmetic, then look at the number. */
static bool valid_utf8(const uint8_t *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        const size_t more = s[i] < 0x80   ? 0
                            : s[i] < 0xc0 ? 9
                            : s[i] < 0xe0 ? 1
                            : s[i] < 0xf0 ? 2
                            : s[i] < 0xf8 ? 3
                                          : 9;
        if (more == 9 || i + more >= n)
            return false;
        uint32_t code = more == 0 ? s[i] : s[i] & (0x3fU >> more);
        for (size_t k = 1; k <= more; k++) {
            if (s[i + k] >> 6 != 2)
                return false;
            code = code << 6 | (s[i + k] & 0x3f);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return false;
        i += more + 1;
    }
    return true;
}

/* All pairs of bytes, and all triples and quadruples that begin at a corner of the table. */
static void utf8_is_checked(void **state)
{
    (void)state;
    static const uint8_t corners[] = {0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                      0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed,
                                      0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
    enum { CORNERS = sizeof corners };
    for (uint32_t i = 0; i < CORNERS * CORNERS * CORNERS * CORNERS; i++) {
        const uint8_t s[4] = {corners[i % CORNERS], corners[i / CORNERS % CORNERS],
                              corners[i / CORNERS / CORNERS % CORNERS],
                              corners[i / CORNERS / CORNERS / CORNERS]};
        bool valid = true;
        for (size_t at = 0; at < 4 && valid;) {
            const size_t n = orr_utf8_len(s + at, 4 - at);
            valid = n > 0;
            at += n;
        }
        assert_int_equal(valid, valid_utf8(s, 4));
    }
    for (uint32_t i = 0; i < 0x10000; i += 3) {
        const char text[4] = {'"', (char)(i >> 8), (char)i, '"'};
        char got[64];
        size_t n = 0;
        const uint8_t a = (uint8_t)(i >> 8), b = (uint8_t)i;
        const bool plain = a >= 0x20 && b >= 0x20 && a != '"' && b != '"' && a != '\\' && b != '\\';
        if (!plain)
            continue;
        assert_int_equal(decode(text, 4, i % 4, false, got, &n),
                         valid_utf8((const uint8_t *)text + 1, 2));
        assert_true(decode(text, 4, i % 4, true, got, &n));
        assert_true(valid_utf8((const uint8_t *)got, n));
    }
}

/* A special character at every distance from the start and from the window's end. */
static void every_alignment(void **state)
{
    (void)state;
    static const char *const specials[] = {"\\n", "\\u20ac", "\xe2\x82\xac", "\\ud83d\\ude42"};
    static const char *const means[] = {"\n", "\xe2\x82\xac", "\xe2\x82\xac", "\xf0\x9f\x99\x82"};
    for (size_t before = 0; before < 70; before++) {
        for (size_t s = 0; s < 4; s++) {
            char text[256] = "\"", want[256], got[256];
            size_t n = 1, got_n = 0;
            memset(text + n, 'a', before);
            n += before;
            memcpy(text + n, specials[s], strlen(specials[s]));
            n += strlen(specials[s]);
            memcpy(text + n, "tail\"", 5);
            n += 5;
            memset(want, 'a', before);
            memcpy(want + before, means[s], strlen(means[s]));
            memcpy(want + before + strlen(means[s]), "tail", 4);
            for (size_t step = 0; step < 40; step += 3) {
                assert_true(decode(text, n, step, false, got, &got_n));
                assert_int_equal(got_n, before + strlen(means[s]) + 4);
                assert_memory_equal(got, want, got_n);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_escaped_code_unit),
        cmocka_unit_test(surrogate_pairs),
        cmocka_unit_test(utf8_is_checked),
        cmocka_unit_test(every_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
