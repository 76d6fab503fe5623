/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_PRE_TOKENIZER_H
#define ORR_TEXT_PRE_TOKENIZER_H

#include "io/json/reader.h"

/* Pre-tokenizers: how text is divided into pieces that are merged separately. Named after the
 * models whose patterns they are; the patterns are in pre_tokenizer.c. */
typedef enum orr_pre_tokenizer {
    ORR_PRE_TOKENIZER_NONE,
    ORR_PRE_TOKENIZER_GPT2,
    ORR_PRE_TOKENIZER_LLAMA3, /* and of cl100k_base, but for its possessive forms */
    ORR_PRE_TOKENIZER_QWEN2,
    ORR_PRE_TOKENIZER_O200K,    /* Llama 4, GPT-4o */
    ORR_PRE_TOKENIZER_METASPACE /* splits before each U+2581, which stands for a space */
} orr_pre_tokenizer;

/* Bytes of the first piece of at[0 .. left), left > 0. */
size_t orr_pre_tokenizer_next(orr_pre_tokenizer split, const char *at, size_t left);
/* The pre-tokenizer of a pattern in tokenizer.json. False: unknown. */
bool orr_pre_tokenizer_of_pattern(orr_text pattern, orr_pre_tokenizer *ret);

#endif /* ORR_TEXT_PRE_TOKENIZER_H */
