/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/text.h>

#include "text/tokenizer_build.h"

static orr_arena *arena;
static orr_error err;

static int begin(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int end(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static orr_tokenizer *open_golden(const char *name)
{
    static char bytes[1 << 18];
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/reference/text/%s", getenv("ORRERY_SOURCE"), name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    orr_tokenizer *t = NULL;
    const orr_status status =
        strcmp(name, "llama2.model") == 0
            ? orr_sentencepiece_read(bytes, n, &t, &err)
            : orr_tiktoken_read(bytes, n,
                                strncmp(name, "o200k", 5) == 0 ? ORR_PRE_TOKENIZER_O200K
                                                               : ORR_PRE_TOKENIZER_LLAMA3,
                                &t, &err);
    assert_int_equal(status, ORR_OK);
    return t;
}

static const orr_chat_message turns[] = {{"system", "You are terse."},
                                         {"user", " What is <|eot_id|>? \n"},
                                         {"assistant", " A token. "},
                                         {"user", "Why?"}};

/* The tokens' texts, names of special ones too, with the targets in braces. */
static const char *spell(const orr_tokenizer *t, const int32_t *ids, const bool *targets, size_t n)
{
    static char all[4096];
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = NULL;
        size_t len = 0;
        assert_int_equal(orr_token_text(t, ids[i], true, &text, &len, &err), ORR_OK);
        const bool opens = targets[i] && (i == 0 || !targets[i - 1]),
                   closes = targets[i] && (i + 1 == n || !targets[i + 1]);
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%.*s%s", opens ? "{" : "", (int)len,
                               text, closes ? "}" : "");
    }
    return all;
}

static void talk(const char *name, bool answer, const char *want)
{
    orr_tokenizer *t = open_golden(name);
    int32_t *ids = NULL;
    bool *targets = NULL;
    size_t n = 0;
    assert_int_equal(
        orr_chat_tokens(t, turns, answer ? 4 : 3, answer, arena, &ids, &targets, &n, &err), ORR_OK);
    assert_string_equal(spell(t, ids, targets, n), want);
    orr_tokenizer_close(t);
}

static void llama3(void **state)
{
    (void)state;
    talk("llama3.tiktoken", true,
         "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nYou are terse.<|eot_id|>"
         "<|start_header_id|>user<|end_header_id|>\n\nWhat is <|eot_id|>?<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n{A token.<|eot_id|>}"
         "<|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n");
    /* what a user says is text: the special token stands four times, not five */
    orr_tokenizer *t = open_golden("llama3.tiktoken");
    const int32_t eot = orr_tokenizer_find(t, "<|eot_id|>", 10);
    int32_t *ids = NULL;
    size_t n = 0, count = 0;
    assert_int_equal(orr_chat_tokens(t, turns, 4, true, arena, &ids, NULL, &n, &err), ORR_OK);
    for (size_t i = 0; i < n; i++)
        count += ids[i] == eot;
    assert_int_equal(count, 4);
    orr_tokenizer_close(t);
}

static void llama4(void **state)
{
    (void)state;
    talk("o200k.tiktoken", false,
         "<|begin_of_text|><|header_start|>system<|header_end|>\n\nYou are terse.<|eot|>"
         "<|header_start|>user<|header_end|>\n\nWhat is <|eot_id|>?<|eot|>"
         "<|header_start|>assistant<|header_end|>\n\n{A token.<|eot|>}");
}

static void llama2(void **state)
{
    (void)state;
    talk(
        "llama2.model", true,
        "<s> [INST] <<SYS>>\nYou are terse.\n<</SYS>>\n\n What is <|eot_id|>? [/INST]{ A token. </s>}"
        "<s> [INST] Why? [/INST]");
}

static void refused(void **state)
{
    (void)state;
    orr_tokenizer *t = open_golden("llama2.model");
    int32_t *ids = NULL;
    size_t n = 0;
    assert_int_equal(orr_chat_tokens(t, turns, 3, true, arena, &ids, NULL, &n, &err), ORR_INVALID);
    assert_string_equal(err.text, "there is no question to answer");
    assert_int_equal(orr_chat_tokens(t, turns + 2, 1, true, arena, &ids, NULL, &n, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "turn 1 is of assistant; Llama 2 wants one of user there");
    assert_int_equal(orr_chat_tokens(t, turns, 2, false, arena, &ids, NULL, &n, &err), ORR_INVALID);
    assert_string_equal(err.text, "turn 3 is of nobody; Llama 2 wants one of assistant there");
    orr_tokenizer_close(t);
    assert_int_equal(orr_tokenizer_open(NULL, &t, &err), ORR_OK);
    assert_int_equal(orr_chat_tokens(t, turns, 4, true, arena, &ids, NULL, &n, &err),
                     ORR_UNSUPPORTED);
    orr_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(llama2, begin, end),
        cmocka_unit_test_setup_teardown(llama3, begin, end),
        cmocka_unit_test_setup_teardown(llama4, begin, end),
        cmocka_unit_test_setup_teardown(refused, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
