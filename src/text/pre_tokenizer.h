/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEXT_SPLIT_H
#define ORR_TEXT_SPLIT_H

#include "io/json/reader.h"

/* How text is cut into the pieces that are merged on their own. The names are those of the models
 * whose pattern it is; the patterns stand in split.c. */
typedef enum orr_split {
    ORR_SPLIT_NONE,
    ORR_SPLIT_GPT2,
    ORR_SPLIT_LLAMA3, /* and of cl100k_base, but for its possessive forms */
    ORR_SPLIT_QWEN2,
    ORR_SPLIT_O200K,  /* Llama 4, GPT-4o */
    ORR_SPLIT_WORDS   /* before each U+2581, which is written for a space */
} orr_split;

/* Bytes of the first piece of at[0 .. left), left > 0. */
size_t orr_split_next(orr_split split, const char *at, size_t left);
/* The split of a pattern as tokenizer.json writes it. False: none is known. */
bool orr_split_of_pattern(orr_text pattern, orr_split *ret);

#endif /* ORR_TEXT_SPLIT_H */
