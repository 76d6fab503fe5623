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

/* Tokenizers: text to tokens and back. Immutable once read: any number of threads may share one. */
typedef struct orr_tokenizer orr_tokenizer;
typedef enum orr_tokenizer_kind {
    ORR_TOKENIZER_SENTENCEPIECE, /* tokenizer.model of Llama 2: protobuf */
    ORR_TOKENIZER_TIKTOKEN,      /* tokenizer.model of Llama 3 and 4: lines of base64 and rank */
    ORR_TOKENIZER_JSON,          /* tokenizer.json of Hugging Face: BPE, byte-level or Metaspace */
    ORR_TOKENIZER_GGUF,          /* in a GGUF file: orr_weights_tokenizer() */
    ORR_TOKENIZER_BYTES /* 256 byte tokens and end of text: for models without a tokenizer */
} orr_tokenizer_kind;
enum { ORR_STOP_TOKENS = 8 };
typedef struct orr_tokenizer_info {
    uint8_t kind;
    uint32_t vocab;                /* ids are below it */
    int32_t bos, eos, pad;         /* -1: none */
    int32_t stop[ORR_STOP_TOKENS]; /* shape (n_stop): tokens that end generation */
    uint32_t n_stop;
    bool adds_bos;
    const char *style; /* "llama2", "llama3", "llama4", "" */
} orr_tokenizer_info;
/* Opens a file, or the tokenizer of a model's folder (tokenizer.json before tokenizer.model; stop
 * tokens also from generation_config.json). NULL: BYTES. Errors: IO; PARSE with the line or byte;
 * UNSUPPORTED: an unknown kind of model, pre-tokenizer or normalizer, by name; LIMIT; NOT_FOUND:
 * the folder has none. */
ORR_API ORR_MUST_CHECK orr_status orr_tokenizer_open(const char *path, orr_tokenizer **ret,
                                                     orr_error *err);
ORR_API void orr_tokenizer_close(orr_tokenizer *tokenizer); /* NULL is allowed */
ORR_API const orr_tokenizer_info *orr_tokenizer_info_of(const orr_tokenizer *tokenizer);

/* Encodes UTF-8 (other bytes as they are) to tokens, in the arena. `special`: names of special
 * tokens in the text become these tokens; otherwise they are plain text. Time n log n in bytes, for
 * any text. Errors: INVALID: over 512 MiB; UNSUPPORTED: the tokenizer requires normalization form C
 * (Qwen2) and the text may not be in it; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_tokenize(const orr_tokenizer *tokenizer, const char *text,
                                               size_t len, bool bos, bool special, orr_arena *arena,
                                               int32_t **ret, size_t *ret_n, orr_error *err);
/* Bytes of a token, not NUL-terminated; for special tokens their names if `special`, else nothing.
 * INVALID: no such token. */
ORR_API ORR_MUST_CHECK orr_status orr_token_text(const orr_tokenizer *tokenizer, int32_t token,
                                                 bool special, const char **ret, size_t *ret_len,
                                                 orr_error *err);
/* Decodes tokens to text, in the arena, NUL-terminated, without the space that SentencePiece puts
 * first. */
ORR_API ORR_MUST_CHECK orr_status orr_detokenize(const orr_tokenizer *tokenizer,
                                                 const int32_t *tokens, size_t n, orr_arena *arena,
                                                 const char **ret, size_t *ret_len, orr_error *err);
/* Streaming decoder, token by token: emits only whole UTF-8 characters, and U+FFFD for bytes that
 * form none. Token -1 is the end and flushes what is held. LIMIT: no room; nothing was consumed. */
typedef struct orr_token_stream {
    const orr_tokenizer *tokenizer;
    char held[64];
    size_t n_held;
    bool begun;
} orr_token_stream;
ORR_API ORR_MUST_CHECK orr_status orr_token_stream_next(orr_token_stream *stream, int32_t token,
                                                        char *ret, size_t room, size_t *ret_len,
                                                        orr_error *err);

/* Encodes a conversation by the model's chat template, up to where the assistant's answer begins.
 * `targets` (may be NULL), shape (*ret_n): true for tokens of the assistant's messages, which
 * training learns from. Names of special tokens in messages are plain text. UNSUPPORTED: a
 * tokenizer without a known style; INVALID: a sequence of messages that Llama 2 has no form for. */
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
