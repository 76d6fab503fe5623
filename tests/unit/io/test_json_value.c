/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "json_random.h"

static orr_stream *stream;

static orr_json *start(const char *text, bool tolerant, size_t step)
{
    orr_json *json;
    orr_stream_test_step(step);
    assert_int_equal(orr_stream_open_memory(text, strlen(text), &stream, NULL), ORR_OK);
    orr_stream_test_step(0);
    assert_int_equal(orr_json_new(stream, tolerant, &json, NULL), ORR_OK);
    return json;
}

static void stop(orr_json *json)
{
    orr_json_free(json);
    orr_stream_close(stream);
}

static const char mixed[] =
    "[7, \"-8\", 1.5, null, true, \"x\", [1,{\"a\":[]}], {\"b\":2}, 12.0, \"\", NaN, "
    "99999999999999999999, 3]";

static void integers(void **state)
{
    (void)state;
    static const int64_t want[] = {7, -8, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 3};
    static const char is_want[] = "1100000010001";
    for (size_t step = 0; step < 9; step++) {
        orr_json *json = start(mixed, true, step);
        orr_status status;
        assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
        for (int i = 0; orr_json_next_element(json, &status, NULL); i++) {
            int64_t value = 77;
            bool is = false;
            assert_int_equal(orr_json_int64(json, &value, &is, NULL), ORR_OK);
            assert_int_equal(is, is_want[i] == '1');
            assert_true(value == (is ? want[i] : 77));
        }
        assert_int_equal(status, ORR_OK);
        assert_int_equal(orr_json_end(json, NULL), ORR_OK);
        stop(json);
    }
}

static void doubles_and_times(void **state)
{
    (void)state;
    static const char is_want[] = "1110000010011";
    static const double doubles[] = {7, -8, 1.5, 0, 0, 0, 0, 0, 12, 0, 0, 1e20, 3};
    static const int64_t times[] = {7000, -8000, 1500, 0, 0, 0, 0, 0, 12000, 0, 0, 0, 3000};
    orr_json *json = start(mixed, true, 0);
    orr_status status;
    assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
    for (int i = 0; orr_json_next_element(json, &status, NULL); i++) {
        double value = 77;
        bool is = false;
        assert_int_equal(orr_json_double(json, &value, &is, NULL), ORR_OK);
        assert_int_equal(is, is_want[i] == '1');
        assert_true(value == (is ? doubles[i] : 77));
    }
    stop(json);
    json = start(mixed, true, 0);
    assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
    for (int i = 0; orr_json_next_element(json, &status, NULL); i++) {
        int64_t ns = 77;
        bool is = false;
        assert_int_equal(orr_json_us_as_ns(json, &ns, &is, NULL), ORR_OK);
        assert_int_equal(is, is_want[i] == '1' && i != 11); /* out of range */
        assert_true(ns == (is ? times[i] : 77));
    }
    stop(json);
}

static void texts(void **state)
{
    (void)state;
    static const char *const want[] = {"7",  "-8", "1.5",  NULL, NULL,  "x",
                                       NULL, NULL, "12.0", "",   "NaN", "99999999999999999999",
                                       "3"};
    orr_json *json = start(mixed, true, 0);
    orr_status status;
    assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
    for (int i = 0; orr_json_next_element(json, &status, NULL); i++) {
        orr_text text;
        bool is = false;
        assert_int_equal(orr_json_text(json, &text, &is, NULL), ORR_OK);
        assert_int_equal(is, want[i] != NULL);
        assert_true(!is || orr_text_equal(text, want[i], strlen(want[i])));
    }
    stop(json);
}

static void only_an_object_will_do(void **state)
{
    (void)state;
    orr_error err;
    orr_json *json = start(" [1]", false, 0);
    assert_int_equal(orr_json_enter_object(json, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, "expected an object"));
    stop(json);
    json = start("{\"a\":1}", false, 0);
    assert_int_equal(orr_json_enter_array(json, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, "expected an array"));
    stop(json);
}

static void raw_is_as_it_stands(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\": {\"x\" : [1, \"\\u0041]\", {}] } , \"b\":12, \"c\" : \"s\\n\"}";
    static const char *const want[] = {"{\"x\" : [1, \"\\u0041]\", {}] }", "12", "\"s\\n\""};
    for (size_t step = 0; step < 40; step++) {
        orr_json *json = start(text, false, step);
        orr_status status;
        orr_text key, raw;
        assert_int_equal(orr_json_enter_object(json, NULL), ORR_OK);
        for (int i = 0; orr_json_next_key(json, &key, &status, NULL); i++) {
            assert_int_equal(orr_json_raw(json, &raw, NULL), ORR_OK);
            assert_true(orr_text_equal(raw, want[i], strlen(want[i])));
        }
        assert_int_equal(status, ORR_OK);
        stop(json);
    }
    orr_json *json = start("[1", false, 0);
    orr_text raw;
    assert_int_equal(orr_json_raw(json, &raw, NULL), ORR_PARSE);
    stop(json);
}

static void raw_is_repaired(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"[1 2,NaN,{\"a\":Infinity \"b\":-Infinity}]", "[1,2,null,{\"a\":null,\"b\":null}]"},
        {"{\"a\tb\":\"\\ud800\xff\"}", "{\"a\\tb\":\"\xef\xbf\xbd\xef\xbf\xbd\"}"},
        {"{\"a\":[1,2}", "{\"a\":[1,2]}"},
        {"{\"a\":{\"b\":[1,\"x", "{\"a\":{\"b\":[1,null]}}"},
        {"[{\"a\":1,{\"b\":2}]", "[{\"a\":1},{\"b\":2}]"},
        {"[1e999, 1 2]", "[1e999,1,2]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 0; step < 9; step++) {
            orr_json *json = start(cases[i].text, true, step);
            orr_text raw;
            assert_int_equal(orr_json_raw(json, &raw, NULL), ORR_OK);
            if (!orr_text_equal(raw, cases[i].want, strlen(cases[i].want)))
                fail_msg("%s gives %.*s", cases[i].text, (int)raw.n, raw.at);
            stop(json);
        }
    }
}

/* The text of a raw value, read again, gives the tokens of the value. */
static void raw_reads_the_same(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        orr_output *text, *tokens;
        assert_int_equal(orr_output_open_memory(&text, NULL), ORR_OK);
        assert_int_equal(orr_output_open_memory(&tokens, NULL), ORR_OK);
        random_document(5, i, 5, text, tokens);
        orr_output_text(text, " ");
        size_t n;
        const char *at = orr_output_memory(text, &n);
        orr_json *json;
        orr_text raw;
        orr_stream_test_step(i % 30);
        assert_int_equal(orr_stream_open_memory(at, n, &stream, NULL), ORR_OK);
        orr_stream_test_step(0);
        assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
        assert_int_equal(orr_json_raw(json, &raw, NULL), ORR_OK);
        orr_output *again = memory_tokens(raw.at, raw.n, (token_options){0});
        size_t an, tn;
        const char *a = orr_output_memory(again, &an), *t = orr_output_memory(tokens, &tn);
        const size_t upto = (size_t)((const char *)memmem(t, tn, "end at", 6) - t);
        assert_true(an > upto);
        assert_memory_equal(a, t, upto);
        orr_output_close(again);
        stop(json);
        orr_output_close(text);
        orr_output_close(tokens);
    }
}

/* Plain, gzip and zstd files of one document give the same tokens. */
static void packed_files_read_the_same(void **state)
{
    orr_output *text, *tokens;
    assert_int_equal(orr_output_open_memory(&text, NULL), ORR_OK);
    assert_int_equal(orr_output_open_memory(&tokens, NULL), ORR_OK);
    orr_output_text(text, "[0");
    for (uint64_t i = 0; i < 6000; i++) {
        orr_output_text(text, ",");
        random_document(6, i, 6, text, tokens);
    }
    orr_output_text(text, "]");
    size_t n;
    const char *at = orr_output_memory(text, &n);
    orr_output *want = memory_tokens(at, n, (token_options){0});
    assert_true(n > 500000);
    static const char *const names[] = {"a.json", "a.json.gz", "a.json.zst"};
    for (int i = 0; i < 3; i++) {
        orr_output *file;
        assert_int_equal(orr_output_open(in_folder(state, names[i]), &file, NULL), ORR_OK);
        orr_output_write(file, at, n);
        assert_int_equal(orr_output_finish(file, NULL), ORR_OK);
        orr_output_close(file);
        orr_stream *packed;
        assert_int_equal(orr_stream_open(in_folder(state, names[i]), &packed, NULL), ORR_OK);
        orr_output *got = stream_tokens(packed, (token_options){0});
        assert_true(same_tokens(got, want));
        orr_output_close(got);
        orr_stream_close(packed);
    }
    orr_output_close(want);
    orr_output_close(text);
    orr_output_close(tokens);
}

/* A whole value in a gzip file that lacks its last bytes is a truncated file still. */
static void packing_may_be_cut(void **state)
{
    const char *path = in_folder(state, "a.json.gz");
    orr_output *file;
    assert_int_equal(orr_output_open(path, &file, NULL), ORR_OK);
    orr_output_text(file, "[1,2,3]");
    assert_int_equal(orr_output_finish(file, NULL), ORR_OK);
    orr_output_close(file);
    FILE *f = fopen(path, "rb");
    char packed[100];
    const size_t n = fread(packed, 1, sizeof packed, f);
    fclose(f);
    for (int tolerant = 0; tolerant < 2; tolerant++) {
        orr_json *json;
        assert_int_equal(orr_stream_open_memory(packed, n - 3, &stream, NULL), ORR_OK);
        assert_int_equal(orr_json_new(stream, tolerant == 1, &json, NULL), ORR_OK);
        const orr_status skipped = orr_json_skip(json, NULL);
        const orr_status ended = skipped == ORR_OK ? orr_json_end(json, NULL) : skipped;
        assert_int_equal(ended, tolerant ? ORR_OK : ORR_PARSE);
        assert_int_equal(orr_json_faults(json, ORR_JSON_FAULT_TRUNCATED), tolerant);
        stop(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(doubles_and_times),
        cmocka_unit_test(texts),
        cmocka_unit_test(only_an_object_will_do),
        cmocka_unit_test(raw_is_as_it_stands),
        cmocka_unit_test(raw_is_repaired),
        cmocka_unit_test(raw_reads_the_same),
        cmocka_unit_test_setup_teardown(packing_may_be_cut, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(packed_files_read_the_same, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
