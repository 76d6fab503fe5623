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

/* Skipping a document ends where reading it does, in every window. */
static void skips_what_reading_reads(void **state)
{
    (void)state;
    enum { SEED = 99, DOCUMENTS = 400 };
    print_message("seed %d\n", SEED);
    for (uint64_t i = 0; i < DOCUMENTS; i++) {
        orr_output *text, *tokens;
        assert_int_equal(orr_output_open_memory(&text, NULL), ORR_OK);
        assert_int_equal(orr_output_open_memory(&tokens, NULL), ORR_OK);
        orr_output_text(text, "[");
        random_document(SEED, i, 6, text, tokens);
        orr_output_text(text, ", 42]");
        size_t n;
        const char *at = orr_output_memory(text, &n);
        for (size_t step = 0; step < 100; step = step * 2 + 1) {
            orr_stream *stream;
            orr_json *json;
            orr_status status;
            int64_t value = 0;
            bool is = false;
            orr_stream_test_step(step);
            assert_int_equal(orr_stream_open_memory(at, n, &stream, NULL), ORR_OK);
            orr_stream_test_step(0);
            assert_int_equal(orr_json_new(stream, i % 2 == 0, &json, NULL), ORR_OK);
            assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
            assert_true(orr_json_next_element(json, &status, NULL));
            assert_int_equal(orr_json_skip(json, NULL), ORR_OK);
            assert_true(orr_json_next_element(json, &status, NULL));
            assert_int_equal(orr_json_int64(json, &value, &is, NULL), ORR_OK);
            assert_true(is && value == 42);
            assert_false(orr_json_next_element(json, &status, NULL));
            assert_int_equal(status, ORR_OK);
            assert_int_equal(orr_json_end(json, NULL), ORR_OK);
            orr_json_free(json);
            orr_stream_close(stream);
        }
        orr_output_close(text);
        orr_output_close(tokens);
    }
}

/* Any one byte of a document changed: skipping refuses exactly what reading refuses, with the
 * same words. */
static void refuses_what_reading_refuses(void **state)
{
    (void)state;
    static const char bytes[] = "\"\\{}[],:01-.eE tn\n\x01\x80\xff";
    size_t refused = 0, accepted = 0;
    for (uint64_t i = 0; i < 40; i++) {
        orr_output *text, *tokens;
        assert_int_equal(orr_output_open_memory(&text, NULL), ORR_OK);
        assert_int_equal(orr_output_open_memory(&tokens, NULL), ORR_OK);
        random_document(12, i, 4, text, tokens);
        size_t n;
        const void *at = orr_output_memory(text, &n);
        char *changed = malloc(n);
        memcpy(changed, at, n);
        for (size_t k = 0; k < n; k += 1 + n / 200) {
            const char was = changed[k];
            for (size_t b = 0; b < sizeof bytes - 1; b++) {
                changed[k] = bytes[b];
                for (int tolerant = 0; tolerant < 2; tolerant++) {
                    size_t rn, sn;
                    orr_output *read =
                        memory_tokens(changed, n, (token_options){.tolerant = tolerant == 1});
                    orr_output *skipped = memory_tokens(
                        changed, n, (token_options){.tolerant = tolerant == 1, .skip_every = 1});
                    const char *r = orr_output_memory(read, &rn),
                               *s = orr_output_memory(skipped, &sn);
                    const char *why = memmem(r, rn, "!PARSE", 6), *end = memmem(r, rn, "end at", 6);
                    const char *from = why != NULL ? why : end;
                    assert_non_null(from);
                    const size_t tail = (size_t)(r + rn - from);
                    if (sn < tail || memcmp(s + sn - tail, from, tail) != 0)
                        fail_msg("read: %.*s skipped: %.*s", (int)rn, r, (int)sn, s);
                    refused += why != NULL;
                    accepted += why == NULL;
                    orr_output_close(read);
                    orr_output_close(skipped);
                }
            }
            changed[k] = was;
        }
        free(changed);
        orr_output_close(text);
        orr_output_close(tokens);
    }
    assert_in_range(refused, 1000, 1000000);
    assert_in_range(accepted, 1000, 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skips_what_reading_reads),
        cmocka_unit_test(refuses_what_reading_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
