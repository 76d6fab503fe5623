/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "experts/routes/cell.h"
#include "experts/routes/read.h"
#include "experts/routes/tensor.h"

/* Reader of JSON lines of routes: responses of vLLM and SGLang as they were logged, an object a
 * request. Keys come in any order, so that the tensors of an object are held until it ends. Memory
 * is that of the largest object and of the routes. docs/experts.md names the keys. */
enum { MOST_CHOICES = 1024, NAME_BYTES = 512 };

typedef struct reader {
    orr_route_reading *to;
    orr_json *json;
    orr_route_tensor prompt;
    orr_array(orr_route_tensor) answers; /* the first is also that of objects without a list of
                                          * answers; those of earlier objects are used again */
    uint32_t n_answers;
    char request[NAME_BYTES], kind[NAME_BYTES];
    int64_t token, rank, prompt_tokens; /* -1: is not told */
    int phase;                          /* -1: is not told */
    uint64_t objects;
    orr_array(uint32_t) number, next; /* of layers; by request: position of its next token */
    orr_array(uint16_t) choice;       /* of a token */
    orr_route_cells cells;
    bool begun;
    orr_error *err;
} reader;

static orr_status fail_here(const reader *r, orr_status status)
{
    char place[40];
    (void)snprintf(place, sizeof place, "at byte %llu",
                   (unsigned long long)orr_json_byte_pos(r->json));
    if (r->err != NULL)
        orr_error_prefix(r->err, place);
    return status;
}
#define fail_at(r, status, ...) fail_here((r), orr_fail((r)->err, (status), __VA_ARGS__))

/* --- keys ------------------------------------------------------------------------------------- */

static orr_status read_name(reader *r, char ret[NAME_BYTES])
{
    orr_text text;
    bool is;
    ORR_TRY(orr_json_text(r->json, &text, &is, r->err));
    if (is)
        (void)snprintf(ret, NAME_BYTES, "%.*s", text.n < NAME_BYTES ? (int)text.n : NAME_BYTES - 1,
                       text.at);
    return ORR_OK;
}

static orr_status read_phase(reader *r)
{
    char phase[NAME_BYTES] = "";
    ORR_TRY(read_name(r, phase));
    if (phase[0] != 'p' && phase[0] != 'd')
        return fail_at(r, ORR_PARSE, "'%.40s' is no phase: p or d", phase);
    r->phase = phase[0] == 'p' ? ORR_ROUTE_PREFILL : ORR_ROUTE_DECODE;
    return ORR_OK;
}

static orr_status read_count(reader *r, int64_t limit, int64_t *ret)
{
    int64_t value;
    bool is;
    ORR_TRY(orr_json_int64(r->json, &value, &is, r->err));
    if (is && (value < 0 || value >= limit))
        return fail_at(r, ORR_PARSE, "%lld is not below %lld", (long long)value, (long long)limit);
    *ret = is ? value : *ret;
    return ORR_OK;
}

/* Numbers of the layers, where they are not 0, 1, .. */
static orr_status read_layers(reader *r)
{
    orr_status status;
    r->number.n = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        int64_t layer = -1;
        ORR_TRY(read_count(r, UINT32_MAX, &layer));
        if (layer < 0 || !orr_array_push(&r->number, (uint32_t)layer))
            return layer < 0 ? fail_at(r, ORR_PARSE, "a layer is no number")
                             : orr_fail_memory(r->err);
    }
    return status;
}

/* How many tokens the prompt has, by their list. */
static orr_status count_prompt(reader *r)
{
    orr_json_value value;
    orr_status status;
    ORR_TRY(orr_json_value_next(r->json, &value, r->err));
    if (value.type != ORR_JSON_ARRAY)
        return value.type == ORR_JSON_OBJECT ? fail_at(r, ORR_PARSE, "prompt_token_ids is a list")
                                             : ORR_OK;
    r->prompt_tokens = 0;
    while (orr_json_next_element(r->json, &status, r->err)) {
        ORR_TRY(orr_json_skip(r->json, r->err));
        r->prompt_tokens++;
    }
    return status;
}

static orr_route_tensor *answer_at(reader *r, uint32_t i)
{
    while (r->answers.n <= i)
        if (!orr_array_push(&r->answers, (orr_route_tensor){0}))
            return NULL;
    r->n_answers = i >= r->n_answers ? i + 1 : r->n_answers;
    return &r->answers.at[i];
}

static orr_status read_routes(reader *r, uint32_t answer_index)
{
    orr_route_tensor *a = answer_at(r, answer_index);
    return a != NULL ? orr_route_tensor_read(r->json, a, r->err) : orr_fail_memory(r->err);
}

typedef enum known_key {
    KEY_REQUEST,
    KEY_KIND,
    KEY_PHASE,
    KEY_TOKEN,
    KEY_RANK,
    KEY_LAYERS,
    KEY_PROMPT_IDS,
    KEY_PROMPT_TOKENS,
    KEY_PROMPT_ROUTES,
    KEY_ROUTES,
    KEY_WITHIN,
    KEY_ANSWERS
} known_key;
static const struct {
    const char *name;
    known_key key;
} keys[] = {
    {"request_id", KEY_REQUEST},
    {"request", KEY_REQUEST},
    {"id", KEY_REQUEST},
    {"subject", KEY_KIND},
    {"kind", KEY_KIND},
    {"phase", KEY_PHASE},
    {"token", KEY_TOKEN},
    {"rank", KEY_RANK},
    {"data_parallel_rank", KEY_RANK},
    {"dp_rank", KEY_RANK},
    {"layers", KEY_LAYERS},
    {"prompt_token_ids", KEY_PROMPT_IDS},
    {"prompt_tokens", KEY_PROMPT_TOKENS},
    {"num_prompt_tokens", KEY_PROMPT_TOKENS},
    {"routed_experts", KEY_ROUTES},
    {"prompt_routed_experts", KEY_PROMPT_ROUTES},
    {"experts", KEY_ROUTES},
    {"usage", KEY_WITHIN},
    {"meta_info", KEY_WITHIN},
    {"choices", KEY_ANSWERS},
    {"outputs", KEY_ANSWERS},
};

static orr_status read_known(reader *r, known_key key, uint32_t answer_index)
{
    switch (key) {
    case KEY_REQUEST:
        return read_name(r, r->request);
    case KEY_KIND:
        return read_name(r, r->kind);
    case KEY_PHASE:
        return read_phase(r);
    case KEY_TOKEN:
        return read_count(r, UINT32_MAX, &r->token);
    case KEY_RANK:
        return read_count(r, UINT16_MAX, &r->rank);
    case KEY_LAYERS:
        return read_layers(r);
    case KEY_PROMPT_IDS:
        return count_prompt(r);
    case KEY_PROMPT_TOKENS:
        return read_count(r, UINT32_MAX, &r->prompt_tokens);
    case KEY_PROMPT_ROUTES:
        return orr_route_tensor_read(r->json, &r->prompt, r->err);
    case KEY_ROUTES:
        return read_routes(r, answer_index);
    case KEY_WITHIN:
    case KEY_ANSWERS:
        break;
    }
    return orr_json_skip(r->json, r->err);
}

static int key_of(orr_text text)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (orr_text_equal(text, keys[i].name, strlen(keys[i].name)))
            return (int)keys[i].key;
    return -1;
}

/* Keys of an object within the request's: an answer's (whose name is not the request's), or what
 * stands under "usage" or "meta_info". */
static orr_status read_inner(reader *r, uint32_t answer_index, bool names)
{
    orr_text text;
    orr_status status;
    orr_json_value value;
    ORR_TRY(orr_json_value_next(r->json, &value, r->err));
    if (value.type != ORR_JSON_OBJECT)
        return value.type == ORR_JSON_ARRAY ? fail_at(r, ORR_PARSE, "an object is wanted") : ORR_OK;
    while (orr_json_next_key(r->json, &text, &status, r->err)) {
        const int key = key_of(text);
        const bool skips = key < 0 || key >= KEY_WITHIN || (!names && key <= KEY_KIND);
        ORR_TRY(skips ? orr_json_skip(r->json, r->err)
                      : read_known(r, (known_key)key, answer_index));
    }
    return status;
}

static orr_status read_answers(reader *r)
{
    orr_status status;
    uint32_t i = 0;
    ORR_TRY(orr_json_enter_array(r->json, r->err));
    while (orr_json_next_element(r->json, &status, r->err)) {
        if (i == MOST_CHOICES)
            return fail_at(r, ORR_LIMIT, "more than %d answers of a request", MOST_CHOICES);
        ORR_TRY(read_inner(r, i++, false));
    }
    return status;
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* The first tensor tells layers and K. */
static orr_status begin_tokens(reader *r, const orr_route_tensor *t)
{
    const uint32_t experts = r->to->options->experts;
    for (uint32_t l = 0; r->number.n < t->layers && l < t->layers; l++)
        if (!orr_array_push(&r->number, l))
            return orr_fail_memory(r->err);
    if (r->number.n != t->layers)
        return fail_at(r, ORR_PARSE, "%zu numbers of %u layers", r->number.n, t->layers);
    if (t->top_k > ORR_ROUTE_CHOICES_MAX)
        return fail_at(r, ORR_LIMIT, "%u experts a token: at most %d", t->top_k,
                       ORR_ROUTE_CHOICES_MAX);
    if (experts > 0 && t->top_k > experts)
        return fail_at(r, ORR_INVALID, "%u experts a token, and the model has %u", t->top_k,
                       experts);
    if (!orr_array_reserve(&r->choice, (size_t)t->layers * t->top_k))
        return orr_fail_memory(r->err);
    r->cells.top_k = t->top_k;
    r->cells.experts = experts;
    r->begun = true;
    const orr_status status =
        orr_routes_builder_init(&r->to->builder, r->number.at, t->layers, t->top_k, false, r->err);
    return status == ORR_OK ? ORR_OK : fail_here(r, status);
}

/* The choices of a token; false in *ret_known: they were not recorded. */
static orr_status take_token(reader *r, const int64_t *value, size_t n, bool *ret_known)
{
    *ret_known = true;
    for (size_t i = 0; i < n; i++) {
        if (i % r->cells.top_k == 0)
            orr_route_cell_begin(&r->cells);
        if (value[i] < 0) {
            *ret_known = false;
            return ORR_OK;
        }
        const orr_status status = orr_route_cell_add(&r->cells, (uint64_t)value[i], r->err);
        if (status != ORR_OK)
            return fail_here(r, status);
        r->choice.at[i] = (uint16_t)value[i];
    }
    return ORR_OK;
}

static uint8_t phase_of(const reader *r, bool prompt, uint64_t position)
{
    if (r->phase >= 0)
        return (uint8_t)r->phase;
    if (prompt || r->prompt.there)
        return prompt ? ORR_ROUTE_PREFILL : ORR_ROUTE_DECODE;
    return r->prompt_tokens >= 0 && position >= (uint64_t)r->prompt_tokens ? ORR_ROUTE_DECODE
                                                                           : ORR_ROUTE_PREFILL;
}

/* Pushes the tokens of a tensor from position `first` on, all but those before `from`. */
static orr_status push_tensor(reader *r, const orr_route_tensor *t, bool prompt, uint32_t request,
                              uint64_t first, uint64_t from)
{
    if (t->tokens == 0)
        return ORR_OK;
    if (!r->begun)
        ORR_TRY(begin_tokens(r, t));
    const orr_routes_builder *b = &r->to->builder;
    if (t->layers != b->layers || t->top_k != b->top_k)
        return fail_at(r, ORR_PARSE,
                       "%u layers and %u experts a token, where others have %u and %u", t->layers,
                       t->top_k, b->layers, b->top_k);
    if (first + t->tokens >= UINT32_MAX)
        return fail_at(r, ORR_LIMIT, "a request of more than %u tokens", UINT32_MAX - 1);
    const size_t n = (size_t)t->layers * t->top_k;
    for (uint64_t i = from > first ? from - first : 0; i < t->tokens; i++) {
        bool known;
        ORR_TRY(take_token(r, t->value.at + i * n, n, &known));
        const orr_routes_row row = {.request = request,
                                    .position = (uint32_t)(first + i),
                                    .phase = phase_of(r, prompt, first + i),
                                    .rank = r->rank >= 0 ? (uint16_t)r->rank : UINT16_MAX,
                                    .choice = r->choice.at};
        if (known)
            ORR_TRY(orr_route_reading_push(r->to, &row, r->err));
    }
    return ORR_OK;
}

static orr_status next_position(reader *r, uint32_t request, uint32_t **ret)
{
    while (r->next.n <= request)
        if (!orr_array_push(&r->next, 0))
            return orr_fail_memory(r->err);
    *ret = &r->next.at[request];
    return ORR_OK;
}

/* Further answers of a request have names of their own, and not its prompt, which was computed
 * once. */
static orr_status push_answer(reader *r, uint32_t i)
{
    const orr_text kind = {r->kind, strlen(r->kind)};
    const orr_route_tensor *t = &r->answers.at[i];
    char name[NAME_BYTES + 16];
    uint32_t request, *next;
    const int n = i == 0 ? snprintf(name, sizeof name, "%s", r->request)
                         : snprintf(name, sizeof name, "%s/%u", r->request, i);
    ORR_TRY(
        orr_route_names_add(&r->to->names, kind, (orr_text){name, (size_t)n}, &request, r->err));
    ORR_TRY(next_position(r, request, &next));
    uint64_t first = r->token >= 0 ? (uint64_t)r->token : *next;
    if (i == 0)
        ORR_TRY(push_tensor(r, &r->prompt, true, request, first, 0));
    first += r->prompt.tokens;
    const uint64_t shared =
        i > 0 && !r->prompt.there && r->prompt_tokens > 0 ? (uint64_t)r->prompt_tokens : 0;
    ORR_TRY(push_tensor(r, t, false, request, first, shared));
    r->next.at[request] = (uint32_t)(first + t->tokens);
    return ORR_OK;
}

static orr_status read_object(reader *r)
{
    orr_text text;
    orr_status status;
    r->n_answers = 0;
    r->prompt.there = false;
    r->prompt.tokens = 0;
    r->token = r->rank = r->prompt_tokens = r->phase = -1;
    r->kind[0] = '\0';
    (void)snprintf(r->request, sizeof r->request, "%llu", (unsigned long long)r->objects++);
    for (size_t i = 0; i < r->answers.n; i++) {
        r->answers.at[i].there = false;
        r->answers.at[i].tokens = 0;
    }
    while (orr_json_next_key(r->json, &text, &status, r->err)) {
        const int key = key_of(text);
        ORR_TRY(key < 0              ? orr_json_skip(r->json, r->err)
                : key == KEY_WITHIN  ? read_inner(r, 0, true)
                : key == KEY_ANSWERS ? read_answers(r)
                                     : read_known(r, (known_key)key, 0));
    }
    ORR_TRY(status);
    if (r->prompt.there && answer_at(r, 0) == NULL)
        return orr_fail_memory(r->err);
    for (uint32_t i = 0; i < r->n_answers; i++)
        ORR_TRY(push_answer(r, i));
    return orr_route_reading_progress(r->to, r->err);
}

/* Objects one after the other, or in lists. */
static orr_status read_all(reader *r)
{
    orr_error end = {0};
    orr_json_value value;
    orr_status status;
    while ((status = orr_json_end(r->json, &end)) == ORR_PARSE) {
        ORR_TRY(orr_json_value_next(r->json, &value, r->err));
        if (value.type == ORR_JSON_OBJECT) {
            ORR_TRY(read_object(r));
            continue;
        }
        if (value.type != ORR_JSON_ARRAY)
            return fail_at(r, ORR_PARSE, "an object a request is wanted");
        while (orr_json_next_element(r->json, &status, r->err)) {
            ORR_TRY(orr_json_enter_object(r->json, r->err));
            ORR_TRY(read_object(r));
        }
        ORR_TRY(status);
    }
    if (status != ORR_OK && r->err != NULL)
        *r->err = end;
    return status;
}

orr_status orr_routes_read_json(orr_route_reading *to, orr_error *err)
{
    reader *r = orr_calloc(1, sizeof *r);
    if (r == NULL)
        return orr_fail_memory(err);
    r->to = to;
    r->err = err;
    orr_status status = orr_json_new(to->stream, false, &r->json, err);
    if (status == ORR_OK)
        status = read_all(r);
    orr_json_free(r->json);
    orr_route_tensor_done(&r->prompt);
    for (size_t i = 0; i < r->answers.n; i++)
        orr_route_tensor_done(&r->answers.at[i]);
    orr_array_done(&r->answers);
    orr_array_done(&r->number);
    orr_array_done(&r->next);
    orr_array_done(&r->choice);
    orr_free(r);
    return status;
}
