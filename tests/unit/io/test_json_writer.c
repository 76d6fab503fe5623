/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "io/json/reader.h"
#include "io/json/writer.h"
#include "io/json/utf8.h"

static orr_output *start(orr_json_writer *w)
{
    orr_output *out;
    assert_int_equal(orr_output_open_memory(&out, NULL), ORR_OK);
    orr_json_write_init(w, out);
    return out;
}

static void expect(orr_output *out, const char *want)
{
    size_t n;
    const char *got = orr_output_memory(out, &n);
    if (n != strlen(want) || memcmp(got, want, n) != 0)
        fail_msg("got %.*s, not %s", (int)n, got, want);
    orr_output_close(out);
}

static void commas_are_its_business(void **state)
{
    (void)state;
    orr_json_writer w;
    orr_output *out = start(&w);
    orr_json_write_object(&w);
    orr_json_write_key(&w, "a");
    orr_json_write_array(&w);
    orr_json_write_int(&w, -1);
    orr_json_write_uint(&w, UINT64_MAX);
    orr_json_write_object(&w);
    orr_json_write_object_end(&w);
    orr_json_write_array(&w);
    orr_json_write_array_end(&w);
    orr_json_write_null(&w);
    orr_json_write_array_end(&w);
    orr_json_write_key(&w, "b");
    orr_json_write_bool(&w, true);
    orr_json_write_newline(&w);
    orr_json_write_key(&w, "c");
    orr_json_write_raw(&w, "[1, 2]", 6);
    orr_json_write_key(&w, "d");
    orr_json_write_us(&w, 1234567);
    orr_json_write_key(&w, "e");
    orr_json_write_bool(&w, false);
    orr_json_write_object_end(&w);
    expect(out,
           "{\"a\":[-1,18446744073709551615,{},[],null],\"b\":true\n,\"c\":[1, 2],\"d\":1234.567,"
           "\"e\":false}");
}

static void doubles(void **state)
{
    (void)state;
    orr_json_writer w;
    orr_output *out = start(&w);
    orr_json_write_array(&w);
    static const double values[] = {0, 0.1, -2.5, 1e300, NAN, INFINITY, 1.0 / 3};
    for (int i = 0; i < 7; i++)
        orr_json_write_double(&w, values[i]);
    orr_json_write_array_end(&w);
    expect(out, "[0,0.1,-2.5,1e+300,null,null,0.3333333333333333]");
}

static void escapes_and_repairs(void **state)
{
    (void)state;
    orr_json_writer w;
    orr_output *out = start(&w);
    orr_json_write_array(&w);
    orr_json_write_text(&w, "\"\\/\b\f\n\r\t\0\x1f\x7f", 11);
    orr_json_write_cstr(&w, "gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82");
    orr_json_write_cstr(&w, "a\xff"
                            "b\xe2\x82"
                            "c\xed\xa0\x80"
                            "d\xc3");
    orr_json_write_array_end(&w);
    expect(
        out,
        "[\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\",\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82\","
        "\"a\xef\xbf\xbd"
        "b\xef\xbf\xbd\xef\xbf\xbd"
        "c\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
        "d\xef\xbf\xbd\"]");
}

/* Any bytes written read back, strictly; text that was UTF-8 as it was. */
static void random_text_reads_back(void **state)
{
    (void)state;
    orr_random random = orr_random_of(31, 0);
    for (int round = 0; round < 3000; round++) {
        char text[400];
        size_t n = 0;
        const bool valid = round % 2 == 0;
        while (n < 100 + orr_random_below(&random, 100)) {
            const uint32_t code =
                (uint32_t)orr_random_below(&random, 0x110000) >> orr_random_below(&random, 21);
            if (!valid)
                text[n++] = (char)orr_random_u32(&random);
            else if (code < 0xd800 || code >= 0xe000)
                n += orr_utf8_encode(text + n, code);
        }
        orr_json_writer w;
        orr_output *out = start(&w);
        orr_json_write_text(&w, text, n);
        size_t len;
        const void *json_text = orr_output_memory(out, &len);
        orr_stream *stream;
        orr_json *json;
        orr_text back;
        bool is = false;
        assert_int_equal(orr_stream_open_memory(json_text, len, &stream, NULL), ORR_OK);
        assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
        assert_int_equal(orr_json_text(json, &back, &is, NULL), ORR_OK);
        assert_true(is);
        if (valid)
            assert_true(orr_text_equal(back, text, n));
        assert_int_equal(orr_json_end(json, NULL), ORR_OK);
        orr_json_free(json);
        orr_stream_close(stream);
        orr_output_close(out);
    }
}

static void deep(void **state)
{
    (void)state;
    orr_json_writer w;
    orr_output *out = start(&w);
    char want[200] = "";
    for (int i = 0; i < 63; i++) {
        orr_json_write_array(&w);
        want[i] = '[';
        want[63 + i] = ']';
    }
    for (int i = 0; i < 63; i++)
        orr_json_write_array_end(&w);
    expect(out, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_are_its_business),
        cmocka_unit_test(doubles),
        cmocka_unit_test(escapes_and_repairs),
        cmocka_unit_test(random_text_reads_back),
        cmocka_unit_test(deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
