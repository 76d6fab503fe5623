/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/data/jsonl.h"

/* Datasets of conversations (SFT), preference pairs (DPO) and prompts (RL). */

/* Whether token i + 1, the target after token i, is the assistant's. Everything after the end is
 * padding. */
static bool counts(const orr_conversation *t, int64_t i)
{
    return i + 1 < t->n && t->targets[i + 1];
}

static void write_talk(const orr_conversation *t, int64_t tokens, const orr_dataset_sample *ret)
{
    for (int64_t i = 0; i < tokens; i++) {
        ret->tokens[i] = i < t->n ? t->tokens[i] : 0;
        ret->targets[i] = i + 1 < t->n ? t->tokens[i + 1] : 0;
        ret->weights[i] = counts(t, i) ? 1 : 0;
    }
}

static int64_t count_talk(const orr_conversation *t, int64_t tokens)
{
    int64_t n = 0;
    for (int64_t i = 0; i < tokens; i++)
        n += counts(t, i);
    return n;
}

static void fill(const orr_dataset *self, uint64_t index, const orr_dataset_sample *ret)
{
    write_talk((const orr_conversation *)self->ctx + index, self->tokens, ret);
}

static int64_t counted(const orr_dataset *self, uint64_t index)
{
    return count_talk((const orr_conversation *)self->ctx + index, self->tokens);
}

static void fill_pair(const orr_dataset *self, uint64_t index, const orr_dataset_sample *ret)
{
    const orr_conversation *pair = (const orr_conversation *)self->ctx + 2 * index;
    const int64_t n = self->tokens / 2;
    const orr_dataset_sample other = {ret->tokens + n, ret->targets + n, ret->weights + n};
    write_talk(&pair[0], n, ret);
    write_talk(&pair[1], n, &other);
}

static int64_t count_pair(const orr_dataset *self, uint64_t index)
{
    const orr_conversation *pair = (const orr_conversation *)self->ctx + 2 * index;
    return count_talk(&pair[0], self->tokens / 2) + count_talk(&pair[1], self->tokens / 2);
}

static void fill_prompt(const orr_dataset *self, uint64_t index, const orr_dataset_sample *ret)
{
    const orr_conversation *t = (const orr_conversation *)self->ctx + index;
    for (int64_t i = 0; i < self->tokens; i++) {
        ret->tokens[i] = i < t->n ? t->tokens[i] : 0;
        ret->targets[i] = 0;
        ret->weights[i] = i < t->n ? 1 : 0;
    }
}

static int64_t count_prompt(const orr_dataset *self, uint64_t index)
{
    return ((const orr_conversation *)self->ctx + index)->n;
}

static orr_status finish_prompts(const orr_conversations *from, orr_dataset *b, const char *path,
                                 orr_error *err)
{
    orr_conversation *talks = orr_arena_array(b->arena, orr_conversation, from->n);
    if (talks == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < from->n; i++)
        if (from->at[i].n > 0 && from->at[i].n < b->tokens)
            talks[b->n++] = from->at[i];
    if (b->n == 0)
        return orr_fail(err, ORR_INVALID, "%s: no prompt of less than %lld tokens", path,
                        (long long)b->tokens);
    b->ctx = talks;
    b->fill = fill_prompt;
    b->counted = count_prompt;
    return ORR_OK;
}

/* Keeps pairs of which both answers still have tokens. */
static orr_status finish_pairs(const orr_conversations *from, orr_dataset *b, const char *path,
                               orr_error *err)
{
    const int64_t tokens = b->tokens;
    orr_conversation *talks = orr_arena_array(b->arena, orr_conversation, from->n);
    if (talks == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i + 1 < from->n; i += 2)
        if (count_talk(&from->at[i], tokens) > 0 && count_talk(&from->at[i + 1], tokens) > 0)
            memcpy(&talks[2 * b->n++], &from->at[i], 2 * sizeof *talks);
    if (b->n == 0)
        return orr_fail(err, ORR_INVALID,
                        "%s: no pair has two answers within the first %lld tokens", path,
                        (long long)tokens);
    b->ctx = talks;
    b->tokens = 2 * tokens;
    b->fill = fill_pair;
    b->counted = count_pair;
    return ORR_OK;
}

static orr_status finish(const orr_conversations *from, orr_dataset *b, const char *path,
                         orr_error *err)
{
    uint64_t learned = 0;
    orr_conversation *talks = orr_arena_array(b->arena, orr_conversation, from->n);
    if (talks == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < from->n;
         i++) { /* a conversation cut before any answer teaches nothing */
        talks[learned] = from->at[i];
        b->ctx = talks;
        learned += counted(b, learned) > 0;
    }
    if (learned == 0)
        return orr_fail(err, ORR_INVALID,
                        "%s: no conversation has an answer within its first %lld tokens", path,
                        (long long)b->tokens);
    b->n = learned;
    b->fill = fill;
    b->counted = counted;
    return ORR_OK;
}

static orr_status finish_all(const orr_conversations *from, orr_jsonl_kind lines, orr_dataset *b,
                             const char *path, orr_error *err)
{
    switch (lines) {
    case ORR_JSONL_PREFERENCES:
        return finish_pairs(from, b, path, err);
    case ORR_JSONL_PROMPTS:
        return finish_prompts(from, b, path, err);
    default:
        return finish(from, b, path, err);
    }
}

static orr_status read_batches(const orr_dataset_options *options, orr_jsonl_kind lines,
                               orr_dataset **ret, orr_error *err)
{
    static const char *const names[] = {"talk", "pairs", "prompts"};
    orr_dataset *b;
    orr_conversations talks = {0};
    ORR_TRY(orr_dataset_new(names[lines], options, &b, err));
    orr_status status = orr_jsonl_read(options, lines, b->arena, &talks, err);
    if (status == ORR_OK)
        status = finish_all(&talks, lines, b, options->path, err);
    orr_array_done(&talks);
    if (status == ORR_OK)
        *ret = b;
    else
        orr_dataset_free(b);
    return status;
}

orr_status orr_dataset_conversations(const orr_dataset_options *options, orr_dataset **ret,
                                     orr_error *err)
{
    return read_batches(options, ORR_JSONL_CONVERSATIONS, ret, err);
}

orr_status orr_dataset_preferences(const orr_dataset_options *options, orr_dataset **ret,
                                   orr_error *err)
{
    return read_batches(options, ORR_JSONL_PREFERENCES, ret, err);
}

orr_status orr_dataset_prompts(const orr_dataset_options *options, orr_dataset **ret,
                               orr_error *err)
{
    return read_batches(options, ORR_JSONL_PROMPTS, ret, err);
}
