/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <unistd.h>

#include <orrery/text.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "text/tokenizer_build.h"

enum { ROOM = 1 << 20 };

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

static orr_text read_golden(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/reference/text/%s", getenv("ORRERY_SOURCE"), name);
    char *bytes = orr_arena_array(arena, char, ROOM);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, ROOM, f);
    fclose(f);
    return (orr_text){bytes, n};
}

static orr_tokenizer *open_golden(const char *name)
{
    const orr_text text = read_golden(name);
    orr_tokenizer *t = NULL;
    orr_status status = ORR_INVALID;
    if (strstr(name, ".model") != NULL)
        status = orr_sentencepiece_read(text.at, text.n, &t, &err);
    else if (strstr(name, ".tiktoken") != NULL)
        status = orr_tiktoken_read(text.at, text.n,
                                   strstr(name, "o200k") != NULL ? ORR_PRE_TOKENIZER_O200K
                                                                 : ORR_PRE_TOKENIZER_LLAMA3,
                                   &t, &err);
    else
        status = orr_tokenizer_json_read(text, (orr_text){0}, (orr_text){0}, &t, &err);
    if (status != ORR_OK)
        fail_msg("%s: %s", name, err.text);
    return t;
}

static void bytes(void **state)
{
    (void)state;
    orr_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t n = 0, len = 0;
    const char *text = NULL;
    assert_int_equal(orr_tokenizer_open(NULL, &t, &err), ORR_OK);
    const orr_tokenizer_info *f = orr_tokenizer_info_of(t);
    assert_int_equal(f->kind, ORR_TOKENIZER_BYTES);
    assert_int_equal(f->vocab, 257);
    assert_int_equal(f->eos, 256);
    assert_int_equal(f->stop[0], 256);
    assert_int_equal(orr_tokenize(t, "a\xff<|end_of_text|>", 17, true, true, arena, &ids, &n, &err),
                     ORR_OK);
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 'a');
    assert_int_equal(ids[1], 0xff);
    assert_int_equal(ids[2], 256);
    assert_int_equal(orr_detokenize(t, ids, n, arena, &text, &len, &err), ORR_OK);
    assert_int_equal(len, 2);
    assert_memory_equal(text, "a\xff", 3);
    assert_int_equal(orr_token_text(t, 257, false, &text, &len, &err), ORR_INVALID);
    assert_int_equal(orr_token_text(t, -1, false, &text, &len, &err), ORR_INVALID);
    assert_int_equal(orr_token_text(t, 256, true, &text, &len, &err), ORR_OK);
    assert_int_equal(len, 15);
    orr_tokenizer_close(t);
    orr_tokenizer_close(NULL);
}

/* Ids of special tokens behind those of the file, as the publishers' lists have them: with Llama
 * 3's 128,000 tokens they are 128,000 .. 128,255, and with Llama 4's 200,000 they end at 202,047.
 */
static void special_tokens(void **state)
{
    (void)state;
    orr_tokenizer *t = open_golden("llama3.tiktoken");
    const orr_tokenizer_info *f = orr_tokenizer_info_of(t);
    const int32_t base = f->bos;
    assert_int_equal(f->vocab - (uint32_t)base, 256);
    assert_int_equal(f->eos, base + 1);
    assert_int_equal(f->pad, base + 4);
    assert_int_equal(orr_tokenizer_find(t, "<|eot_id|>", 10), base + 9);
    assert_int_equal(orr_tokenizer_find(t, "<|reserved_special_token_2|>", 28), base + 12);
    assert_int_equal(orr_tokenizer_find(t, "<|reserved_special_token_245|>", 30), base + 255);
    assert_string_equal(f->style, "llama3");
    assert_int_equal(f->n_stop, 3);
    assert_true(f->adds_bos);
    int32_t *ids = NULL;
    size_t n = 0;
    assert_int_equal(orr_tokenize(t, "a<|eot_id|>b", 12, true, true, arena, &ids, &n, &err),
                     ORR_OK);
    assert_int_equal(n, 4);
    assert_int_equal(ids[0], base);
    assert_int_equal(ids[2], base + 9);
    assert_int_equal(orr_tokenize(t, "a<|eot_id|>b", 12, false, false, arena, &ids, &n, &err),
                     ORR_OK);
    for (size_t i = 0; i < n; i++)
        assert_true(ids[i] < base);
    orr_tokenizer_close(t);

    t = open_golden("o200k.tiktoken");
    f = orr_tokenizer_info_of(t);
    const int32_t four = f->bos;
    assert_int_equal(f->vocab - (uint32_t)four, 2048);
    assert_int_equal(orr_tokenizer_find(t, "<|header_start|>", 16), four + 5);
    assert_int_equal(orr_tokenizer_find(t, "<|eot|>", 7), four + 8);
    assert_int_equal(f->pad, four + 18);
    assert_int_equal(orr_tokenizer_find(t, "<|image_start|>", 15), four + 80);
    assert_int_equal(orr_tokenizer_find(t, "<|patch|>", 9), four + 92);
    assert_int_equal(orr_tokenizer_find(t, "<|reasoning_thinking_end|>", 26), four + 1143);
    assert_string_equal(f->style, "llama4");
    orr_tokenizer_close(t);
}

static void stream_of(const char *name, const char *text)
{
    orr_tokenizer *t = name == NULL ? NULL : open_golden(name);
    if (t == NULL)
        assert_int_equal(orr_tokenizer_open(NULL, &t, &err), ORR_OK);
    int32_t *ids = NULL;
    size_t n = 0, len = 0;
    assert_int_equal(orr_tokenize(t, text, strlen(text), true, false, arena, &ids, &n, &err),
                     ORR_OK);
    orr_token_stream stream = {.tokenizer = t};
    char all[4096] = "", some[128];
    size_t at = 0;
    for (size_t i = 0; i <= n; i++) {
        assert_int_equal(
            orr_token_stream_next(&stream, i < n ? ids[i] : -1, some, sizeof some, &len, &err),
            ORR_OK);
        if (len > 0)
            assert_true(((uint8_t)some[0] & 0xc0) != 0x80); /* characters are whole */
        memcpy(all + at, some, len);
        at += len;
    }
    all[at] = '\0';
    assert_string_equal(all, text);
    orr_tokenizer_close(t);
}

static void streaming(void **state)
{
    (void)state;
    static const char *const names[] = {NULL, "llama2.model", "llama3.tiktoken", "json_llama3.json",
                                        "json_metaspace.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        stream_of(names[i], "Hello, мир! 今天 \xf0\x9f\x98\x80\xf0\x9f\x9a\x80 e\xcc\x81 ok");
        stream_of(names[i], "");
    }
    stream_of("llama2.model", " two  spaces");
    stream_of("json_llama3.json", " two  spaces");
}

/* Bytes that are no text come out as U+FFFD, and do not hold up what follows. */
static void broken_stream(void **state)
{
    (void)state;
    orr_tokenizer *t = NULL;
    assert_int_equal(orr_tokenizer_open(NULL, &t, &err), ORR_OK);
    static const char *const cases[][2] = {
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xe4\xbb", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe4"
         "b",
         "\xef\xbf\xbd"
         "b"},
        {"\xf0\x9f\x98z", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"},
        {"\xc3\xa9\x80", "\xc3\xa9\xef\xbf\xbd"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        orr_token_stream stream = {.tokenizer = t};
        char all[64];
        size_t at = 0, len = 0;
        for (size_t i = 0; i <= strlen(cases[c][0]); i++) {
            const int32_t token = cases[c][0][i] == '\0' ? -1 : (uint8_t)cases[c][0][i];
            assert_int_equal(
                orr_token_stream_next(&stream, token, all + at, sizeof all - at, &len, &err),
                ORR_OK);
            at += len;
        }
        all[at] = '\0';
        assert_string_equal(all, cases[c][1]);
    }
    orr_token_stream stream = {.tokenizer = t};
    char small[1];
    size_t len = 0;
    assert_int_equal(orr_token_stream_next(&stream, 0xff, small, 1, &len, &err), ORR_LIMIT);
    orr_tokenizer_close(t);
}

/* Time n log n, whatever the text: each pair of neighbours can be merged, or none. */
static void hostile(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2.model", "llama3.tiktoken", "json_llama3.json",
                                        "json_legacy.json"};
    static const char *const repeated[] = {"a",    " ",        "<", "ab", "'", "\xe2\x96\x81",
                                           "\xff", "A\xcc\x81"};
    enum { LEN = 256 << 10 };
    char *text = orr_arena_array(arena, char, LEN);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        orr_tokenizer *t = open_golden(names[i]);
        for (size_t r = 0; r < sizeof repeated / sizeof *repeated; r++) {
            const size_t n = strlen(repeated[r]);
            for (size_t at = 0; at < LEN; at++)
                text[at] = repeated[r][at % n];
            int32_t *ids = NULL;
            size_t n_ids = 0;
            const clock_t begin = clock(); /* of the processor */
            orr_arena *own = orr_arena_new(0, 0);
            assert_int_equal(orr_tokenize(t, text, LEN, false, true, own, &ids, &n_ids, &err),
                             ORR_OK);
            orr_arena_free(own);
            assert_true(clock() - begin < 60 * CLOCKS_PER_SEC); /* n squared would be many minutes */
        }
        orr_tokenizer_close(t);
    }
}

/* Random bytes come back as they were, where every byte is a token. */
static void any_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2.model", "llama3.tiktoken", "o200k.tiktoken",
                                        "json_o200k.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        orr_tokenizer *t = open_golden(names[i]);
        for (uint64_t seed = 0; seed < 300; seed++) {
            orr_random random = orr_random_of(seed, 3);
            char text[200];
            const char *back = NULL;
            const size_t n = 1 + orr_random_below(&random, sizeof text - 1);
            for (size_t k = 0; k < n; k++)
                text[k] = orr_random_below(&random, 2) == 0
                              ? (char)orr_random_below(&random, 256)
                              : " aeE'\n1"[orr_random_below(&random, 7)];
            int32_t *ids = NULL;
            size_t n_ids = 0, len = 0;
            assert_int_equal(orr_tokenize(t, text, n, false, false, arena, &ids, &n_ids, &err),
                             ORR_OK);
            assert_int_equal(orr_detokenize(t, ids, n_ids, arena, &back, &len, &err), ORR_OK);
            assert_int_equal(len, n);
            assert_memory_equal(back, text, n);
        }
        orr_tokenizer_close(t);
    }
}

static void expect(orr_status status, orr_status want, const char *text)
{
    if (status != want || strstr(err.text, text) == NULL)
        fail_msg("%s: %s, not %s", orr_status_name(status), err.text, text);
}

static orr_status read_json(const char *json)
{
    orr_tokenizer *t = NULL;
    const orr_status status = orr_tokenizer_json_read((orr_text){json, strlen(json)}, (orr_text){0},
                                                      (orr_text){0}, &t, &err);
    if (status == ORR_OK)
        orr_tokenizer_close(t);
    return status;
}

static orr_status read_lines(const char *lines)
{
    orr_tokenizer *t = NULL;
    const orr_status status =
        orr_tiktoken_read(lines, strlen(lines), ORR_PRE_TOKENIZER_NONE, &t, &err);
    if (status == ORR_OK)
        orr_tokenizer_close(t);
    return status;
}

static void refused(void **state)
{
    (void)state;
#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":"
    assert_int_equal(read_json("{" MODEL "[\"a b\"]}}"), ORR_OK);
    assert_int_equal(read_json("{" MODEL "[[\"a\",\"b\"]]}}"), ORR_OK);
    expect(read_json("{" MODEL "[\"a c\"]}}"), ORR_PARSE,
           "merge 0 is of tokens that are not in the vocabulary");
    expect(read_json("{" MODEL "[\"ab\"]}}"), ORR_PARSE, "merge 0 is not of two tokens");
    expect(read_json("{" MODEL "[1]}}"), ORR_PARSE, "a merge is two tokens");
    expect(read_json("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}"), ORR_PARSE,
           "no vocabulary");
    expect(read_json("{\"model\":{\"vocab\":{\"a\":99999999}}}"), ORR_LIMIT, "the id 99999999");
    expect(read_json("{\"model\":{\"vocab\":{\"a\":-1}}}"), ORR_LIMIT, "the id -1");
    expect(read_json("{\"normalizer\":{\"type\":\"Lowercase\"}," MODEL "[]}}"), ORR_UNSUPPORTED,
           "normalizer Lowercase");
    expect(read_json("{\"pre_tokenizer\":{\"type\":\"Whitespace\"}," MODEL "[]}}"), ORR_UNSUPPORTED,
           "pre-tokenizer Whitespace");
    expect(
        read_json(
            "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+\"},\"behavior\":\"Isolated\"}," MODEL
            "[]}}"),
        ORR_UNSUPPORTED, "Split by x+");
    expect(read_json("{\"added_tokens\":[{\"id\":3,\"content\":\"<m>\",\"lstrip\":true}]," MODEL
                     "[]}}"),
           ORR_UNSUPPORTED, "lstrip");
    expect(read_json("{" MODEL "[]}"), ORR_PARSE, "");
    expect(read_lines("YQ== 0\nYg== 2\n"), ORR_PARSE, "line 2: the rank is not");
    expect(read_lines("Y Q 0\n"), ORR_PARSE, "line 1: the token is not base64");
    expect(read_lines("YQ==\n"), ORR_PARSE, "line 1: a token in base64");
    expect(read_lines("\n"), ORR_PARSE, "no tokens");
    orr_tokenizer *t = NULL;
    expect(orr_sentencepiece_read("\n\x05\x61", 3, &t, &err), ORR_PARSE,
           "not a SentencePiece model");
    expect(orr_sentencepiece_read("\n\x03\n\x01"
                                  "a\x12\x02\x18\x01",
                                  9, &t, &err),
           ORR_UNSUPPORTED, "type unigram");
    expect(orr_sentencepiece_read("\n\x03\n\x01"
                                  "a\x12\x02\x18\x02\x1a\x0b\n\x04nfkc\x12\x03"
                                  "abc",
                                  22, &t, &err),
           ORR_UNSUPPORTED, "normalizer nfkc");
}

/* A model's folder: tokenizer.json with what stands beside it. */
static void folder(void **state)
{
    (void)state;
    char path[] = "/tmp/orrery_text_XXXXXX", name[4096];
    assert_non_null(mkdtemp(path));
    orr_tokenizer *t = NULL;
    expect(orr_tokenizer_open(path, &t, &err), ORR_NOT_FOUND,
           "neither tokenizer.json nor tokenizer.model");
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json"};
    const orr_text golden = read_golden("json_llama3.json");
    const char *const texts[] = {
        golden.at, "{\"bos_token\": {\"content\": \"<|begin_of_text|>\"}, \"add_bos_token\": true}",
        "{\"eos_token_id\": [5, 7]}"};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/%s", path, files[i]);
        FILE *f = fopen(name, "wb");
        fwrite(texts[i], 1, i == 0 ? golden.n : strlen(texts[i]), f);
        fclose(f);
    }
    assert_int_equal(orr_tokenizer_open(path, &t, &err), ORR_OK);
    const orr_tokenizer_info *f = orr_tokenizer_info_of(t);
    assert_true(f->adds_bos);
    assert_int_equal(f->bos, orr_tokenizer_find(t, "<|begin_of_text|>", 17));
    assert_int_equal(f->eos, orr_tokenizer_find(t, "<|end_of_text|>", 15));
    assert_int_equal(f->n_stop, 4);
    assert_int_equal(f->stop[1], 5);
    assert_int_equal(f->stop[2], 7);
    assert_int_equal(f->stop[3], orr_tokenizer_find(t, "<|eot_id|>", 10));
    orr_tokenizer_close(t);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/%s", path, files[i]);
        unlink(name);
    }
    rmdir(path);
    expect(orr_tokenizer_open(path, &t, &err), ORR_IO, path);
}

/* The same tokenizer by the arrays of a GGUF file. */
static void gguf_arrays(void **state)
{
    (void)state;
    orr_tokenizer *from = open_golden("llama2.model"), *t = NULL;
    const orr_tokenizer_spec *p = orr_tokenizer_spec_of(from);
    orr_text *tokens = orr_arena_array(arena, orr_text, p->n);
    float *scores = orr_arena_array(arena, float, p->n);
    int32_t *types = orr_arena_array(arena, int32_t, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        tokens[i] = p->pieces[i].text;
        scores[i] = p->pieces[i].score;
        types[i] = p->pieces[i].kind;
    }
    orr_tokenizer_gguf g = {.model = {"llama", 5},
                            .tokens = tokens,
                            .scores = scores,
                            .types = types,
                            .n = p->n,
                            .bos = 1,
                            .eos = 2,
                            .eot = -1,
                            .pad = -1,
                            .unknown = 0,
                            .adds_bos = true,
                            .adds_space = true};
    assert_int_equal(orr_tokenizer_from_gguf(&g, &t, &err), ORR_OK);
    static const char text[] =
        "The fast <user>more sum: 3.14, \xf0\x9f\x98\x80 \xd0\xbc\xd0\xb8\xd1\x80";
    int32_t *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    assert_int_equal(orr_tokenize(from, text, sizeof text - 1, true, false, arena, &a, &n_a, &err),
                     ORR_OK);
    assert_int_equal(orr_tokenize(t, text, sizeof text - 1, true, false, arena, &b, &n_b, &err),
                     ORR_OK);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(a, b, n_a * sizeof *a);
    assert_string_equal(orr_tokenizer_info_of(t)->style, "llama2");
    orr_tokenizer_close(t);
    orr_tokenizer_close(from);
    g.model = (orr_text){"bert", 4};
    expect(orr_tokenizer_from_gguf(&g, &t, &err), ORR_UNSUPPORTED, "model bert");
    g.model = (orr_text){"gpt2", 4};
    g.pre = (orr_text){"falcon", 6};
    expect(orr_tokenizer_from_gguf(&g, &t, &err), ORR_UNSUPPORTED, "pre-tokenizer falcon");
}

static void letters_of_bytes(void **state)
{
    (void)state;
    char all[256], written[512], back[512];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    const size_t n = orr_byte_level_encode(all, 256, written);
    size_t len = 0;
    assert_true(orr_byte_level_decode((orr_text){written, n}, back, &len));
    assert_int_equal(len, 256);
    assert_memory_equal(back, all, 256);
    assert_int_equal(orr_byte_level_encode(" ", 1, written), 2);
    assert_memory_equal(written, "\xc4\xa0", 2); /* U+0120 */
    assert_false(orr_byte_level_decode((orr_text){" ", 1}, back, &len));
    assert_false(orr_byte_level_decode((orr_text){"\xff", 1}, back, &len));
}

/* Whatever allocation fails, it is told and nothing leaks. */
static void no_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2.model", "llama3.tiktoken", "json_llama3.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const orr_text text = read_golden(names[i]);
        orr_status status = ORR_NO_MEMORY;
        for (uint64_t nth = 1; status != ORR_OK; nth += 1 + nth / 16) {
            orr_tokenizer *t = NULL;
            int32_t *ids = NULL;
            size_t n = 0;
            orr_arena *own = orr_arena_new(0, 0);
            orr_alloc_fail_from(nth);
            status = i == 0 ? orr_sentencepiece_read(text.at, text.n, &t, &err)
                     : i == 1
                         ? orr_tiktoken_read(text.at, text.n, ORR_PRE_TOKENIZER_NONE, &t, &err)
                         : orr_tokenizer_json_read(text, (orr_text){0}, (orr_text){0}, &t, &err);
            if (status == ORR_OK)
                status = orr_tokenize(t, "Hello there", 11, true, true, own, &ids, &n, &err);
            orr_alloc_fail_from(0);
            assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
            orr_tokenizer_close(t);
            orr_arena_free(own);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes, begin, end),
        cmocka_unit_test_setup_teardown(special_tokens, begin, end),
        cmocka_unit_test_setup_teardown(streaming, begin, end),
        cmocka_unit_test_setup_teardown(broken_stream, begin, end),
        cmocka_unit_test_setup_teardown(hostile, begin, end),
        cmocka_unit_test_setup_teardown(any_bytes, begin, end),
        cmocka_unit_test_setup_teardown(refused, begin, end),
        cmocka_unit_test_setup_teardown(folder, begin, end),
        cmocka_unit_test_setup_teardown(gguf_arrays, begin, end),
        cmocka_unit_test_setup_teardown(letters_of_bytes, begin, end),
        cmocka_unit_test_setup_teardown(no_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
