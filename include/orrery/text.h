/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_H
#define ORR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Text to tokens and back. Frozen once read: any number of threads may share it. */
typedef struct orr_tokenizer orr_tokenizer;
typedef enum orr_tokenizer_kind {
    ORR_TOKENIZER_SENTENCEPIECE, /* tokenizer.model of Llama 2: a protobuf                     */
    ORR_TOKENIZER_TIKTOKEN,      /* tokenizer.model of Llama 3 and 4: base64 and rank in lines */
    ORR_TOKENIZER_JSON,          /* tokenizer.json of Hugging Face: BPE, byte-level or Metaspace */
    ORR_TOKENIZER_GGUF,          /* inside of a GGUF file: orr_weights_tokenizer()              */
    ORR_TOKENIZER_BYTES          /* 256 tokens and end of text: for models without any         */
} orr_tokenizer_kind;
enum { ORR_STOP_TOKENS = 8 };
typedef struct orr_tokenizer_info {
    uint8_t kind;
    uint32_t vocab;                /* ids below it */
    int32_t bos, eos, pad;         /* -1: none */
    int32_t stop[ORR_STOP_TOKENS]; /* shape (n_stop): end generation */
    uint32_t n_stop;
    bool adds_bos;
    const char *style; /* "llama2", "llama3", "llama4", "" */
} orr_tokenizer_info;
/* From a file, or the one of a model's folder (tokenizer.json before tokenizer.model; stop tokens
 * also of generation_config.json). NULL: BYTES. Errors: IO, PARSE with the line or byte,
 * UNSUPPORTED: a kind of model, pre-tokenizer or normaliser that is not known, by name; LIMIT;
 * NOT_FOUND: the folder has none. */
ORR_API ORR_MUST_CHECK orr_status orr_tokenizer_open(const char *path, orr_tokenizer **ret,
                                                     orr_error *err);
ORR_API void orr_tokenizer_close(orr_tokenizer *tokenizer); /* NULL is allowed */
ORR_API const orr_tokenizer_info *orr_tokenizer_info_of(const orr_tokenizer *tokenizer);

/* Tokens of UTF-8 (other bytes are encoded as they are), in the arena. `special`: names of special
 * tokens in the text are these tokens; else they are text. Time n log n of n bytes, whatever they
 * are. Errors: INVALID: over 512 MiB; UNSUPPORTED: the tokenizer wants normal form C (Qwen2), and
 * the text may not be in it; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_tokenize(const orr_tokenizer *tokenizer, const char *text,
                                               size_t len, bool bos, bool special, orr_arena *arena,
                                               int32_t **ret, size_t *ret_n, orr_error *err);
/* Bytes of a token, not NUL-terminated; special tokens: their names with `special`, else nothing.
 * INVALID: no such token. */
ORR_API ORR_MUST_CHECK orr_status orr_token_text(const orr_tokenizer *tokenizer, int32_t token,
                                                 bool special, const char **ret, size_t *ret_len,
                                                 orr_error *err);
/* Text of tokens, in the arena, NUL-terminated: SentencePiece without the space that it put first.
 */
ORR_API ORR_MUST_CHECK orr_status orr_detokenize(const orr_tokenizer *tokenizer,
                                                 const int32_t *tokens, size_t n, orr_arena *arena,
                                                 const char **ret, size_t *ret_len, orr_error *err);
/* Text as it comes, token by token: gives out whole UTF-8 characters only, and U+FFFD for bytes
 * that belong to none. Token -1 is the end: what was held comes out. LIMIT: no room, nothing was
 * taken. */
typedef struct orr_token_stream {
    const orr_tokenizer *tokenizer;
    char held[64];
    size_t n_held;
    bool begun;
} orr_token_stream;
ORR_API ORR_MUST_CHECK orr_status orr_token_stream_next(orr_token_stream *stream, int32_t token,
                                                        char *ret, size_t room, size_t *ret_len,
                                                        orr_error *err);

/* A conversation, as models were trained to read it: the tokens of the turns, up to where the
 * assistant's answer begins. `targets` (may be NULL), shape (*ret_n): true for the tokens of the
 * assistant's turns, which training learns from. Names of special tokens in what is said are text.
 * UNSUPPORTED: a tokenizer without a known style; INVALID: turns that Llama 2 has no form for. */
typedef struct orr_chat_message {
    const char *role; /* "system", "user", "assistant", "ipython" */
    const char *text;
} orr_chat_message;
ORR_API ORR_MUST_CHECK orr_status orr_chat_tokens(const orr_tokenizer *tokenizer,
                                                  const orr_chat_message *turns, size_t n,
                                                  bool answer, orr_arena *arena, int32_t **ret,
                                                  bool **ret_targets, size_t *ret_n,
                                                  orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_TEXT_H */
