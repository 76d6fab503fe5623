/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_TOKENIZER_BUILD_H
#define ORR_TEXT_TOKENIZER_BUILD_H

#include <orrery/text.h>

#include "io/json/reader.h"
#include "text/pre_tokenizer.h"

/* The specification of a tokenizer, whatever file it comes from: a reader fills it and calls
 * orr_tokenizer_build(). */

/* How text becomes tokens: neighbouring pairs are merged, the best first, then the leftmost. */
typedef enum orr_bpe_algorithm {
    ORR_BPE_SCORES, /* SentencePiece: characters; mergeable if the pair is a piece, highest score
                       first */
    ORR_BPE_RANKS,  /* tiktoken: bytes; mergeable if the pair is a piece, lowest rank first; rank is
                       id */
    ORR_BPE_MERGES, /* an ordered list of pairs */
    ORR_BPE_NO_MERGES /* no merges: a token per byte */
} orr_bpe_algorithm;

/* Numbers of SentencePiece's ModelProto.SentencePiece.Type, and of GGUF's token_type. */
typedef enum orr_piece_kind {
    ORR_PIECE_NORMAL = 1,
    ORR_PIECE_UNKNOWN,
    ORR_PIECE_CONTROL, /* matched only where special tokens are requested */
    ORR_PIECE_USER,    /* matched wherever it occurs in text */
    ORR_PIECE_UNUSED,
    ORR_PIECE_BYTE /* "<0x0A>" */
} orr_piece_kind;

typedef struct orr_piece {
    orr_text text; /* literal bytes, with U+2581 for SentencePiece's space. Empty: no piece */
    float score;
    uint8_t kind; /* orr_piece_kind */
} orr_piece;

typedef struct orr_bpe_merge {
    uint32_t left, right, merged; /* ids */
} orr_bpe_merge;

/* Where a space is prepended (for SCORES, and MERGES of characters). */
typedef enum orr_prepend_scheme {
    ORR_PREPEND_NEVER,
    ORR_PREPEND_FIRST, /* at the beginning of the text */
    ORR_PREPEND_ALWAYS /* also after each special token */
} orr_prepend_scheme;

typedef struct orr_tokenizer_spec {
    uint8_t kind;             /* orr_tokenizer_kind   */
    uint8_t algorithm;        /* orr_bpe_algorithm   */
    uint8_t split;            /* orr_pre_tokenizer            */
    uint8_t prefix;           /* orr_prepend_scheme      */
    bool spaces;              /* spaces are written as U+2581 */
    bool prefix_unless_there; /* no prefix if the text already begins with a space (U+2581) */
    bool fold_spaces; /* strips spaces at both ends and collapses runs (remove_extra_whitespaces) */
    bool byte_level;  /* MERGES of bytes, else of characters */
    bool byte_fallback;      /* characters without a piece become BYTE pieces */
    bool fuse_unknown;       /* several unknown ones in a row become one token */
    bool whole_first;        /* a piece of text that is a token is not merged */
    bool normal_form_c;      /* text must be in Unicode normalization form C */
    const orr_piece *pieces; /* shape (n) */
    uint32_t n;
    const orr_bpe_merge *merges;      /* shape (n_merges) */
    const orr_text (*merge_texts)[2]; /* merges as texts instead, as in the pieces; or NULL */
    uint32_t n_merges;
    int32_t unknown, bos, eos, pad; /* -1: none */
    int32_t stop[ORR_STOP_TOKENS];  /* beside eos, and eot by its name */
    uint32_t n_stop;
    bool adds_bos;
} orr_tokenizer_spec;

/* Copies everything. INVALID: ids beyond the pieces; PARSE: merges of what is not a piece; LIMIT:
 * more than 2^24 pieces. */
orr_status orr_tokenizer_build(const orr_tokenizer_spec *parts, orr_tokenizer **ret,
                               orr_error *err) ORR_MUST_CHECK;
/* For writers of tokenizers; lives as long as the tokenizer. */
const orr_tokenizer_spec *orr_tokenizer_spec_of(const orr_tokenizer *tokenizer);
/* Id of a piece, -1: none. */
int32_t orr_tokenizer_find(const orr_tokenizer *tokenizer, const char *text, size_t len);

/* From the bytes of files. `path` is for errors. */
orr_status orr_sentencepiece_read(const void *bytes, size_t len, orr_tokenizer **ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* `split` NONE: by the number of lines; 200,000 and more are Llama 4's. */
orr_status orr_tiktoken_read(const void *bytes, size_t len, orr_pre_tokenizer split,
                             orr_tokenizer **ret, orr_error *err) ORR_MUST_CHECK;
/* `config`, `generation`: of tokenizer_config.json and generation_config.json, or empty. */
orr_status orr_tokenizer_json_read(orr_text json, orr_text config, orr_text generation,
                                   orr_tokenizer **ret, orr_error *err) ORR_MUST_CHECK;

/* The tokenizer arrays of a GGUF file, by key: tokenizer.ggml.model "llama" (with scores) or "gpt2"
 * (with merges "left right" and pre), tokens, token_type. Errors: UNSUPPORTED: another model or
 * pre-tokenizer, by name; PARSE. */
typedef struct orr_tokenizer_gguf {
    orr_text model, pre;
    const orr_text *tokens; /* shape (n) */
    const float *scores;    /* shape (n), or NULL */
    const int32_t *types;   /* shape (n), or NULL: all are NORMAL */
    uint32_t n;
    const orr_text *merges; /* shape (n_merges) */
    uint32_t n_merges;
    int32_t bos, eos, eot, pad, unknown; /* -1: none */
    bool adds_bos, adds_space;           /* true by default for "llama" */
} orr_tokenizer_gguf;
orr_status orr_tokenizer_from_gguf(const orr_tokenizer_gguf *gguf, orr_tokenizer **ret,
                                   orr_error *err) ORR_MUST_CHECK;

/* GPT-2's way to write bytes as printable characters: text of a token in tokenizer.json and GGUF to
 * its bytes, in place sizes: `ret` has room for text.n. False: it is not written so. And back: room
 * for 2 x len. */
bool orr_byte_level_decode(orr_text text, char *ret, size_t *ret_len);
size_t orr_byte_level_encode(const char *bytes, size_t len, char *ret);

#endif /* ORR_TEXT_TOKENIZER_BUILD_H */
