/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/text.h>

#include "base/alloc.h"
#include "text/tokenizer_build.h"

/* Random strings in ids, as sentencepiece, tiktoken and tokenizers make them of the same small
 * tokenizers: id for id. tests/reference/text/make.py made all of it. */
enum { STRINGS_MAX = 4000, LINE_ROOM = 1 << 16 };

typedef struct string {
    char *bytes;
    size_t len;
} string;
static string strings[STRINGS_MAX];
static size_t n_strings;

static FILE *open_beside(const char *name, const char *suffix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/reference/text/%s%s", getenv("ORRERY_SOURCE"), name,
             suffix);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("%s cannot be read", path);
    return f;
}

static int read_strings(void **state)
{
    (void)state;
    static char line[LINE_ROOM];
    FILE *f = open_beside("strings", ".txt");
    while (n_strings < STRINGS_MAX && fgets(line, sizeof line, f) != NULL) {
        string *s = &strings[n_strings++];
        s->len = strcspn(line, "\n") / 2;
        s->bytes = orr_malloc(s->len + 1);
        for (size_t i = 0; i < s->len; i++) {
            const char digits[3] = {line[2 * i], line[2 * i + 1], '\0'};
            s->bytes[i] = (char)strtoul(digits, NULL, 16);
        }
    }
    fclose(f);
    return n_strings < 1000;
}

static int free_strings(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_strings; i++)
        orr_free(strings[i].bytes);
    return 0;
}

static orr_tokenizer *open_named(const char *name, const char *suffix)
{
    static char bytes[1 << 20];
    FILE *f = open_beside(name, suffix);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    orr_tokenizer *t = NULL;
    orr_error err = {0};
    orr_status status;
    if (strcmp(suffix, ".model") == 0)
        status = orr_sentencepiece_read(bytes, n, &t, &err);
    else if (strcmp(suffix, ".tiktoken") == 0)
        status = orr_tiktoken_read(
            bytes, n, strcmp(name, "o200k") == 0 ? ORR_PRE_TOKENIZER_O200K : ORR_PRE_TOKENIZER_NONE,
            &t, &err);
    else
        status =
            orr_tokenizer_json_read((orr_text){bytes, n}, (orr_text){0}, (orr_text){0}, &t, &err);
    if (status != ORR_OK)
        fail_msg("%s: %s", name, err.text);
    return t;
}

static uint64_t fnv(const int32_t *ids, size_t n)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        for (int byte = 0; byte < 4; byte++)
            value = (value ^ ((uint32_t)ids[i] >> (8 * byte) & 255)) * UINT64_C(0x100000001b3);
    return value;
}

static void print_ids(const char *what, const int32_t *ids, size_t n)
{
    fprintf(stderr, "%s:", what);
    for (size_t i = 0; i < n && i < 60; i++)
        fprintf(stderr, " %d", ids[i]);
    fprintf(stderr, "\n");
}

/* *ret_refused counts texts that the tokenizer wants in another normal form. */
static void compare(const char *name, const char *suffix, bool round_trip, size_t *ret_refused)
{
    static char line[LINE_ROOM];
    orr_tokenizer *t = open_named(name, suffix);
    FILE *f = open_beside(name, ".ids");
    orr_arena *arena = orr_arena_new(0, 0);
    for (size_t i = 0; i < n_strings; i++, orr_arena_reset(arena)) {
        int32_t *ids = NULL;
        const char *text = NULL;
        size_t n = 0, want_n = 0, len = 0;
        uint64_t want = 0;
        orr_error err = {0};
        assert_non_null(fgets(line, sizeof line, f));
        assert_int_equal(sscanf(line, "%zu %" SCNx64, &want_n, &want), 2);
        const string *s = &strings[i];
        const orr_status status =
            orr_tokenize(t, s->bytes, s->len, false, false, arena, &ids, &n, &err);
        if (status == ORR_UNSUPPORTED) {
            ++*ret_refused;
            continue;
        }
        assert_int_equal(status, ORR_OK);
        if (n != want_n || fnv(ids, n) != want) {
            print_ids("ours", ids, n);
            fail_msg("%s, string %zu: %.*s, wanted %s", name, i, (int)s->len, s->bytes, line);
        }
        assert_int_equal(orr_detokenize(t, ids, n, arena, &text, &len, &err), ORR_OK);
        if (round_trip && (len != s->len || memcmp(text, s->bytes, len) != 0))
            fail_msg("%s, string %zu: %.*s came back as %.*s", name, i, (int)s->len, s->bytes,
                     (int)len, text);
    }
    fclose(f);
    orr_arena_free(arena);
    orr_tokenizer_close(t);
}

static void compare_all(const char *name, const char *suffix, bool round_trip)
{
    size_t refused = 0;
    compare(name, suffix, round_trip, &refused);
    assert_int_equal(refused, 0);
}

static void sentencepiece(void **state)
{
    (void)state;
    compare_all("llama2", ".model", true);
    compare_all("folding", ".model", false); /* without bytes for unknown characters */
}

static void tiktoken(void **state)
{
    (void)state;
    compare_all("llama3", ".tiktoken", true);
    compare_all("o200k", ".tiktoken", true);
}

static void json_of_bytes(void **state)
{
    (void)state;
    compare_all("json_llama3", ".json", true);
    compare_all("json_o200k", ".json", true);
    compare_all("json_gpt2", ".json", false); /* the space in front stays */
}

static void json_of_characters(void **state)
{
    (void)state;
    compare_all("json_metaspace", ".json", false);
    compare_all("json_unsplit", ".json", false);
    compare_all("json_legacy", ".json", false);
}

/* Text that is not in normal form C is refused, not encoded otherwise. */
static void json_of_qwen(void **state)
{
    (void)state;
    size_t refused = 0;
    compare("json_qwen2", ".json", true, &refused);
    assert_in_range(refused, 1, n_strings / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece), cmocka_unit_test(tiktoken),
        cmocka_unit_test(json_of_bytes), cmocka_unit_test(json_of_characters),
        cmocka_unit_test(json_of_qwen),
    };
    return cmocka_run_group_tests(tests, read_strings, free_strings);
}
