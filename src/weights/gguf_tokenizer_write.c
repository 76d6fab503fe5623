/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "text/tokenizer_build.h"
#include "weights/gguf.h"
#include "weights/gguf_tokenizer_write.h"

/* Writes a tokenizer into GGUF's metadata. GGUF lists BPE merges, our tokenizers have ranks: the
 * merge of a token is reconstructed by applying all merges of lower rank to its bytes, which leaves
 * exactly the two tokens that its own merge joins. */

#define KEY(name) "tokenizer.ggml." name

/* Longer tokens have no merge: they are matched whole or not at all. */
enum { MOST_JOINED_BYTES = 512 };

typedef struct writer {
    orr_gguf_metadata_writer *keys;
    const orr_tokenizer *tokenizer;
    const orr_tokenizer_spec *parts;
    bool of_bytes; /* model "gpt2": tokens are bytes in GPT-2's spelling */
    orr_array(orr_bpe_merge) merges;
    char *room;
    size_t room_bytes;
    orr_error *err;
} writer;

static orr_status reserve(writer *w, size_t bytes)
{
    if (bytes <= w->room_bytes)
        return ORR_OK;
    char *larger = orr_realloc(w->room, bytes);
    if (larger == NULL)
        return orr_fail_memory(w->err);
    w->room = larger;
    w->room_bytes = bytes;
    return ORR_OK;
}

/* A token's text as spelled in GGUF, in the writer's buffer from `at` on. */
static orr_status spell(writer *w, uint32_t id, size_t at, size_t *ret_len)
{
    const orr_piece *piece = &w->parts->pieces[id];
    ORR_TRY(reserve(w, at + 2 * piece->text.n + 32));
    if (piece->text.n == 0) {
        *ret_len = (size_t)snprintf(w->room + at, 32, "[PAD%u]", id);
    } else if (w->of_bytes && piece->kind == ORR_PIECE_NORMAL) {
        *ret_len = orr_byte_level_encode(piece->text.at, piece->text.n, w->room + at);
    } else {
        memcpy(w->room + at, piece->text.at, piece->text.n);
        *ret_len = piece->text.n;
    }
    return ORR_OK;
}

static orr_status put_tokens(writer *w)
{
    orr_gguf_put_array(w->keys, KEY("tokens"), ORR_GGUF_TEXT, w->parts->n);
    for (uint32_t id = 0; id < w->parts->n; id++) {
        size_t n = 0;
        ORR_TRY(spell(w, id, 0, &n));
        orr_gguf_put_string(w->keys, w->room, n);
    }
    orr_gguf_put_array(w->keys, KEY("token_type"), ORR_GGUF_I32, w->parts->n);
    for (uint32_t id = 0; id < w->parts->n; id++) {
        const orr_piece *piece = &w->parts->pieces[id];
        const bool none = piece->text.n == 0 || piece->kind == 0;
        orr_gguf_put_number(w->keys, none ? ORR_PIECE_UNUSED : piece->kind, 4);
    }
    return ORR_OK;
}

/* Id of a token of these bytes with a rank below `most`; -1: none. */
static int32_t rank_of(const writer *w, const char *text, size_t n, int32_t most)
{
    const int32_t id = orr_tokenizer_find(w->tokenizer, text, n);
    return id >= 0 && id < most && w->parts->pieces[id].kind == ORR_PIECE_NORMAL ? id : -1;
}

/* The two tokens that the last merge of a token joins: what merges of lower rank leave. */
static bool halves(const writer *w, uint32_t id, orr_bpe_merge *ret)
{
    const orr_text text = w->parts->pieces[id].text;
    uint16_t end[MOST_JOINED_BYTES]; /* ends of the parts */
    uint32_t n = (uint32_t)text.n;
    if (n < 2 || n > MOST_JOINED_BYTES)
        return false;
    for (uint32_t i = 0; i < n; i++)
        end[i] = (uint16_t)(i + 1);
    while (n > 2) {
        int32_t best = (int32_t)id;
        uint32_t at = n;
        for (uint32_t i = 0; i + 1 < n; i++) {
            const uint32_t begin = i > 0 ? end[i - 1] : 0;
            const int32_t rank = rank_of(w, text.at + begin, end[i + 1] - begin, best);
            if (rank >= 0) {
                best = rank;
                at = i;
            }
        }
        if (at == n)
            return false;
        memmove(&end[at], &end[at + 1], (n - at - 1) * sizeof *end);
        n--;
    }
    const int32_t left = rank_of(w, text.at, end[0], INT32_MAX);
    const int32_t right = rank_of(w, text.at + end[0], text.n - end[0], INT32_MAX);
    *ret = (orr_bpe_merge){(uint32_t)left, (uint32_t)right, id};
    return left >= 0 && right >= 0;
}

/* Ranks to a list of merges, in the order of ids. */
static orr_status find_merges(writer *w)
{
    for (uint32_t id = 0; id < w->parts->n; id++) {
        orr_bpe_merge merge;
        if (w->parts->pieces[id].kind == ORR_PIECE_NORMAL && halves(w, id, &merge) &&
            !orr_array_push(&w->merges, merge))
            return orr_fail_memory(w->err);
    }
    return ORR_OK;
}

static orr_status put_merges(writer *w)
{
    const bool ranks = w->parts->algorithm == ORR_BPE_RANKS;
    if (ranks)
        ORR_TRY(find_merges(w));
    const orr_bpe_merge *merges = ranks ? w->merges.at : w->parts->merges;
    const uint32_t n = ranks ? (uint32_t)w->merges.n : w->parts->n_merges;
    orr_gguf_put_array(w->keys, KEY("merges"), ORR_GGUF_TEXT, n);
    for (uint32_t i = 0; i < n; i++) {
        size_t left = 0, right = 0;
        ORR_TRY(spell(w, merges[i].left, 0, &left));
        ORR_TRY(spell(w, merges[i].right, left + 1, &right));
        w->room[left] = ' ';
        orr_gguf_put_string(w->keys, w->room, left + 1 + right);
    }
    return ORR_OK;
}

/* Scores of character merges: the first merge that gives a token decides. */
static orr_status put_scores(writer *w)
{
    const uint32_t n = w->parts->n;
    float *scores = orr_calloc(n, sizeof *scores);
    if (scores == NULL)
        return orr_fail_memory(w->err);
    for (uint32_t id = 0; id < n; id++)
        scores[id] = w->parts->pieces[id].score;
    if (w->parts->algorithm == ORR_BPE_MERGES)
        for (uint32_t i = w->parts->n_merges; i-- > 0;)
            scores[w->parts->merges[i].merged] = -(float)(i + 1);
    orr_gguf_put_array(w->keys, KEY("scores"), ORR_GGUF_F32, n);
    for (uint32_t id = 0; id < n; id++) {
        uint32_t bits;
        memcpy(&bits, &scores[id], sizeof bits);
        orr_gguf_put_number(w->keys, bits, 4);
    }
    orr_free(scores);
    return ORR_OK;
}

static void put_token(const writer *w, const char *key, int32_t token)
{
    if (token >= 0)
        orr_gguf_put_u32(w->keys, key, (uint32_t)token);
}

/* llama.cpp's names of pre-tokenizers. */
static const char *pre_of(uint8_t split)
{
    switch (split) {
    case ORR_PRE_TOKENIZER_LLAMA3:
        return "llama-bpe";
    case ORR_PRE_TOKENIZER_QWEN2:
        return "qwen2";
    case ORR_PRE_TOKENIZER_O200K:
        return "llama4";
    default:
        return "gpt-2";
    }
}

static orr_status put_all(writer *w)
{
    const orr_tokenizer_spec *p = w->parts;
    const orr_tokenizer_info *facts = orr_tokenizer_info_of(w->tokenizer);
    const char *model = w->of_bytes ? "gpt2" : "llama", *pre = pre_of(p->split);
    orr_gguf_put_text(w->keys, KEY("model"), model, strlen(model));
    if (w->of_bytes)
        orr_gguf_put_text(w->keys, KEY("pre"), pre, strlen(pre));
    ORR_TRY(put_tokens(w));
    ORR_TRY(w->of_bytes ? put_merges(w) : put_scores(w));
    put_token(w, KEY("bos_token_id"), p->bos);
    put_token(w, KEY("eos_token_id"), p->eos);
    put_token(w, KEY("padding_token_id"), p->pad);
    put_token(w, KEY("unknown_token_id"), p->unknown);
    for (uint32_t i = 0; i < facts->n_stop; i++) { /* the first that is not the end of text */
        if (facts->stop[i] == p->eos)
            continue;
        put_token(w, KEY("eot_token_id"), facts->stop[i]);
        break;
    }
    orr_gguf_put_bool(w->keys, KEY("add_bos_token"), facts->adds_bos);
    if (!w->of_bytes)
        orr_gguf_put_bool(w->keys, KEY("add_space_prefix"), p->prefix != ORR_PREPEND_NEVER);
    return ORR_OK;
}

orr_status orr_gguf_put_tokenizer(orr_gguf_metadata_writer *keys, const orr_tokenizer *tokenizer,
                                  orr_error *err)
{
    writer w = {.keys = keys,
                .tokenizer = tokenizer,
                .parts = orr_tokenizer_spec_of(tokenizer),
                .err = err};
    if (w.parts->algorithm == ORR_BPE_NO_MERGES)
        return ORR_OK; /* every byte a token: nothing to say */
    w.of_bytes = w.parts->algorithm == ORR_BPE_RANKS ||
                 (w.parts->algorithm == ORR_BPE_MERGES && w.parts->byte_level);
    const orr_status status = put_all(&w);
    orr_array_done(&w.merges);
    orr_free(w.room);
    return status;
}
