/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "io/json/reader.h"
#include "io/stream/stream_test.h"

/* The grammar of RFC 8259, section 6, as an automaton of its own. */
static bool is_number(const char *s)
{
    enum { START, MINUS, ZERO, WHOLE, POINT, FRACTION, E, SIGN, EXPONENT } at = START;
    for (; *s != '\0'; s++) {
        const bool digit = *s >= '0' && *s <= '9';
        switch (at) {
        case START:
            if (*s == '-') {
                at = MINUS;
                continue;
            } /* fall through */
        case MINUS:
            if (!digit)
                return false;
            at = *s == '0' ? ZERO : WHOLE;
            continue;
        case ZERO:
        case WHOLE:
            if (digit && at == WHOLE)
                continue;
            if (*s == '.')
                at = POINT;
            else if (*s == 'e' || *s == 'E')
                at = E;
            else
                return false;
            continue;
        case POINT:
        case FRACTION:
            if (digit)
                at = FRACTION;
            else if (at == FRACTION && (*s == 'e' || *s == 'E'))
                at = E;
            else
                return false;
            continue;
        case E:
            if (*s == '+' || *s == '-') {
                at = SIGN;
                continue;
            } /* fall through */
        case SIGN:
        case EXPONENT:
            if (!digit)
                return false;
            at = EXPONENT;
            continue;
        }
    }
    return at == ZERO || at == WHOLE || at == FRACTION || at == EXPONENT;
}

static bool reads(const char *text, size_t len, size_t step, bool skip)
{
    orr_stream *stream;
    orr_json *json;
    orr_json_value value = {ORR_JSON_NULL, {NULL, 0}};
    orr_stream_test_step(step);
    assert_int_equal(orr_stream_open_memory(text, len, &stream, NULL), ORR_OK);
    orr_stream_test_step(0);
    assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
    orr_status status;
    if (skip) {
        status = orr_json_skip(json, NULL);
    } else {
        status = orr_json_value_next(json, &value, NULL);
        if (status == ORR_OK && value.type == ORR_JSON_NUMBER)
            assert_true(orr_text_equal(value.text, text, len));
    }
    if (status == ORR_OK)
        status = orr_json_end(json, NULL);
    orr_json_free(json);
    orr_stream_close(stream);
    return status == ORR_OK;
}

/* All texts of up to six of these characters. */
static void every_short_text(void **state)
{
    (void)state;
    static const char alphabet[] = "01-+.e";
    enum { LETTERS = sizeof alphabet - 1 };
    size_t numbers = 0;
    for (size_t length = 1; length <= 6; length++) {
        size_t count = 1;
        for (size_t i = 0; i < length; i++)
            count *= LETTERS;
        for (size_t code = 0; code < count; code++) {
            char text[32] = {0};
            for (size_t i = 0, rest = code; i < length; i++, rest /= LETTERS)
                text[i] = alphabet[rest % LETTERS];
            const bool want = is_number(text);
            numbers += want;
            if (reads(text, length, code % 3, false) != want)
                fail_msg("%s", text);
            char array[48] = "[1,";
            memcpy(array + 3, text, length);
            array[3 + length] = ']';
            if (reads(array, length + 4, code % 5, true) != want)
                fail_msg("skipping %s", array);
        }
    }
    assert_in_range(numbers, 600, 700);
}

static void long_numbers(void **state)
{
    (void)state;
    char digits[1000];
    memset(digits, '7', sizeof digits);
    for (size_t n = 1; n < sizeof digits; n += 7) {
        assert_true(reads(digits, n, 0, false));
        assert_true(reads(digits, n, n % 50 + 1, false));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_text),
        cmocka_unit_test(long_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
