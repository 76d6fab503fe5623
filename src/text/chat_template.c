/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/array.h"
#include "text/tokenizer.h"

/* Chat templates. Sources: meta-llama/llama, llama/generation.py (chat_completion) for Llama 2;
 * meta-llama/llama-models, models/llama3/chat_format.py and models/llama4/chat_format.py. */
typedef struct talk {
    const orr_tokenizer *t;
    orr_arena *arena; /* scratch and result */
    orr_array(int32_t) ids;
    orr_array(bool) targets;
    orr_error *err;
} talk;

static orr_status put(talk *k, int32_t id, bool target)
{
    if (id < 0)
        return ORR_OK;
    return orr_array_push(&k->ids, id) && orr_array_push(&k->targets, target)
               ? ORR_OK
               : orr_fail_memory(k->err);
}

/* Names of special tokens in messages are encoded as plain text. */
static orr_status put_text(talk *k, const char *text, size_t len, bool target)
{
    int32_t *ids = NULL;
    size_t n = 0;
    ORR_TRY(orr_tokenize(k->t, text, len, false, false, k->arena, &ids, &n, k->err));
    for (size_t i = 0; i < n; i++)
        ORR_TRY(put(k, ids[i], target));
    return ORR_OK;
}

static orr_status put_name(talk *k, const char *name, bool target)
{
    return put(k, orr_tokenizer_find(k->t, name, strlen(name)), target);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static orr_text stripped(const char *text)
{
    size_t n = strlen(text);
    for (; n > 0 && is_space(*text); n--)
        text++;
    while (n > 0 && is_space(text[n - 1]))
        n--;
    return (orr_text){text, n};
}

/* What begins and ends a message of Llama 3 and similar models. */
typedef struct marks {
    const char *header, *header_end, *turn_end;
} marks;
static const marks llama3_marks = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
static const marks llama4_marks = {"<|header_start|>", "<|header_end|>", "<|eot|>"};

static orr_status put_header(talk *k, const marks *m, const char *role)
{
    ORR_TRY(put_name(k, m->header, false));
    ORR_TRY(put_text(k, role, strlen(role), false));
    ORR_TRY(put_name(k, m->header_end, false));
    return put_text(k, "\n\n", 2, false);
}

static orr_status put_turns(talk *k, const marks *m, const orr_chat_message *turns, size_t n,
                            bool answer)
{
    ORR_TRY(put(k, k->t->facts.bos, false));
    for (size_t i = 0; i < n; i++) {
        const bool target = strcmp(turns[i].role, "assistant") == 0;
        const orr_text text = stripped(turns[i].text);
        ORR_TRY(put_header(k, m, turns[i].role));
        ORR_TRY(put_text(k, text.at, text.n, target));
        ORR_TRY(put_name(k, m->turn_end, target));
    }
    return answer ? put_header(k, m, "assistant") : ORR_OK;
}

static orr_status expect_role(const talk *k, const orr_chat_message *turns, size_t i, size_t n,
                              const char *role)
{
    if (i < n && strcmp(turns[i].role, role) == 0)
        return ORR_OK;
    return orr_fail(k->err, ORR_INVALID, "turn %zu is of %s; Llama 2 wants one of %s there", i + 1,
                    i < n ? turns[i].role : "nobody", role);
}

/* Llama 2: a question, with the system prompt before the first one, and its answer form a text of
 * its own. */
static orr_status put_question(talk *k, const char *system, const char *question)
{
    char *whole = system == NULL
                      ? orr_arena_printf(k->arena, "%s", question)
                      : orr_arena_printf(k->arena, "<<SYS>>\n%s\n<</SYS>>\n\n%s", system, question);
    if (whole == NULL)
        return orr_fail_memory(k->err);
    const orr_text asked = stripped(whole);
    char *text = orr_arena_printf(k->arena, "[INST] %.*s [/INST]", (int)asked.n, asked.at);
    if (text == NULL)
        return orr_fail_memory(k->err);
    ORR_TRY(put(k, k->t->facts.bos, false));
    return put_text(k, text, strlen(text), false);
}

static orr_status put_llama2(talk *k, const orr_chat_message *turns, size_t n, bool answer)
{
    size_t i = 0;
    const char *system = n > 0 && strcmp(turns[0].role, "system") == 0 ? turns[i++].text : NULL;
    while (i < n) {
        ORR_TRY(expect_role(k, turns, i, n, "user"));
        ORR_TRY(put_question(k, system, turns[i++].text));
        system = NULL;
        if (i == n && answer)
            return ORR_OK;
        ORR_TRY(expect_role(k, turns, i, n, "assistant"));
        const orr_text said = stripped(turns[i++].text);
        char *text = orr_arena_printf(k->arena, "%.*s ", (int)said.n, said.at);
        if (text == NULL)
            return orr_fail_memory(k->err);
        ORR_TRY(put_text(k, text, said.n + 1, true));
        ORR_TRY(put(k, k->t->facts.eos, true));
    }
    if (answer)
        return orr_fail(k->err, ORR_INVALID, "there is no question to answer");
    return ORR_OK;
}

static orr_status put_all(talk *k, const orr_chat_message *turns, size_t n, bool answer)
{
    const char *style = k->t->facts.style;
    if (strcmp(style, "llama2") == 0)
        return put_llama2(k, turns, n, answer);
    if (strcmp(style, "llama3") == 0)
        return put_turns(k, &llama3_marks, turns, n, answer);
    if (strcmp(style, "llama4") == 0)
        return put_turns(k, &llama4_marks, turns, n, answer);
    return orr_fail(k->err, ORR_UNSUPPORTED,
                    "how this tokenizer's model reads conversations is not known");
}

orr_status orr_chat_tokens(const orr_tokenizer *tokenizer, const orr_chat_message *turns, size_t n,
                           bool answer, orr_arena *arena, int32_t **ret, bool **ret_targets,
                           size_t *ret_n, orr_error *err)
{
    talk k = {.t = tokenizer, .err = err, .arena = orr_arena_new(0, 0)};
    int32_t *ids = NULL;
    bool *targets = NULL;
    orr_status status = k.arena == NULL ? orr_fail_memory(err) : put_all(&k, turns, n, answer);
    if (status == ORR_OK) {
        ids = orr_arena_array(arena, int32_t, k.ids.n);
        targets = orr_arena_array(arena, bool, k.ids.n);
        if (ids == NULL || targets == NULL)
            status = orr_fail_memory(err);
    }
    if (status == ORR_OK && k.ids.n > 0) {
        memcpy(ids, k.ids.at, k.ids.n * sizeof *ids);
        memcpy(targets, k.targets.at, k.ids.n * sizeof *targets);
    }
    if (status == ORR_OK) {
        *ret = ids;
        *ret_n = k.ids.n;
        if (ret_targets != NULL)
            *ret_targets = targets;
    }
    orr_array_done(&k.ids);
    orr_array_done(&k.targets);
    orr_arena_free(k.arena);
    return status;
}
