/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/json/base64.h"

/* Formats: NumPy Enhancement Proposal 1 (.npy, versions 1 to 3); vLLM's choices[].routed_experts
 * (from 0.22, base64 of .npy; 0.21: nested lists). */
enum { MOST_HEADER = 4096 };

void orr_route_tensor_done(orr_route_tensor *tensor)
{
    orr_array_done(&tensor->value);
    *tensor = (orr_route_tensor){0};
}

/* --- nested lists ----------------------------------------------------------------------------- */

typedef struct list_scan {
    orr_route_tensor *to;
    uint32_t depth, leaf;      /* of brackets; of numbers, 0: none yet */
    uint64_t layers, in_layer; /* of the token; numbers of the layer */
} list_scan;

static orr_status ragged(orr_error *err)
{
    return orr_fail(err, ORR_PARSE,
                    "lists of different lengths where (tokens, layers, K) is wanted");
}

/* A list of numbers, or of layers, ends. */
static orr_status end_list(list_scan *s, orr_error *err)
{
    orr_route_tensor *to = s->to;
    if (s->leaf > 0 && s->depth == s->leaf) {
        to->top_k = to->top_k == 0 ? (uint32_t)s->in_layer : to->top_k;
        if (s->in_layer == 0 || s->in_layer != to->top_k)
            return ragged(err);
        s->in_layer = 0;
        s->layers++;
    } else if (s->leaf > 0 && s->depth + 1 == s->leaf) {
        to->layers = to->layers == 0 ? (uint32_t)s->layers : to->layers;
        if (s->layers == 0 || s->layers != to->layers)
            return ragged(err);
        s->layers = 0;
        to->tokens++;
    }
    s->depth--;
    return ORR_OK;
}

static orr_status add_number(list_scan *s, int64_t value, orr_error *err)
{
    s->leaf = s->leaf == 0 ? s->depth : s->leaf;
    if (s->depth != s->leaf || s->leaf < 2 || s->leaf > 3)
        return ragged(err);
    s->in_layer++;
    return orr_array_push(&s->to->value, value) ? ORR_OK : orr_fail_memory(err);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A whole number of up to 18 digits; *at moves behind it. Experts are never written as 1e2. */
static bool scan_number(orr_text text, size_t *at, int64_t *ret)
{
    const bool minus = text.at[*at] == '-';
    const size_t begin = *at + minus;
    size_t i = begin;
    int64_t value = 0;
    for (; i < text.n && is_digit(text.at[i]) && i < begin + 18; i++)
        value = 10 * value + (text.at[i] - '0');
    *at = i;
    *ret = minus ? -value : value;
    return i > begin && (i == text.n || (text.at[i] != '.' && text.at[i] != 'e' &&
                                         text.at[i] != 'E' && !is_digit(text.at[i])));
}

/* The text is valid JSON. */
static orr_status scan_lists(orr_text text, orr_route_tensor *to, orr_error *err)
{
    list_scan s = {.to = to};
    for (size_t i = 0; i < text.n;) {
        const char c = text.at[i];
        int64_t value;
        if (is_digit(c) || c == '-') {
            if (!scan_number(text, &i, &value))
                return orr_fail(err, ORR_PARSE, "an expert is no whole number");
            ORR_TRY(add_number(&s, value, err));
            continue;
        }
        if (c == '[')
            s.depth++;
        else if (c == ']')
            ORR_TRY(end_list(&s, err));
        else if (c != ',' && c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return orr_fail(err, ORR_PARSE, "'%c' in lists of experts", c);
        i++;
    }
    return to->tokens > 0 || to->value.n == 0 ? ORR_OK : ragged(err);
}

/* --- bytes ------------------------------------------------------------------------------------ */

typedef struct element_type {
    const char *numpy, *name;
    uint8_t bytes;
    bool is_signed;
} element_type;
static const element_type types[] = {
    {"|u1", "uint8", 1, false}, {"<u2", "uint16", 2, false}, {"<u4", "uint32", 4, false},
    {"|i1", "int8", 1, true},   {"<i2", "int16", 2, true},   {"<i4", "int32", 4, true},
    {"<i8", "int64", 8, true},
};

static const element_type *type_named(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((strlen(types[i].numpy) == n && memcmp(types[i].numpy, name, n) == 0) ||
            (strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0))
            return &types[i];
    return NULL;
}

static int64_t element(const element_type *type, const uint8_t *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, type->bytes);
    const uint32_t unused = 64 - 8 * (uint32_t)type->bytes;
    return type->is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

static orr_status take_bytes(const element_type *type, const uint64_t shape[3], const uint8_t *at,
                             size_t n, orr_route_tensor *to, orr_error *err)
{
    uint64_t elements = 0, bytes = 0;
    if (type == NULL)
        return orr_fail(err, ORR_PARSE, "experts are no array of whole numbers");
    if (shape[1] > UINT32_MAX || shape[2] > UINT32_MAX ||
        __builtin_mul_overflow(shape[1], shape[2], &elements) ||
        __builtin_mul_overflow(elements, shape[0], &elements) ||
        __builtin_mul_overflow(elements, type->bytes, &bytes) || bytes != n)
        return orr_fail(err, ORR_PARSE, "%zu bytes for experts of shape (%llu, %llu, %llu)", n,
                        (unsigned long long)shape[0], (unsigned long long)shape[1],
                        (unsigned long long)shape[2]);
    if (!orr_array_reserve(&to->value, elements))
        return orr_fail_memory(err);
    for (uint64_t i = 0; i < elements; i++)
        to->value.at[i] = element(type, at + i * type->bytes);
    to->value.n = elements;
    to->tokens = elements > 0 ? shape[0] : 0;
    to->layers = (uint32_t)shape[1];
    to->top_k = (uint32_t)shape[2];
    return ORR_OK;
}

/* The text behind a key of a .npy header, "{'descr': '|u1', 'fortran_order': False, ..}". */
static const char *behind(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    return at != NULL ? at + strlen(key) + strspn(at + strlen(key), ": ") : NULL;
}

static bool parse_shape(const char *at, uint64_t shape[3])
{
    uint64_t dims[3];
    uint32_t n = 0;
    if (at == NULL || *at++ != '(')
        return false;
    for (; *at >= '0' && *at <= '9'; n++) {
        char *end;
        if (n == 3)
            return false;
        dims[n] = strtoull(at, &end, 10);
        at = end + strspn(end, ", ");
    }
    if (n < 2 || *at != ')')
        return false;
    shape[0] = n == 3 ? dims[0] : 1;
    shape[1] = dims[n - 2];
    shape[2] = dims[n - 1];
    return true;
}

static orr_status take_npy(const uint8_t *at, size_t n, orr_route_tensor *to, orr_error *err)
{
    char header[MOST_HEADER + 1];
    if (n < 12 || memcmp(at, "\x93NUMPY", 6) != 0)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "experts in base64 without a shape: lists, .npy, or an object with shape, "
                        "dtype and data are read");
    const size_t from = at[6] == 1 ? 10 : 12;
    const size_t length =
        at[6] == 1 ? (size_t)(at[8] | at[9] << 8)
                   : at[8] | (size_t)at[9] << 8 | (size_t)at[10] << 16 | (size_t)at[11] << 24;
    if (length > MOST_HEADER || length > n - from)
        return orr_fail(err, ORR_PARSE, "the header of the .npy file is cut off");
    memcpy(header, at + from, length);
    header[length] = '\0';
    const char *type = behind(header, "'descr'"), *order = behind(header, "'fortran_order'");
    uint64_t shape[3];
    if (type == NULL || *type != '\'' || order == NULL || strncmp(order, "False", 5) != 0 ||
        !parse_shape(behind(header, "'shape'"), shape))
        return orr_fail(err, ORR_PARSE, "the .npy file has no array (tokens, layers, K)");
    return take_bytes(type_named(type + 1, strcspn(type + 1, "'")), shape, at + from + length,
                      n - from - length, to, err);
}

/* Bytes of a text in base64; the caller frees them. */
static orr_status decode(orr_text text, uint8_t **ret, size_t *ret_n, orr_error *err)
{
    uint8_t *bytes = orr_malloc(text.n / 4 * 3 + 1);
    if (bytes == NULL)
        return orr_fail_memory(err);
    if (!orr_base64_read(text, bytes, ret_n)) {
        orr_free(bytes);
        return orr_fail(err, ORR_PARSE, "experts are neither lists nor base64");
    }
    *ret = bytes;
    return ORR_OK;
}

/* --- values ----------------------------------------------------------------------------------- */

static orr_status read_shape(orr_json *json, uint64_t shape[3], orr_error *err)
{
    orr_status status;
    uint64_t dims[3] = {0};
    uint32_t n = 0;
    ORR_TRY(orr_json_enter_array(json, err));
    while (orr_json_next_element(json, &status, err)) {
        int64_t dim;
        bool is;
        ORR_TRY(orr_json_int64(json, &dim, &is, err));
        if (!is || dim < 0 || n == 3)
            return orr_fail(err, ORR_PARSE, "the shape of experts is (tokens, layers, K)");
        dims[n++] = (uint64_t)dim;
    }
    ORR_TRY(status);
    if (n < 2)
        return orr_fail(err, ORR_PARSE, "the shape of experts is (tokens, layers, K)");
    shape[0] = n == 3 ? dims[0] : 1;
    shape[1] = dims[n - 2];
    shape[2] = dims[n - 1];
    return ORR_OK;
}

typedef struct described {
    uint64_t shape[3];
    const element_type *type;
    uint8_t *bytes;
    size_t n;
} described;

static orr_status read_key(orr_json *json, orr_text key, described *d, orr_error *err)
{
    orr_text text;
    bool is;
    const bool shape = orr_text_is(key, "shape"), dtype = orr_text_is(key, "dtype");
    if (shape)
        return read_shape(json, d->shape, err);
    if (!dtype && (!orr_text_is(key, "data") || d->bytes != NULL))
        return orr_json_skip(json, err);
    ORR_TRY(orr_json_text(json, &text, &is, err));
    if (is && dtype)
        d->type = type_named(text.at, text.n);
    return is && !dtype ? decode(text, &d->bytes, &d->n, err) : ORR_OK;
}

static orr_status read_described(orr_json *json, orr_route_tensor *to, orr_error *err)
{
    described d = {0};
    orr_text key;
    orr_status status = ORR_OK, done = ORR_OK;
    while (done == ORR_OK && orr_json_next_key(json, &key, &status, err))
        done = read_key(json, key, &d, err);
    status = done != ORR_OK ? done : status;
    if (status == ORR_OK)
        status = take_bytes(d.type, d.shape, d.bytes, d.n, to, err);
    orr_free(d.bytes);
    return status;
}

static orr_status take_text(orr_text text, orr_route_tensor *to, orr_error *err)
{
    uint8_t *bytes;
    size_t n;
    ORR_TRY(decode(text, &bytes, &n, err));
    const orr_status status = take_npy(bytes, n, to, err);
    orr_free(bytes);
    return status;
}

/* An object in raw text is read by a reader of its own. */
static orr_status read_object(orr_text raw, orr_route_tensor *to, orr_error *err)
{
    orr_stream *stream;
    orr_json *json = NULL;
    ORR_TRY(orr_stream_open_memory(raw.at, raw.n, &stream, err));
    orr_status status = orr_json_new(stream, false, &json, err);
    if (status == ORR_OK)
        status = orr_json_enter_object(json, err);
    if (status == ORR_OK)
        status = read_described(json, to, err);
    orr_json_free(json);
    orr_stream_close(stream);
    return status;
}

/* Values are read as raw text: lists are then scanned at many times the speed of a token after
 * another. */
orr_status orr_route_tensor_read(orr_json *json, orr_route_tensor *ret, orr_error *err)
{
    orr_text raw;
    ORR_TRY(orr_json_raw(json, &raw, err));
    const unsigned long long begin = orr_json_byte_pos(json) - raw.n;
    orr_route_tensor to = {.value = ret->value};
    to.value.n = 0;
    to.there = *raw.at != 'n';
    orr_status status = ORR_OK;
    if (*raw.at == '[')
        status = scan_lists(raw, &to, err);
    else if (*raw.at == '{')
        status = read_object(raw, &to, err);
    else if (*raw.at == '"')
        status = take_text((orr_text){raw.at + 1, raw.n - 2}, &to, err);
    else if (to.there)
        status = orr_fail(err, ORR_PARSE, "experts are neither lists nor base64");
    *ret = to;
    if (status == ORR_PARSE && err != NULL) {
        char place[40];
        (void)snprintf(place, sizeof place, "at byte %llu", begin);
        orr_error_prefix(err, place);
        err->byte_pos = begin;
    }
    return status;
}
