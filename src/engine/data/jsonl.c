/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/jsonl.h"

#include <stdio.h>
#include <string.h>

#include "io/json/reader.h"

/* Reads conversations, preference pairs and prompts from JSON lines. */

typedef struct reader {
    const orr_dataset_options *options;
    orr_arena *arena;
    orr_jsonl_kind lines;
    orr_conversations talks;
    /* of a line: */
    orr_array(orr_chat_message) messages;
    const char *prompt, *completion, *chosen, *rejected;
} reader;

typedef struct pieces {
    orr_array(int32_t) tokens;
    orr_array(bool) targets;
} pieces;

static orr_status add_tokens(reader *r, pieces *p, const char *text, bool target, orr_error *err)
{
    int32_t *tokens;
    size_t n;
    ORR_TRY(orr_dataset_tokenize(r->options, text, strlen(text), r->arena, &tokens, &n, err));
    for (size_t i = 0; i < n; i++)
        if (!orr_array_push(&p->tokens, tokens[i]) || !orr_array_push(&p->targets, target))
            return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status add_end(reader *r, pieces *p, orr_error *err)
{
    const int32_t end = orr_dataset_end_token(r->options);
    if (end >= 0 && (!orr_array_push(&p->tokens, end) || !orr_array_push(&p->targets, true)))
        return orr_fail_memory(err);
    return ORR_OK;
}

/* Without a chat template in the tokenizer, a conversation is written as "user: ...", a line per
 * message. */
static orr_status write_messages(reader *r, pieces *p, orr_error *err)
{
    for (size_t i = 0; i < r->messages.n; i++) {
        const orr_chat_message *turn = &r->messages.at[i];
        const bool answer = strcmp(turn->role, "assistant") == 0;
        ORR_TRY(add_tokens(r, p, turn->role, false, err));
        ORR_TRY(add_tokens(r, p, ": ", false, err));
        ORR_TRY(add_tokens(r, p, turn->text, answer, err));
        if (answer)
            ORR_TRY(add_end(r, p, err));
        ORR_TRY(add_tokens(r, p, "\n", false, err));
    }
    return ORR_OK;
}

static orr_status write_pair(reader *r, pieces *p, orr_error *err)
{
    ORR_TRY(add_tokens(r, p, r->prompt, false, err));
    ORR_TRY(add_tokens(r, p, r->completion, true, err));
    return add_end(r, p, err);
}

static bool has_style(const orr_dataset_options *options)
{
    return options->tokenizer != NULL &&
           orr_tokenizer_info_of(options->tokenizer)->style[0] != '\0';
}

static orr_status keep(reader *r, const int32_t *tokens, const bool *targets, size_t n,
                       orr_error *err)
{
    orr_conversation t = {orr_arena_array(r->arena, int32_t, n), orr_arena_array(r->arena, bool, n),
                          (int64_t)n};
    if (t.tokens == NULL || t.targets == NULL)
        return orr_fail_memory(err);
    if (n > 0) {
        memcpy(t.tokens, tokens, n * sizeof *tokens);
        memcpy(t.targets, targets, n * sizeof *targets);
    }
    return orr_array_push(&r->talks, t) ? ORR_OK : orr_fail_memory(err);
}

static orr_status keep_line(reader *r, orr_error *err)
{
    pieces p = {0};
    orr_status status;
    if (r->messages.n > 0 && has_style(r->options)) {
        int32_t *tokens;
        bool *targets;
        size_t n;
        ORR_TRY(orr_chat_tokens(r->options->tokenizer, r->messages.at, r->messages.n, false,
                                r->arena, &tokens, &targets, &n, err));
        return keep(r, tokens, targets, n, err);
    }
    status = r->messages.n > 0 ? write_messages(r, &p, err) : write_pair(r, &p, err);
    if (status == ORR_OK)
        status = keep(r, p.tokens.at, p.targets.at, p.tokens.n, err);
    orr_array_done(&p.tokens);
    orr_array_done(&p.targets);
    return status;
}

/* The same prompt with each of two answers. */
static orr_status keep_pair(reader *r, orr_error *err)
{
    const char *const answers[] = {r->chosen, r->rejected};
    if (r->prompt == NULL || r->chosen == NULL || r->rejected == NULL)
        return orr_fail(err, ORR_INVALID, "a line has \"prompt\", \"chosen\" and \"rejected\"");
    for (int i = 0; i < 2; i++) {
        r->messages.n = 0;
        r->completion = answers[i];
        if (has_style(r->options) &&
            (!orr_array_push(&r->messages,
                             ((orr_chat_message){.role = "user", .text = r->prompt})) ||
             !orr_array_push(&r->messages,
                             ((orr_chat_message){.role = "assistant", .text = answers[i]}))))
            return orr_fail_memory(err);
        ORR_TRY(keep_line(r, err));
    }
    return ORR_OK;
}

static orr_status keep_prompt(reader *r, orr_error *err)
{
    int32_t *tokens;
    size_t n;
    if (r->prompt == NULL)
        return orr_fail(err, ORR_INVALID, "a line has \"prompt\"");
    const orr_chat_message turn = {.role = "user", .text = r->prompt};
    if (has_style(r->options))
        ORR_TRY(orr_chat_tokens(r->options->tokenizer, &turn, 1, true, r->arena, &tokens, NULL, &n,
                                err));
    else
        ORR_TRY(orr_dataset_tokenize(r->options, r->prompt, strlen(r->prompt), r->arena, &tokens,
                                     &n, err));
    bool *targets = orr_arena_array(r->arena, bool, n);
    return targets != NULL ? keep(r, tokens, targets, n, err) : orr_fail_memory(err);
}

static orr_status text_of(reader *r, orr_json *json, const char **ret, orr_error *err)
{
    orr_text text;
    bool is;
    ORR_TRY(orr_json_text(json, &text, &is, err));
    if (!is)
        return orr_fail(err, ORR_INVALID, "text is expected");
    *ret = orr_arena_strndup(r->arena, text.at, text.n);
    return *ret == NULL ? orr_fail_memory(err) : ORR_OK;
}

static orr_status read_turn(reader *r, orr_json *json, orr_error *err)
{
    orr_chat_message turn = {0};
    orr_status status = ORR_OK;
    orr_text key;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        if (orr_text_is(key, "role"))
            ORR_TRY(text_of(r, json, &turn.role, err));
        else if (orr_text_is(key, "content"))
            ORR_TRY(text_of(r, json, &turn.text, err));
        else
            ORR_TRY(orr_json_skip(json, err));
    }
    ORR_TRY(status);
    if (turn.role == NULL || turn.text == NULL)
        return orr_fail(err, ORR_INVALID, "a message has \"role\" and \"content\"");
    return orr_array_push(&r->messages, turn) ? ORR_OK : orr_fail_memory(err);
}

static orr_status read_turns(reader *r, orr_json *json, orr_error *err)
{
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_enter_array(json, err));
    while (orr_json_next_element(json, &status, err))
        ORR_TRY(read_turn(r, json, err));
    return status;
}

static orr_status read_object(reader *r, orr_json *json, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_text key;
    r->messages.n = 0;
    r->prompt = r->completion = r->chosen = r->rejected = NULL;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        if (orr_text_is(key, "messages"))
            ORR_TRY(read_turns(r, json, err));
        else if (orr_text_is(key, "prompt"))
            ORR_TRY(text_of(r, json, &r->prompt, err));
        else if (orr_text_is(key, "completion"))
            ORR_TRY(text_of(r, json, &r->completion, err));
        else if (orr_text_is(key, "chosen") && r->lines == ORR_JSONL_PREFERENCES)
            ORR_TRY(text_of(r, json, &r->chosen, err));
        else if (orr_text_is(key, "rejected") && r->lines == ORR_JSONL_PREFERENCES)
            ORR_TRY(text_of(r, json, &r->rejected, err));
        else
            ORR_TRY(orr_json_skip(json, err));
    }
    ORR_TRY(status);
    if (r->lines == ORR_JSONL_PREFERENCES)
        return keep_pair(r, err);
    if (r->lines == ORR_JSONL_PROMPTS)
        return keep_prompt(r, err);
    if (r->messages.n == 0 && (r->prompt == NULL || r->completion == NULL))
        return orr_fail(err, ORR_INVALID,
                        "a line has \"messages\", or \"prompt\" and \"completion\"");
    return keep_line(r, err);
}

static orr_status read_line(reader *r, const char *line, size_t len, uint64_t number,
                            orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    char where[64];
    orr_status status = orr_stream_open_memory(line, len, &stream, err);
    if (status == ORR_OK)
        status = orr_json_new(stream, false, &json, err);
    if (status == ORR_OK)
        status = read_object(r, json, err);
    if (status == ORR_OK)
        status = orr_json_end(json, err);
    orr_json_free(json);
    orr_stream_close(stream);
    if (status != ORR_OK) {
        snprintf(where, sizeof where, "line %llu", (unsigned long long)number);
        orr_error_prefix(err, where);
    }
    return status;
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static orr_status read_lines(reader *r, const char *text, size_t len, orr_error *err)
{
    uint64_t number = 1;
    for (size_t at = 0; at < len; number++) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t n = end != NULL ? (size_t)(end - text) - at : len - at;
        if (!is_blank(text + at, n))
            ORR_TRY(read_line(r, text + at, n, number, err));
        at += n + 1;
    }
    return ORR_OK;
}

orr_status orr_jsonl_read(const orr_dataset_options *options, orr_jsonl_kind lines,
                          orr_arena *arena, orr_conversations *ret, orr_error *err)
{
    const char *text;
    size_t len;
    reader r = {.options = options, .arena = arena, .lines = lines};
    ORR_TRY(orr_dataset_read_file(options->path, arena, &text, &len, err));
    const orr_status status = read_lines(&r, text, len, err);
    orr_array_done(&r.messages);
    if (status == ORR_OK) {
        *ret = r.talks;
        return ORR_OK;
    }
    orr_array_done(&r.talks);
    orr_error_prefix(err, options->path);
    return status;
}
