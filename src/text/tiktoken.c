/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "text/tokenizer.h"

/* Reader of tiktoken files. Special tokens follow those of the file, in the publishers' order
 * (meta-llama/llama-models, models/llama3/tokenizer.py and models/llama4/tokenizer.py). A name
 * ending in '#' is a numbered range: its first number and count. */
typedef struct special_row {
    const char *name;
    uint16_t first, count; /* count 0: one, not numbered */
} special_row;

static const special_row llama3_rows[] = {
    {"<|begin_of_text|>", 0, 0},
    {"<|end_of_text|>", 0, 0},
    {"<|reserved_special_token_#|>", 0, 2},
    {"<|finetune_right_pad_id|>", 0, 0},
    {"<|step_id|>", 0, 0},
    {"<|start_header_id|>", 0, 0},
    {"<|end_header_id|>", 0, 0},
    {"<|eom_id|>", 0, 0},
    {"<|eot_id|>", 0, 0},
    {"<|python_tag|>", 0, 0},
    {"<|image|>", 0, 0},
    {"<|reserved_special_token_#|>", 2, 244},
};
static const special_row llama4_rows[] = {
    {"<|begin_of_text|>", 0, 0},
    {"<|end_of_text|>", 0, 0},
    {"<|fim_prefix|>", 0, 0},
    {"<|fim_middle|>", 0, 0},
    {"<|fim_suffix|>", 0, 0},
    {"<|header_start|>", 0, 0},
    {"<|header_end|>", 0, 0},
    {"<|eom|>", 0, 0},
    {"<|eot|>", 0, 0},
    {"<|step|>", 0, 0},
    {"<|text_post_train_reserved_special_token_#|>", 0, 6},
    {"<|python_start|>", 0, 0},
    {"<|python_end|>", 0, 0},
    {"<|finetune_right_pad|>", 0, 0},
    {"<|text_post_train_reserved_special_token_#|>", 8, 61},
    {"<|image_start|>", 0, 0},
    {"<|image_end|>", 0, 0},
    {"<|vision_reserved_special_token_#|>", 0, 2},
    {"<|tile_x_separator|>", 0, 0},
    {"<|tile_y_separator|>", 0, 0},
    {"<|vision_reserved_special_token_#|>", 2, 4},
    {"<|image|>", 0, 0},
    {"<|vision_reserved_special_token_#|>", 6, 1},
    {"<|patch|>", 0, 0},
    {"<|vision_reserved_special_token_#|>", 7, 1041},
    {"<|reasoning_reserved_special_token_#|>", 0, 8},
    {"<|reasoning_thinking_start|>", 0, 0},
    {"<|reasoning_thinking_end|>", 0, 0},
    {"<|reserved_special_token_#|>", 0, 904},
};
enum { LLAMA4_TOKENS = 200000 };

typedef struct ranks {
    orr_arena *arena;
    orr_array(orr_piece) pieces;
    const char *text;
    size_t at, len;
    uint32_t line;
} ranks;

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Base64, RFC 4648; false: invalid. */
static bool decode(const char *at, size_t n, char *ret, size_t *ret_len)
{
    while (n > 0 && at[n - 1] == '=')
        n--;
    uint32_t bits = 0;
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        const int digit = digit_of(at[i]);
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 != 0)
            ret[len++] = (char)(bits >> (6 - i % 4 * 2));
    }
    *ret_len = len;
    return n % 4 != 1;
}

static orr_status broken(const ranks *r, const char *what, orr_error *err)
{
    return orr_fail_byte(err, ORR_PARSE, r->at, "line %u: %s", r->line, what);
}

static orr_status read_line(ranks *r, orr_text line, orr_error *err)
{
    const char *space = memchr(line.at, ' ', line.n);
    int64_t rank = -1;
    if (space == NULL)
        return broken(r, "a token in base64 and its rank are wanted", err);
    const size_t n = (size_t)(space - line.at);
    orr_piece piece = {.kind = ORR_PIECE_NORMAL};
    char *bytes = orr_arena_array(r->arena, char, n + 1);
    if (bytes == NULL)
        return orr_fail_memory(err);
    if (!decode(line.at, n, bytes, &piece.text.n) || piece.text.n == 0)
        return broken(r, "the token is not base64", err);
    if (!orr_text_int64((orr_text){space + 1, line.n - n - 1}, &rank))
        return broken(r, "the rank is not a number", err);
    if (rank != (int64_t)r->pieces.n)
        return broken(r, "the rank is not that of the line before and one", err);
    piece.text.at = bytes;
    return orr_array_push(&r->pieces, piece) ? ORR_OK : orr_fail_memory(err);
}

static orr_status read_lines(ranks *r, orr_error *err)
{
    while (r->at < r->len) {
        const char *at = r->text + r->at, *end = memchr(at, '\n', r->len - r->at);
        const size_t whole = end == NULL ? r->len - r->at : (size_t)(end - at) + 1;
        size_t n = end == NULL ? whole : whole - 1;
        n -= n > 0 && at[n - 1] == '\r';
        r->line++;
        if (n > 0)
            ORR_TRY(read_line(r, (orr_text){at, n}, err));
        r->at += whole;
    }
    return r->pieces.n == 0 ? broken(r, "there are no tokens", err) : ORR_OK;
}

static orr_status put_special(ranks *r, const char *name, uint32_t number, orr_error *err)
{
    const char *mark = strchr(name, '#');
    char *text = mark == NULL ? orr_arena_strndup(r->arena, name, strlen(name))
                              : orr_arena_printf(r->arena, "%.*s%u%s", (int)(mark - name), name,
                                                 number, mark + 1);
    if (text == NULL)
        return orr_fail_memory(err);
    const orr_piece piece = {.text = {text, strlen(text)}, .kind = ORR_PIECE_CONTROL};
    return orr_array_push(&r->pieces, piece) ? ORR_OK : orr_fail_memory(err);
}

static orr_status put_specials(ranks *r, const special_row *rows, size_t n, orr_error *err)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k == 0 || k < rows[i].count; k++)
            ORR_TRY(put_special(r, rows[i].name, rows[i].first + k, err));
    return ORR_OK;
}

static int32_t find(const ranks *r, const char *name)
{
    for (size_t id = r->pieces.n; id-- > 0;)
        if (orr_text_equal(r->pieces.at[id].text, name, strlen(name)))
            return (int32_t)id;
    return -1;
}

static orr_status build(ranks *r, orr_pre_tokenizer split, orr_tokenizer **ret, orr_error *err)
{
    const size_t n = r->pieces.n;
    if (split == ORR_PRE_TOKENIZER_NONE)
        split = n >= LLAMA4_TOKENS ? ORR_PRE_TOKENIZER_O200K : ORR_PRE_TOKENIZER_LLAMA3;
    const bool llama4 = split == ORR_PRE_TOKENIZER_O200K;
    ORR_TRY(put_specials(r, llama4 ? llama4_rows : llama3_rows,
                         llama4 ? sizeof llama4_rows / sizeof *llama4_rows
                                : sizeof llama3_rows / sizeof *llama3_rows,
                         err));
    const orr_tokenizer_spec parts = {
        .kind = ORR_TOKENIZER_TIKTOKEN,
        .algorithm = ORR_BPE_RANKS,
        .split = (uint8_t)split,
        .pieces = r->pieces.at,
        .n = (uint32_t)r->pieces.n,
        .unknown = -1,
        .bos = (int32_t)n,
        .eos = (int32_t)n + 1,
        .pad = find(r, llama4 ? "<|finetune_right_pad|>" : "<|finetune_right_pad_id|>"),
        .adds_bos = true};
    return orr_tokenizer_build(&parts, ret, err);
}

orr_status orr_tiktoken_read(const void *bytes, size_t len, orr_pre_tokenizer split,
                             orr_tokenizer **ret, orr_error *err)
{
    ranks r = {.arena = orr_arena_new(0, 0), .text = bytes, .len = len};
    orr_status status = r.arena == NULL ? orr_fail_memory(err) : read_lines(&r, err);
    if (status == ORR_OK)
        status = build(&r, split, ret, err);
    orr_array_done(&r.pieces);
    orr_arena_free(r.arena);
    return status;
}
