/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer that a GGUF file has among its metadata: llama.cpp, gguf-py/gguf/constants.py. */
#include <string.h>

#include "text/tokenizer_build.h"
#include "weights/gguf.h"

typedef struct reader {
    const orr_weights *weights;
    orr_arena *arena;
    orr_error *err;
} reader;

#define KEY(name) "tokenizer.ggml." name

static orr_status fail_type(const reader *r, const char *key)
{
    return orr_fail(r->err, ORR_INVALID, "%s: %s is not of the type that it should be",
                    r->weights->path, key);
}

/* An array of texts; none: 0 of them. */
static orr_status texts(const reader *r, const char *key, const orr_text **ret, uint32_t *ret_n)
{
    const orr_gguf_array *array = orr_gguf_array_find(r->weights, key);
    const uint8_t *at;
    if (array == NULL)
        return ORR_OK;
    if (array->type != ORR_GGUF_TEXT || array->n > UINT32_MAX)
        return fail_type(r, key);
    orr_text *list = orr_arena_array(r->arena, orr_text, array->n);
    if (list == NULL)
        return orr_fail_memory(r->err);
    at = array->bytes;
    for (uint64_t i = 0; i < array->n; i++) {
        const size_t left = (size_t)(array->bytes + array->n_bytes - at);
        uint64_t n = UINT64_MAX;
        if (left >= sizeof n)
            memcpy(&n, at, sizeof n);
        if (left < sizeof n || n > left - sizeof n) /* the file was changed since */
            return fail_type(r, key);
        list[i] = (orr_text){(const char *)at + sizeof n, (size_t)n};
        at += sizeof n + n;
    }
    *ret = list;
    *ret_n = (uint32_t)array->n;
    return ORR_OK;
}

/* An array of so many numbers of four bytes, aligned; none: NULL. */
static orr_status numbers(const reader *r, const char *key, orr_gguf_type type, uint32_t n,
                          void *ret)
{
    const orr_gguf_array *array = orr_gguf_array_find(r->weights, key);
    const void **to = ret;
    if (array == NULL)
        return ORR_OK;
    if (array->type != type || array->n != n)
        return fail_type(r, key);
    void *copy = orr_arena_alloc(r->arena, n, 4, 4);
    if (copy == NULL)
        return orr_fail_memory(r->err);
    memcpy(copy, array->bytes, (size_t)n * 4);
    *to = copy;
    return ORR_OK;
}

static orr_status token(const reader *r, const char *key, int32_t *ret)
{
    const char *text = orr_gguf_text(r->weights, key);
    int64_t value;
    *ret = -1;
    if (text == NULL)
        return ORR_OK;
    if (!orr_text_int64((orr_text){text, strlen(text)}, &value) || value < 0 || value > INT32_MAX)
        return fail_type(r, key);
    *ret = (int32_t)value;
    return ORR_OK;
}

static bool flag(const reader *r, const char *key, bool otherwise)
{
    const char *text = orr_gguf_text(r->weights, key);
    return text != NULL ? strcmp(text, "true") == 0 : otherwise;
}

static orr_text word(const reader *r, const char *key)
{
    const char *text = orr_gguf_text(r->weights, key);
    return text != NULL ? (orr_text){text, strlen(text)} : (orr_text){"", 0};
}

static orr_status read_parts(const reader *r, orr_tokenizer_gguf *t)
{
    t->model = word(r, KEY("model"));
    t->pre = word(r, KEY("pre"));
    ORR_TRY(texts(r, KEY("tokens"), &t->tokens, &t->n));
    ORR_TRY(texts(r, KEY("merges"), &t->merges, &t->n_merges));
    if (t->n == 0)
        return orr_fail(r->err, ORR_NOT_FOUND, "%s: has no tokenizer", r->weights->path);
    ORR_TRY(numbers(r, KEY("scores"), ORR_GGUF_F32, t->n, &t->scores));
    ORR_TRY(numbers(r, KEY("token_type"), ORR_GGUF_I32, t->n, &t->types));
    ORR_TRY(token(r, KEY("bos_token_id"), &t->bos));
    ORR_TRY(token(r, KEY("eos_token_id"), &t->eos));
    ORR_TRY(token(r, KEY("eot_token_id"), &t->eot));
    ORR_TRY(token(r, KEY("padding_token_id"), &t->pad));
    ORR_TRY(token(r, KEY("unknown_token_id"), &t->unknown));
    const bool pieces = orr_text_is(t->model, "llama");
    t->adds_bos = flag(r, KEY("add_bos_token"), pieces);
    t->adds_space = flag(r, KEY("add_space_prefix"), pieces);
    return ORR_OK;
}

orr_status orr_weights_tokenizer(const orr_weights *weights, orr_tokenizer **ret, orr_error *err)
{
    const reader r = {weights, orr_arena_new(0, 0), err};
    orr_tokenizer_gguf parts = {0};
    if (r.arena == NULL)
        return orr_fail_memory(err);
    orr_status status = read_parts(&r, &parts);
    if (status == ORR_OK) {
        status = orr_tokenizer_from_gguf(&parts, ret, err);
        if (status != ORR_OK && status != ORR_NO_MEMORY)
            orr_error_prefix(err, weights->path);
    }
    orr_arena_free(r.arena);
    return status;
}
