/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "io/json/plain.h"
#include "json_random.h"

static void check_same(const char *text, size_t n, bool tolerant, size_t step)
{
    orr_output *plain = memory_tokens(text, n, (token_options){.tolerant = tolerant, .step = step});
    orr_output *known =
        memory_tokens(text, n, (token_options){.tolerant = tolerant, .step = step, .layout = true});
    size_t pn, kn;
    const char *p = orr_output_memory(plain, &pn), *k = orr_output_memory(known, &kn);
    if (!same_tokens(plain, known))
        fail_msg("of %.*s plainly: %.*s remembered: %.*s", (int)n, text, (int)pn, p, (int)kn, k);
    orr_output_close(plain);
    orr_output_close(known);
}

/* The same document again and again, so that its keys are remembered, then one byte of any of the
 * copies changed: tokens, faults and errors are those of reading without memory. */
static void remembers_and_reads_the_same(void **state)
{
    (void)state;
    enum { COPIES = 4 };
    static const char bytes[] = "\"\\{}[],: x0\n\x01\x80\xff";
    for (uint64_t i = 0; i < 60; i++) {
        orr_output *text, *tokens;
        assert_int_equal(orr_output_open_memory(&text, NULL), ORR_OK);
        assert_int_equal(orr_output_open_memory(&tokens, NULL), ORR_OK);
        random_document(31, i, 4, text, tokens);
        size_t n;
        const char *one = orr_output_memory(text, &n);
        char *all = malloc(COPIES * (n + 1) + 1);
        size_t len = 0;
        for (int copy = 0; copy < COPIES; copy++) {
            all[len++] = copy == 0 ? '[' : ',';
            memcpy(all + len, one, n);
            len += n;
        }
        all[len++] = ']';
        for (size_t step = 0; step < 100; step = step * 2 + 1)
            check_same(all, len, step % 3 == 0, step);
        for (size_t at = 0; at < len; at += 1 + len / 150) {
            const char was = all[at];
            all[at] = bytes[(at + i) % (sizeof bytes - 1)];
            check_same(all, len, at % 2 == 0, at % 5 == 0 ? 17 : 0);
            check_same(all, at, at % 2 == 1, 0);
            all[at] = was;
        }
        free(all);
        orr_output_close(text);
        orr_output_close(tokens);
    }
}

/* Keys of every length, so that they end on either side of a vector and of the longest that is
 * remembered; and more than are remembered. */
static void keys_of_every_length(void **state)
{
    (void)state;
    enum { KEYS = 160, ROOM = 64 * 1024 };
    static const char letters[] = "a long key of letters of a long key of letters of a long key of";
    char *text = malloc(ROOM);
    size_t n = (size_t)snprintf(text, ROOM, "[");
    for (int copy = 0; copy < 3; copy++) {
        n += (size_t)snprintf(text + n, ROOM - n, "%s{", copy > 0 ? "," : "");
        for (int i = 0; i < KEYS; i++)
            n += (size_t)snprintf(text + n, ROOM - n, "%s\"%.*s%d\"%*s:%*s%d", i > 0 ? ", " : "",
                                  i % 61, letters, i + (copy == 2 && i % 7 == 0), i % 3, "", i % 2,
                                  "", i);
        n += (size_t)snprintf(text + n, ROOM - n, "}");
    }
    n += (size_t)snprintf(text + n, ROOM - n, "]");
    for (size_t step = 0; step < 300; step = step * 2 + 1)
        check_same(text, n, false, step);
    free(text);
}

/* A tag that was set comes back where the key stands as before, and only there. */
static void tags_come_back(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"a\": 1, \"b\": 2}, {\"a\": 3, \"b\": 4}, { \"a\": 5, \"\\u0062\": 6}]";
    orr_json_layout layout = {.n = 0};
    orr_stream *stream;
    orr_json *json;
    orr_status status;
    char seen[100] = "";
    assert_int_equal(orr_stream_open_memory(text, sizeof text - 1, &stream, NULL), ORR_OK);
    assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
    assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
    while (orr_json_next_element(json, &status, NULL)) {
        uint8_t *tag;
        assert_int_equal(orr_json_enter_object(json, NULL), ORR_OK);
        layout.last = 0;
        while (next_known_key(json, &layout, &tag, &status, NULL)) {
            const orr_text key = orr_json_layout_key(&layout);
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%.*s%d ", (int)key.n, key.at,
                     tag == NULL ? -1 : *tag);
            if (tag != NULL)
                *tag = (uint8_t)key.at[0];
            assert_int_equal(orr_json_skip(json, NULL), ORR_OK);
        }
    }
    assert_string_equal(seen, "a0 b0 a97 b98 a0 b-1 ");
    orr_json_free(json);
    orr_stream_close(stream);
}

static size_t number_of_chance(orr_random *random, char *text)
{
    size_t n = 0;
    const uint64_t odd = orr_random_below(random, 40);
    if (orr_random_below(random, 4) == 0)
        text[n++] = '-';
    for (uint64_t i = orr_random_below(random, 22); i > 0; i--)
        text[n++] = (char)('0' + orr_random_below(random, 10));
    if (orr_random_below(random, 2) == 0) {
        text[n++] = '.';
        for (uint64_t i = orr_random_below(random, 6); i > 0; i--)
            text[n++] = (char)('0' + orr_random_below(random, 10));
    }
    if (odd < 6)
        text[n++] = "eE+-x\""[odd];
    return n;
}

/* Numbers read in one go are the numbers that their text is, and none that the grammar refuses. */
static void plain_numbers(void **state)
{
    (void)state;
    orr_random random = orr_random_of(37, 0);
    size_t plain = 0, times = 0;
    for (int round = 0; round < 40000; round++) {
        char text[64] = "[";
        const size_t n = number_of_chance(&random, text + 1);
        size_t read = 0;
        text[1 + n] = ']';
        orr_stream *stream;
        orr_json *json;
        orr_status status;
        orr_json_value token;
        int64_t want = 0, got = 0;
        bool is = false, valid = false;
        for (int way = 0; way < 3; way++) {
            assert_int_equal(orr_stream_open_memory(text, n + 2, &stream, NULL), ORR_OK);
            assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
            assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
            const bool more = orr_json_next_element(json, &status, NULL);
            if (more && way == 0) {
                valid = orr_json_value_next(json, &token, NULL) == ORR_OK;
                read = valid ? token.text.n : 0;
            } else if (more && way == 1 && orr_json_int64_plain(json, &got)) {
                assert_true(valid && orr_text_int64((orr_text){text + 1, read}, &want));
                assert_true(want == got);
                plain++;
            } else if (more && way == 2) {
                assert_true((orr_json_us_as_ns(json, &got, &is, NULL) == ORR_OK) == valid);
                assert_true(!valid || is == orr_text_us_as_ns((orr_text){text + 1, read}, &want));
                assert_true(!valid || !is || want == got);
                times += valid && is;
            }
            orr_json_free(json);
            orr_stream_close(stream);
        }
    }
    assert_in_range(plain, 2000, 40000);
    assert_in_range(times, 2000, 40000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remembers_and_reads_the_same),
        cmocka_unit_test(keys_of_every_length),
        cmocka_unit_test(tags_come_back),
        cmocka_unit_test(plain_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
