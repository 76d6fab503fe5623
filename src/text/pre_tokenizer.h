/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_PRE_TOKENIZER_H
#define ORR_TEXT_PRE_TOKENIZER_H

#include "io/json/reader.h"

/* How text is cut into the pieces that are merged on their own. The names are those of the models
 * whose pattern it is; the patterns stand in split.c. */
typedef enum orr_pre_tokenizer {
    ORR_PRE_TOKENIZER_NONE,
    ORR_PRE_TOKENIZER_GPT2,
    ORR_PRE_TOKENIZER_LLAMA3, /* and of cl100k_base, but for its possessive forms */
    ORR_PRE_TOKENIZER_QWEN2,
    ORR_PRE_TOKENIZER_O200K,    /* Llama 4, GPT-4o */
    ORR_PRE_TOKENIZER_METASPACE /* before each U+2581, which is written for a space */
} orr_pre_tokenizer;

/* Bytes of the first piece of at[0 .. left), left > 0. */
size_t orr_pre_tokenizer_next(orr_pre_tokenizer split, const char *at, size_t left);
/* The split of a pattern as tokenizer.json writes it. False: none is known. */
bool orr_pre_tokenizer_of_pattern(orr_text pattern, orr_pre_tokenizer *ret);

#endif /* ORR_TEXT_PRE_TOKENIZER_H */
