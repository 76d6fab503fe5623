/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "json_random.h"
#include "json_tokens.h"

/* Tokens of a text, as text. */
static char *tokens_of(const char *text, size_t len, token_options options)
{
    orr_output *out = memory_tokens(text, len, options);
    assert_non_null(out);
    size_t n;
    const void *at = orr_output_memory(out, &n);
    char *copy = malloc(n + 1);
    memcpy(copy, at, n);
    copy[n] = '\0';
    orr_output_close(out);
    return copy;
}

/* In every window the same. */
static void expect_tokens(const char *text, size_t len, bool tolerant, const char *want)
{
    for (size_t step = 0; step <= 20; step++) {
        char *got = tokens_of(text, len, (token_options){.tolerant = tolerant, .step = step});
        assert_string_equal(got, want);
        free(got);
    }
}

static void expect(const char *text, bool tolerant, const char *want)
{
    expect_tokens(text, strlen(text), tolerant, want);
}

static void values(void **state)
{
    (void)state;
    expect("null", false, "z4:null\nend at 4\n");
    expect(" true ", false, "t4:true\nend at 6\n");
    expect("false\n", false, "f5:false\nend at 6\n");
    expect("-12.5e+3", false, "n8:-12.5e+3\nend at 8\n");
    expect("0", false, "n1:0\nend at 1\n");
    expect("\"\"", false, "s0:\nend at 2\n");
    expect("[]", false, "[1:[\n]\nend at 2\n");
    expect("{ }", false, "{1:{\n}\nend at 3\n");
    expect("[1,[2],{\"a\":{}}]", false,
           "[1:[\nn1:1\n[1:[\nn1:2\n]\n{1:{\nk1:a\n{1:{\n}\n}\n]\nend at 16\n");
    expect("{\"a\":1,\"a\":2}", false, "{1:{\nk1:a\nn1:1\nk1:a\nn1:2\n}\nend at 13\n");
    expect("\xef\xbb\xbf[1]", false, "[1:[\nn1:1\n]\nend at 6\n");
}

/* Text, byte of the error, a piece of what it says. */
static const struct {
    const char *text;
    int byte;
    const char *says;
} broken[] = {
    {"", 0, "ends before a value"},
    {"  ", 2, "ends before a value"},
    {"[", 1, "ends in the middle of an array"},
    {"{", 1, "ends in the middle of an object"},
    {"{\"a\"", 4, "ends in the middle of an object"},
    {"{\"a\":", 5, "ends before a value"},
    {"[1", 2, "ends in the middle of an array"},
    {"[1,", 3, "ends in the middle of an array"},
    {"\"abc", 4, "ends in the middle"},
    {"\"abc\\", 5, "ends in the middle"},
    {"\"\\u12", 5, "ends in the middle"},
    {"tru", 3, "ends in the middle"},
    {"1.", 2, "ends in the middle"},
    {"-", 1, "ends in the middle"},
    {"1e", 2, "ends in the middle"},
    {"1e+", 3, "ends in the middle"},
    {"[1 2]", 3, "expected ',' or ']', found '2'"},
    {"[1,]", 3, "expected a value, found ']'"},
    {"[,1]", 1, "expected a value, found ','"},
    {"[1,,2]", 3, "expected a value, found ','"},
    {"[1}", 2, "expected ',' or ']', found '}'"},
    {"{]", 1, "expected a key, found ']'"},
    {"{\"a\":1 \"b\":2}", 7, "expected ',' or '}', found '\"'"},
    {"{\"a\":1,}", 7, "expected a key, found '}'"},
    {"{\"a\" 1}", 5, "expected ':' after a key, found '1'"},
    {"{1:2}", 1, "expected a key, found '1'"},
    {"{\"a\":}", 5, "expected a value, found '}'"},
    {"tru3", 0, "expected a value, found 't'"},
    {"nulL", 0, "expected a value, found 'n'"},
    {"'a'", 0, "expected a value, found '\''"},
    {"\x01", 0, "expected a value, found 0x01"},
    {"[1] x", 4, "garbage after the end"},
    {"1 2", 2, "garbage after the end"},
    {"012", 0, "leading zero"},
    {"-01", 1, "leading zero"},
    {"1.x", 2, "a digit is missing"},
    {"1ex", 2, "a digit is missing"},
    {"-x", 1, "a digit is missing"},
    {".5", 0, "expected a value, found '.'"},
    {"+1", 0, "expected a value, found '+'"},
    {"1.2.3", 3, "malformed number"},
    {"12abc", 2, "malformed number"},
    {"0x10", 1, "malformed number"},
    {"NaN", 0, "NaN is not a JSON number"},
    {"-Infinity", 0, "-Infinity is not a JSON number"},
    {"Infinite", 0, "malformed number"},
    {"\"a\nb\"", 2, "raw control character 0x0a"},
    {"\"\\x\"", 1, "unknown escape"},
    {"\"\\u12g4\"", 1, "four hexadecimal digits"},
    {"\"\\ud800\"", 1, "half of a surrogate pair"},
    {"\"\\udc00\"", 1, "half of a surrogate pair"},
    {"\"\\ud800\\u0041\"", 1, "half of a surrogate pair"},
    {"\"\\ud800\\n\"", 1, "half of a surrogate pair"},
    {"\"a\xff\"", 2, "not UTF-8 (byte 0xff)"},
    {"\"\xc0\x80\"", 1, "not UTF-8"},
    {"\"\xed\xa0\x80\"", 1, "not UTF-8"},
    {"\"\xe2\x82\"", 1, "not UTF-8"},
    {"\"\xf4\x90\x80\x80\"", 1, "not UTF-8"},
    {"[1]\xef\xbb\xbf", 3, "garbage"},
    {"[\xef\xbb\xbf"
     "1]",
     1, "expected a value, found 0xef"},
};

static void errors_name_the_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        for (size_t step = 0; step <= 12; step++) {
            char *got =
                tokens_of(broken[i].text, strlen(broken[i].text), (token_options){.step = step});
            char at[32];
            (void)snprintf(at, sizeof at, "!PARSE at %d: ", broken[i].byte);
            if (strstr(got, at) == NULL || strstr(got, broken[i].says) == NULL)
                fail_msg("step %zu, text %s: wanted %s%s, got %s", step, broken[i].text, at,
                         broken[i].says, got);
            (void)snprintf(at, sizeof at, "at byte %d: ", broken[i].byte);
            assert_non_null(strstr(got, at));
            free(got);
        }
    }
}

/* Skipping refuses what reading refuses, at the same byte. */
static void skipping_is_as_strict(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char inside[64];
        (void)snprintf(inside, sizeof inside, "[1,\"x\",{\"k\":%s", broken[i].text);
        char *read = tokens_of(inside, strlen(inside), (token_options){0});
        char *skipped = tokens_of(inside, strlen(inside), (token_options){.skip_every = 1});
        const char *why = strstr(read, "!PARSE"), *why_skipped = strstr(skipped, "!PARSE");
        assert_non_null(why);
        assert_non_null(why_skipped);
        assert_string_equal(why, why_skipped);
        free(read);
        free(skipped);
    }
}

static void tolerant_lets_pass_and_counts(void **state)
{
    (void)state;
    expect("[1,2", true, "[1:[\nn1:1\nz4:null\n]\nend at 4\nfault 0: 1 from 4\n");
    expect("{\"a\":[1,{\"b\":\"x", true,
           "{1:{\nk1:a\n[1:[\nn1:1\n{1:{\nk1:b\nz4:null\n}\n]\n}\nend at 15\nfault 0: 1 from 15\n");
    expect("[1,", true, "[1:[\nn1:1\n]\nend at 3\nfault 0: 1 from 3\n");
    expect("\"a\tb\nc\"", true, "s5:a\tb\nc\nend at 7\nfault 1: 2 from 2\n");
    expect("[1 2,\"a\" \"b\"[3]{}true]", true,
           "[1:[\nn1:1\nn1:2\ns1:a\ns1:b\n[1:[\nn1:3\n]\n{1:{\n}\nt4:true\n]\nend at 22\n"
           "fault 2: 5 from 3\n");
    expect("{\"a\":1 \"b\":2}", true,
           "{1:{\nk1:a\nn1:1\nk1:b\nn1:2\n}\nend at 13\nfault 2: 1 from 7\n");
    expect("[{\"a\":1,{\"b\":2},{\"c\":3 ]", true,
           "[1:[\n{1:{\nk1:a\nn1:1\n}\n{1:{\nk1:b\nn1:2\n}\n{1:{\nk1:c\nn1:3\n}\n]\nend at 24\n"
           "fault 2: 2 from 8\n");
    expect("[{\"a\":1 {\"b\":2}]", true,
           "[1:[\n{1:{\nk1:a\nn1:1\n}\n{1:{\nk1:b\nn1:2\n}\n]\nend at 16\nfault 2: 1 from 8\n");
    expect("{\"a\":[1,2}", true,
           "{1:{\nk1:a\n[1:[\nn1:1\nn1:2\n]\n}\nend at 10\nfault 2: 1 from 9\n");
    expect("[1,2,]", true, "[1:[\nn1:1\nn1:2\n]\nend at 6\nfault 2: 1 from 5\n");
    expect("{\"a\":1,}", true, "{1:{\nk1:a\nn1:1\n}\nend at 8\nfault 2: 1 from 7\n");
    expect("[NaN,-Infinity,Infinity]", true,
           "[1:[\nn3:NaN\nn9:-Infinity\nn8:Infinity\n]\nend at 24\nfault 3: 3 from 1\n");
    expect("\"\\ud800x\\udc00\xff\"", true,
           "s10:\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd\nend at 16\nfault 4: 3 from 1\n");
}

static void tolerant_is_not_blind(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      " ",         "[1,,2]", "{1:2}",   "{\"a\" 1}",
                                      "012",   "[1.2.3]",   "[nope]", "[1] x",   "}",
                                      "\"abc", "{\"a\":1]", "[1}",    "\"\\x\"", "[:]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t step = 0; step <= 8; step++) {
            char *got =
                tokens_of(bad[i], strlen(bad[i]), (token_options){.tolerant = true, .step = step});
            assert_non_null(strstr(got, "!PARSE at "));
            free(got);
        }
    }
}

/* The same tokens in every window, as a whole, and by skipping and raw reading. */
static void random_documents(void **state)
{
    (void)state;
    enum { SEED = 20250611, DOCUMENTS = 300 };
    print_message("seed %d\n", SEED);
    for (uint64_t i = 0; i < DOCUMENTS; i++) {
        orr_output *text, *want;
        assert_int_equal(orr_output_open_memory(&text, NULL), ORR_OK);
        assert_int_equal(orr_output_open_memory(&want, NULL), ORR_OK);
        random_document(SEED, i, 5, text, want);
        size_t n;
        const char *at = orr_output_memory(text, &n);
        for (size_t step = 0; step <= 64; step = step < 20 ? step + 1 : step + 11) {
            for (int tolerant = 0; tolerant < 2; tolerant++) {
                orr_output *got =
                    memory_tokens(at, n, (token_options){.step = step, .tolerant = tolerant == 1});
                if (!same_tokens(got, want))
                    fail_msg("document %d, step %zu: %.*s", (int)i, step, (int)n, at);
                orr_output_close(got);
            }
        }
        for (int every = 1; every < 6; every++) {
            orr_output *whole = memory_tokens(at, n, (token_options){.skip_every = every});
            orr_output *parts =
                memory_tokens(at, n, (token_options){.skip_every = every, .step = 7});
            assert_true(same_tokens(whole, parts));
            orr_output_close(whole);
            orr_output_close(parts);
        }
        orr_output_close(text);
        orr_output_close(want);
    }
}

/* Cut anywhere: strict says where it ends, tolerant gives what stands before it. */
static void truncation_at_every_byte(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 12; i++) {
        orr_output *text, *want;
        assert_int_equal(orr_output_open_memory(&text, NULL), ORR_OK);
        assert_int_equal(orr_output_open_memory(&want, NULL), ORR_OK);
        orr_output_text(text, "[");
        random_document(77, i, 4, text, want);
        size_t n;
        const char *at = orr_output_memory(text, &n);
        for (size_t cut = 1; cut < n; cut++) {
            char *exact = malloc(cut); /* so that a byte too far is seen */
            memcpy(exact, at, cut);
            char *strict = tokens_of(exact, cut, (token_options){.step = cut % 5});
            assert_non_null(strstr(strict, "!PARSE at "));
            char *tolerant =
                tokens_of(exact, cut, (token_options){.step = cut % 5, .tolerant = true});
            assert_non_null(strstr(tolerant, "fault 0: 1 from "));
            assert_non_null(strstr(tolerant, "end at "));
            free(strict);
            free(tolerant);
            free(exact);
        }
        orr_output_close(text);
        orr_output_close(want);
    }
}

static void depth_is_limited(void **state)
{
    (void)state;
    enum { MILLION = 1000000 };
    char *deep = malloc(MILLION);
    memset(deep, '[', MILLION);
    char *got = tokens_of(deep, MILLION, (token_options){0});
    assert_non_null(
        strstr(got, "!LIMIT at 1024: at byte 1024: nested deeper than the limit of 1024"));
    free(got);
    got = tokens_of(deep, MILLION, (token_options){.skip_every = 1});
    assert_non_null(strstr(got, "!LIMIT at 1024"));
    free(got);
    got = tokens_of(deep, MILLION, (token_options){.depth_limit = MILLION});
    assert_non_null(strstr(got, "!PARSE at 1000000"));
    free(got);
    got = tokens_of(deep, MILLION, (token_options){.depth_limit = MILLION, .tolerant = true});
    assert_non_null(strstr(got, "end at 1000000\nfault 0: 1"));
    free(got);
    expect_tokens("[[]]", 4, false, "[1:[\n[1:[\n]\n]\nend at 4\n");
    free(deep);
}

static void token_is_limited(void **state)
{
    (void)state;
    enum { LONG = 5000000 };
    char *text = malloc(LONG);
    memset(text, 'x', LONG);
    text[0] = '"';
    text[LONG - 1] = '"';
    orr_stream *stream;
    orr_json *json;
    orr_error err;
    orr_text string;
    bool is;
    orr_stream_test_step(4096);
    assert_int_equal(orr_stream_open_memory(text, LONG, &stream, &err), ORR_OK);
    orr_stream_test_step(0);
    assert_int_equal(orr_json_new(stream, false, &json, &err), ORR_OK);
    orr_stream_set_limit(stream, LONG / 2);
    assert_int_equal(orr_json_text(json, &string, &is, &err), ORR_LIMIT);
    assert_non_null(
        strstr(err.text, "at byte 0: a record or token is longer than the limit of 2500000 bytes"));
    orr_json_free(json);
    orr_stream_close(stream);
    free(text);
}

/* White space is no token: there may be any amount of it. */
static void space_is_not_limited(void **state)
{
    (void)state;
    enum { LONG = 5000000 };
    char *text = malloc(LONG);
    memset(text, ' ', LONG);
    memcpy(text + LONG - 3, "[1]", 3);
    orr_stream *stream;
    orr_json *json;
    orr_stream_test_step(4096);
    assert_int_equal(orr_stream_open_memory(text, LONG, &stream, NULL), ORR_OK);
    orr_stream_test_step(0);
    assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
    orr_stream_set_limit(stream, 10000);
    assert_int_equal(orr_json_skip(json, NULL), ORR_OK);
    assert_int_equal(orr_json_end(json, NULL), ORR_OK);
    orr_json_free(json);
    orr_stream_close(stream);
    free(text);
}

static void misuse_is_told(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1]}";
    orr_stream *stream;
    orr_json *json;
    orr_json_value value;
    orr_text key;
    orr_status status;
    assert_int_equal(orr_stream_open_memory(text, sizeof text - 1, &stream, NULL), ORR_OK);
    assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
    assert_false(orr_json_next_key(json, &key, &status, NULL));
    assert_int_equal(status, ORR_INVALID);
    assert_false(orr_json_next_element(json, &status, NULL));
    assert_int_equal(status, ORR_INVALID);
    assert_int_equal(orr_json_enter_object(json, NULL), ORR_OK);
    assert_int_equal(orr_json_value_next(json, &value, NULL), ORR_INVALID);
    assert_true(orr_json_next_key(json, &key, &status, NULL));
    assert_true(orr_text_is(key, "a"));
    assert_false(orr_json_next_key(json, &key, &status, NULL));
    assert_int_equal(status, ORR_INVALID);
    assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
    /* Without asking for an element there is one as long as there is one. */
    assert_int_equal(orr_json_value_next(json, &value, NULL), ORR_OK);
    assert_int_equal(value.type, ORR_JSON_NUMBER);
    assert_int_equal(orr_json_value_next(json, &value, NULL), ORR_PARSE);
    orr_json_free(json);
    orr_json_free(NULL);
    orr_stream_close(stream);
}

static void several_values_at_the_top(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":1}\n{\"a\":2}\n";
    orr_stream *stream;
    orr_json *json;
    assert_int_equal(orr_stream_open_memory(text, sizeof text - 1, &stream, NULL), ORR_OK);
    assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
    assert_int_equal(orr_json_skip(json, NULL), ORR_OK);
    assert_true(orr_json_byte_pos(json) == 7);
    assert_int_equal(orr_json_end(json, NULL), ORR_PARSE);
    assert_int_equal(orr_json_skip(json, NULL), ORR_OK);
    assert_int_equal(orr_json_end(json, NULL), ORR_OK);
    orr_json_free(json);
    orr_stream_close(stream);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char text[] = "[{\"a\\n\":\"b\\u20ac\",\"c\":[[[NaN]],{\"d\": \"x\ny\"}]}, 1 2";
    for (uint64_t nth = 1;; nth++) {
        orr_alloc_fail_from(nth);
        orr_output *out = memory_tokens(
            text, sizeof text - 1, (token_options){.tolerant = true, .step = 3, .skip_every = 3});
        orr_alloc_fail_from(0);
        if (out != NULL) {
            size_t n;
            const char *at = orr_output_memory(out, &n);
            const bool done = orr_output_finish(out, NULL) == ORR_OK && n > 6 &&
                              memmem(at, n, "end at", 6) != NULL;
            orr_output_close(out);
            if (done)
                break;
        }
        assert_in_range(nth, 1, 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(errors_name_the_byte),
        cmocka_unit_test(skipping_is_as_strict),
        cmocka_unit_test(tolerant_lets_pass_and_counts),
        cmocka_unit_test(tolerant_is_not_blind),
        cmocka_unit_test(random_documents),
        cmocka_unit_test(truncation_at_every_byte),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(token_is_limited),
        cmocka_unit_test(space_is_not_limited),
        cmocka_unit_test(misuse_is_told),
        cmocka_unit_test(several_values_at_the_top),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
