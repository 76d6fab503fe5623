/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "text/tokenizer_build.h"
#include "weights/gguf_tokenizer_write.h"

static const char *const texts[] = {
    "hello",        "hello hello world", " hell he", "shell\n\nllo",
    "h\xc3\xa9llo", "<|end|>hello",      "",         "worldhello  "};
enum { N_TEXTS = sizeof texts / sizeof *texts, MOST_PIECES = 512 };

static orr_piece pieces[MOST_PIECES];
static char bytes[256][8];
static uint32_t n_pieces;

static int32_t add(const char *text, size_t n, float score, uint8_t kind)
{
    pieces[n_pieces] = (orr_piece){.text = {text, n}, .score = score, .kind = kind};
    return (int32_t)n_pieces++;
}

static int32_t add_text(const char *text, float score, uint8_t kind)
{
    return add(text, strlen(text), score, kind);
}

/* Bytes, then longer words: a lower rank is merged first. */
static orr_tokenizer *of_ranks(void)
{
    static const char *const words[] = {"he", "ll", "hell", "hello", " h",  " hello",
                                        "wo", "rl", "worl", "world", "\n\n"};
    orr_tokenizer *t;
    orr_error err = {.text = ""};
    n_pieces = 0;
    for (int b = 0; b < 256; b++) {
        bytes[b][0] = (char)b;
        (void)add(bytes[b], 1, 0, ORR_PIECE_NORMAL);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        (void)add_text(words[i], 0, ORR_PIECE_NORMAL);
    const int32_t bos = add_text("<|begin|>", 0, ORR_PIECE_CONTROL);
    const int32_t eos = add_text("<|end|>", 0, ORR_PIECE_CONTROL);
    const orr_tokenizer_spec parts = {.kind = ORR_TOKENIZER_TIKTOKEN,
                                      .algorithm = ORR_BPE_RANKS,
                                      .split = ORR_PRE_TOKENIZER_LLAMA3,
                                      .byte_level = true,
                                      .whole_first = true,
                                      .pieces = pieces,
                                      .n = n_pieces,
                                      .unknown = -1,
                                      .bos = bos,
                                      .eos = eos,
                                      .pad = -1,
                                      .adds_bos = true};
    if (orr_tokenizer_build(&parts, &t, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return t;
}

#define SPACE "\xe2\x96\x81"
static orr_tokenizer *of_scores(void)
{
    static const char *const words[] = {"he",          "ll", "hell", "hello", SPACE "h",
                                        SPACE "hello", "wo", "rl",   "worl",  "world"};
    static const char *const letters[] = {SPACE, "h", "e", "l", "o", "w", "r",
                                          "d",   "s", "<", ">", "|", "n"};
    orr_tokenizer *t;
    orr_error err = {.text = ""};
    n_pieces = 0;
    const int32_t unknown = add_text("<unk>", 0, ORR_PIECE_UNKNOWN);
    const int32_t bos = add_text("<s>", 0, ORR_PIECE_CONTROL);
    const int32_t eos = add_text("</s>", 0, ORR_PIECE_CONTROL);
    for (int b = 0; b < 256; b++) {
        (void)snprintf(bytes[b], sizeof bytes[b], "<0x%02X>", (unsigned)b);
        (void)add_text(bytes[b], 0, ORR_PIECE_BYTE);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        (void)add_text(words[i], -(float)i, ORR_PIECE_NORMAL);
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        (void)add_text(letters[i], -100 - (float)i, ORR_PIECE_NORMAL);
    const orr_tokenizer_spec parts = {.kind = ORR_TOKENIZER_SENTENCEPIECE,
                                      .algorithm = ORR_BPE_SCORES,
                                      .prefix = ORR_PREPEND_FIRST,
                                      .spaces = true,
                                      .byte_fallback = true,
                                      .pieces = pieces,
                                      .n = n_pieces,
                                      .unknown = unknown,
                                      .bos = bos,
                                      .eos = eos,
                                      .pad = -1,
                                      .adds_bos = true};
    if (orr_tokenizer_build(&parts, &t, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return t;
}

/* Through a GGUF file. */
static orr_tokenizer *kept(const orr_tokenizer *t, orr_weights **ret)
{
    orr_gguf_metadata_writer keys = {0};
    orr_tokenizer *again;
    orr_error err = {.text = ""};
    assert_int_equal(orr_output_open_memory(&keys.out, NULL), ORR_OK);
    assert_int_equal(orr_gguf_put_tokenizer(&keys, t, NULL), ORR_OK);
    assert_int_equal(orr_gguf_write(&(orr_weight_source){0}, &keys, in_scratch("t.gguf"), NULL),
                     ORR_OK);
    orr_output_close(keys.out);
    assert_int_equal(orr_weights_open(in_scratch("t.gguf"), ret, NULL), ORR_OK);
    if (orr_weights_tokenizer(*ret, &again, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return again;
}

static void must_speak_alike(orr_tokenizer *a)
{
    orr_weights *w;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_tokenizer *b = kept(a, &w);
    const orr_tokenizer_info *x = orr_tokenizer_info_of(a), *y = orr_tokenizer_info_of(b);
    assert_int_equal(x->vocab, y->vocab);
    assert_int_equal(x->bos, y->bos);
    assert_int_equal(x->eos, y->eos);
    assert_int_equal(x->adds_bos, y->adds_bos);
    for (int i = 0; i < N_TEXTS; i++) {
        for (int special = 0; special < 2; special++) {
            int32_t *one, *two;
            size_t n, m;
            assert_int_equal(orr_tokenize(a, texts[i], strlen(texts[i]), true, special == 1, arena,
                                          &one, &n, NULL),
                             ORR_OK);
            assert_int_equal(orr_tokenize(b, texts[i], strlen(texts[i]), true, special == 1, arena,
                                          &two, &m, NULL),
                             ORR_OK);
            if (n != m || memcmp(one, two, n * sizeof *one) != 0)
                fail_msg("\"%s\" is %zu tokens, and %zu through GGUF", texts[i], n, m);
        }
    }
    orr_arena_free(arena);
    orr_tokenizer_close(b);
    orr_weights_close(w);
    orr_tokenizer_close(a);
}

static void ranks_become_merges(void **state)
{
    (void)state;
    must_speak_alike(of_ranks());
}

static void scores_stay_scores(void **state)
{
    (void)state;
    must_speak_alike(of_scores());
}

static void a_file_without_one_says_so(void **state)
{
    (void)state;
    orr_gguf_metadata_writer keys = {0};
    orr_weights *w;
    orr_tokenizer *t;
    orr_error err = {.text = ""};
    assert_int_equal(orr_output_open_memory(&keys.out, NULL), ORR_OK);
    assert_int_equal(orr_gguf_write(&(orr_weight_source){0}, &keys, in_scratch("n.gguf"), NULL),
                     ORR_OK);
    orr_output_close(keys.out);
    assert_int_equal(orr_weights_open(in_scratch("n.gguf"), &w, NULL), ORR_OK);
    assert_int_equal(orr_weights_tokenizer(w, &t, &err), ORR_NOT_FOUND);
    must_say(&err, "has no tokenizer");
    orr_weights_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_become_merges),
        cmocka_unit_test(scores_stay_scores),
        cmocka_unit_test(a_file_without_one_says_so),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
