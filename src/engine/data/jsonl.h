/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_DATA_JSONL_H
#define ORR_ENGINE_DATA_JSONL_H

#include "base/array.h"
#include "engine/data/dataset.h"

/* JSON lines as tokens: for conversations.c. */
typedef struct orr_conversation {
    int32_t *tokens;
    bool *targets; /* of each token: does it count in the loss? */
    int64_t n;
} orr_conversation;
typedef orr_array(orr_conversation) orr_conversations;

/* What a line is. Conversations of pairs are two in a row. */
typedef enum orr_jsonl_kind {
    ORR_JSONL_CONVERSATIONS,
    ORR_JSONL_PREFERENCES,
    ORR_JSONL_PROMPTS
} orr_jsonl_kind;

/* Tokens in the arena; *ret is the caller's to free. Errors: IO; PARSE and INVALID with file and
 * line. */
orr_status orr_jsonl_read(const orr_dataset_options *options, orr_jsonl_kind lines,
                          orr_arena *arena, orr_conversations *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_DATA_JSONL_H */
