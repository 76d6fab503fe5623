/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/array.h"
#include "text/tokenizer.h"

/* llama.cpp's names of pre-tokenizers (tokenizer.ggml.pre) and what they are here. "default" is
 * GPT-2's there too, with a warning. */
static const struct {
    const char *name;
    orr_pre_tokenizer split;
    bool whole_first, normal_form_c;
} pres[] = {
    {"llama-bpe", ORR_PRE_TOKENIZER_LLAMA3, true, false},
    {"llama3", ORR_PRE_TOKENIZER_LLAMA3, true, false},
    {"llama-v3", ORR_PRE_TOKENIZER_LLAMA3, true, false},
    {"gpt-2", ORR_PRE_TOKENIZER_GPT2, false, false},
    {"default", ORR_PRE_TOKENIZER_GPT2, false, false},
    {"qwen2", ORR_PRE_TOKENIZER_QWEN2, false, true},
    {"llama4", ORR_PRE_TOKENIZER_O200K, false, false},
    {"gpt-4o", ORR_PRE_TOKENIZER_O200K, false, false},
};

static orr_status convert_pre_tokenizer(orr_text pre, orr_tokenizer_spec *parts, orr_error *err)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (orr_text_equal(pre, pres[i].name, strlen(pres[i].name))) {
            parts->split = (uint8_t)pres[i].split;
            parts->whole_first = pres[i].whole_first;
            parts->normal_form_c = pres[i].normal_form_c;
            return ORR_OK;
        }
    return orr_fail(err, ORR_UNSUPPORTED, "the pre-tokenizer %.*s", (int)(pre.n < 60 ? pre.n : 60),
                    pre.at);
}

/* Converts pieces from the byte-level alphabet to bytes. */
static orr_status convert_pieces(const orr_tokenizer_gguf *g, bool byte_level, orr_arena *arena,
                                 orr_tokenizer_spec *parts, orr_error *err)
{
    orr_piece *pieces = orr_arena_array(arena, orr_piece, g->n);
    if (pieces == NULL)
        return orr_fail_memory(err);
    for (uint32_t id = 0; id < g->n; id++) {
        const int32_t type = g->types == NULL ? ORR_PIECE_NORMAL : g->types[id];
        if (type < ORR_PIECE_NORMAL || type > ORR_PIECE_BYTE)
            return orr_fail(err, ORR_PARSE, "token %u is of type %d", id, type);
        pieces[id] = (orr_piece){.text = g->tokens[id],
                                 .kind = (uint8_t)type,
                                 .score = g->scores == NULL ? 0 : g->scores[id]};
        if (pieces[id].score != pieces[id].score)
            return orr_fail(err, ORR_PARSE, "the score of token %u is not a number", id);
        char *bytes = byte_level && type == ORR_PIECE_NORMAL
                          ? orr_arena_array(arena, char, g->tokens[id].n + 1)
                          : NULL;
        size_t n = 0;
        if (bytes != NULL && orr_byte_level_decode(g->tokens[id], bytes, &n))
            pieces[id].text = (orr_text){bytes, n};
    }
    parts->pieces = pieces;
    parts->n = g->n;
    return ORR_OK;
}

static orr_status convert_merges(const orr_tokenizer_gguf *g, orr_arena *arena,
                                 orr_tokenizer_spec *parts, orr_error *err)
{
    orr_text(*texts)[2] = orr_arena_alloc(arena, g->n_merges, sizeof *texts, _Alignof(orr_text));
    if (texts == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < g->n_merges; i++) {
        const orr_text merge = g->merges[i];
        char *bytes = orr_arena_array(arena, char, merge.n + 1);
        if (bytes == NULL)
            return orr_fail_memory(err);
        const char *space = merge.n > 1 ? memchr(merge.at + 1, ' ', merge.n - 1) : NULL;
        if (space == NULL)
            return orr_fail(err, ORR_PARSE, "merge %u is not of two tokens", i);
        const size_t n = (size_t)(space - merge.at);
        texts[i][0].at = bytes;
        texts[i][1].at = bytes + n;
        if (!orr_byte_level_decode((orr_text){merge.at, n}, bytes, &texts[i][0].n) ||
            !orr_byte_level_decode((orr_text){space + 1, merge.n - n - 1}, bytes + n,
                                   &texts[i][1].n))
            return orr_fail(err, ORR_PARSE, "merge %u is not of bytes written as letters", i);
    }
    parts->merge_texts = (const orr_text(*)[2])texts;
    parts->n_merges = g->n_merges;
    return ORR_OK;
}

static orr_status make(const orr_tokenizer_gguf *g, orr_arena *arena, orr_tokenizer **ret,
                       orr_error *err)
{
    orr_tokenizer_spec parts = {.kind = ORR_TOKENIZER_GGUF,
                                .unknown = g->unknown,
                                .bos = g->bos,
                                .eos = g->eos,
                                .pad = g->pad,
                                .adds_bos = g->adds_bos};
    if (g->eot >= 0)
        parts.stop[parts.n_stop++] = g->eot;
    if (orr_text_is(g->model, "llama")) {
        parts.algorithm = ORR_BPE_SCORES;
        parts.spaces = parts.fuse_unknown = parts.byte_fallback = true;
        parts.prefix = g->adds_space ? ORR_PREPEND_FIRST : ORR_PREPEND_NEVER;
        if (g->scores == NULL)
            return orr_fail(err, ORR_PARSE, "the tokens have no scores");
    } else if (orr_text_is(g->model, "gpt2")) {
        parts.algorithm = ORR_BPE_MERGES;
        parts.byte_level = true;
        if (g->adds_space) {
            parts.prefix = ORR_PREPEND_ALWAYS;
            parts.prefix_unless_there = true;
        }
        ORR_TRY(
            convert_pre_tokenizer(g->pre.n > 0 ? g->pre : (orr_text){"default", 7}, &parts, err));
        ORR_TRY(convert_merges(g, arena, &parts, err));
    } else {
        return orr_fail(err, ORR_UNSUPPORTED, "a tokenizer of model %.*s",
                        (int)(g->model.n < 60 ? g->model.n : 60), g->model.at);
    }
    ORR_TRY(convert_pieces(g, parts.byte_level, arena, &parts, err));
    return orr_tokenizer_build(&parts, ret, err);
}

orr_status orr_tokenizer_from_gguf(const orr_tokenizer_gguf *gguf, orr_tokenizer **ret,
                                   orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_status status = arena == NULL ? orr_fail_memory(err) : make(gguf, arena, ret, err);
    orr_arena_free(arena);
    return status;
}
