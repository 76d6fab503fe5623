/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_DATA_JSONL_H
#define ORR_ENGINE_DATA_JSONL_H

#include "base/array.h"
#include "engine/data/dataset.h"

/* Lines of JSON as tokens: for the file data_talk.c. */
typedef struct orr_conversation {
    int32_t *tokens;
    bool *targets; /* of each token: is it to be learned? */
    int64_t n;
} orr_conversation;
typedef orr_array(orr_conversation) orr_conversations;

/* What a line is. Of pairs, talks stand two and two. */
typedef enum orr_jsonl_kind {
    ORR_JSONL_CONVERSATIONS,
    ORR_JSONL_PREFERENCES,
    ORR_JSONL_PROMPTS
} orr_jsonl_kind;

/* Tokens in the arena; *ret is the caller's to end. Errors: IO; PARSE and INVALID with file and
 * line. */
orr_status orr_jsonl_read(const orr_dataset_options *options, orr_jsonl_kind lines,
                          orr_arena *arena, orr_conversations *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_DATA_JSONL_H */
