/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_REFERENCE_GOLDEN_H
#define TESTS_REFERENCE_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json/reader.h"

/* The tiny checkpoints of tests/reference/checkpoints, and what transformers computes from them:
 * its README says what the files hold. */
static inline const char *golden_path(const char *family, const char *file)
{
    static char path[4][1024];
    static int at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/tests/reference/checkpoints/%s/%s",
             getenv("ORRERY_SOURCE"), family, file);
    return path[at];
}

enum { GOLDEN_PROMPTS = 4, GOLDEN_TOKENS = 64 };
typedef struct golden_prompt {
    int32_t tokens[GOLDEN_TOKENS], greedy[GOLDEN_TOKENS];
    size_t n, n_greedy;
} golden_prompt;

static inline size_t golden_numbers(orr_json *json, int32_t *ret)
{
    orr_status status = orr_json_enter_array(json, NULL);
    size_t n = 0;
    while (status == ORR_OK && orr_json_next_element(json, &status, NULL)) {
        int64_t value = 0;
        bool is = false;
        assert_int_equal(orr_json_int64(json, &value, &is, NULL), ORR_OK);
        assert_true(is && n < GOLDEN_TOKENS);
        ret[n++] = (int32_t)value;
    }
    assert_int_equal(status, ORR_OK);
    return n;
}

/* Prompts of golden.json, and how many. */
static inline size_t golden_prompts(const char *family, golden_prompt *ret)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_text key;
    orr_status status = ORR_OK;
    size_t n = 0;
    assert_int_equal(orr_stream_open(golden_path(family, "golden.json"), &stream, NULL), ORR_OK);
    assert_int_equal(orr_json_new(stream, false, &json, NULL), ORR_OK);
    assert_int_equal(orr_json_enter_object(json, NULL), ORR_OK);
    while (orr_json_next_key(json, &key, &status, NULL)) {
        if (!orr_text_is(key, "prompts")) {
            assert_int_equal(orr_json_skip(json, NULL), ORR_OK);
            continue;
        }
        assert_int_equal(orr_json_enter_array(json, NULL), ORR_OK);
        for (; orr_json_next_element(json, &status, NULL); n++) {
            assert_int_equal(orr_json_enter_object(json, NULL), ORR_OK);
            while (orr_json_next_key(json, &key, &status, NULL))
                if (orr_text_is(key, "tokens"))
                    ret[n].n = golden_numbers(json, ret[n].tokens);
                else if (orr_text_is(key, "greedy"))
                    ret[n].n_greedy = golden_numbers(json, ret[n].greedy);
                else
                    assert_int_equal(orr_json_skip(json, NULL), ORR_OK);
        }
    }
    assert_int_equal(status, ORR_OK);
    orr_json_free(json);
    orr_stream_close(stream);
    return n;
}

#endif /* TESTS_REFERENCE_GOLDEN_H */
