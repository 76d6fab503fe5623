/* SPDX-License-Identifier: Apache-2.0 */
/* Reads safetensors headers (github.com/huggingface/safetensors, README, "Format"): 8 bytes N,
 * little-endian; N bytes of JSON, {"name": {"dtype": "F16", "shape": [1, 16], "data_offsets": [0,
 * 32]}, ..., "__metadata__": {"key": "value"}}; then the tensors' data, without gaps. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/json/reader.h"
#include "weights/store.h"

enum { HEADER_AT = 8, MOST_HEADER_BYTES = 100 * 1000 * 1000, MOST_DEPTH = 8 };

typedef struct dtype_name {
    const char *name;
    uint8_t format; /* ORR_ROW_FORMATS: not one of ours */
    uint8_t bits;
} dtype_name;
static const dtype_name DTYPES[] = {
    {"F32", ORR_ROW_FORMAT_FP32, 32},  {"F16", ORR_ROW_FORMAT_FP16, 16},
    {"BF16", ORR_ROW_FORMAT_BF16, 16}, {"F64", ORR_ROW_FORMATS, 64},
    {"I64", ORR_ROW_FORMATS, 64},      {"I32", ORR_ROW_FORMATS, 32},
    {"I16", ORR_ROW_FORMATS, 16},      {"I8", ORR_ROW_FORMATS, 8},
    {"U64", ORR_ROW_FORMATS, 64},      {"U32", ORR_ROW_FORMATS, 32},
    {"U16", ORR_ROW_FORMATS, 16},      {"U8", ORR_ROW_FORMATS, 8},
    {"BOOL", ORR_ROW_FORMATS, 8},      {"C64", ORR_ROW_FORMATS, 64},
    {"F8_E4M3", ORR_ROW_FORMATS, 8},   {"F8_E5M2", ORR_ROW_FORMATS, 8},
    {"F8_E8M0", ORR_ROW_FORMATS, 8},   {"F8_E4M3FNUZ", ORR_ROW_FORMATS, 8},
    {"F4", ORR_ROW_FORMATS, 4},        {"F8_E5M2FNUZ", ORR_ROW_FORMATS, 8},
    {"F6_E2M3", ORR_ROW_FORMATS, 6},   {"F6_E3M2", ORR_ROW_FORMATS, 6},
};

/* A tensor of the header, to be checked against the others. */
typedef struct entry {
    orr_weight weight;
    uint64_t begin, end; /* relative to the end of the header */
    const char *dtype;   /* NULL: missing */
    uint8_t bits;
    bool has_shape, has_offsets;
} entry;
typedef orr_array(entry) entries;

typedef struct header {
    const orr_mapped_file *file;
    orr_weight_store *store;
    orr_json *json;
    uint64_t data; /* start of the tensors' data */
    entries list;
    orr_error *err;
} header;

#define FAIL(h, status, ...)                                                                       \
    orr_fail_byte((h)->err, (status), orr_json_byte_pos((h)->json), __VA_ARGS__)

static orr_status read_dtype(header *h, entry *e)
{
    orr_json_value value;
    ORR_TRY(orr_json_value_next(h->json, &value, h->err));
    for (size_t i = 0; value.type == ORR_JSON_STRING && i < sizeof DTYPES / sizeof *DTYPES; i++) {
        if (orr_text_equal(value.text, DTYPES[i].name, strlen(DTYPES[i].name))) {
            e->weight.format = DTYPES[i].format;
            e->bits = DTYPES[i].bits;
            e->dtype = DTYPES[i].name;
            return ORR_OK;
        }
    }
    return FAIL(h, ORR_INVALID,
                "byte %llu: tensor '%.100s' has the dtype '%.*s', which there is not",
                (unsigned long long)orr_json_byte_pos(h->json), e->weight.name,
                value.type == ORR_JSON_STRING ? (int)(value.text.n < 40 ? value.text.n : 40) : 0,
                value.text.at != NULL ? value.text.at : "");
}

/* Integers of an array, at most `room`. */
static orr_status read_numbers(header *h, const char *name, const char *what, uint64_t *ret,
                               uint32_t room, uint32_t *ret_n)
{
    orr_status status = ORR_OK;
    uint32_t n = 0;
    ORR_TRY(orr_json_enter_array(h->json, h->err));
    while (orr_json_next_element(h->json, &status, h->err)) {
        orr_json_value value;
        ORR_TRY(orr_json_value_next(h->json, &value, h->err));
        if (n == room)
            return FAIL(h, ORR_INVALID, "byte %llu: tensor '%.100s' has more than %u %s",
                        (unsigned long long)orr_json_byte_pos(h->json), name, room, what);
        if (value.type != ORR_JSON_NUMBER || !orr_text_uint64(value.text, &ret[n]) ||
            ret[n] > INT64_MAX)
            return FAIL(h, ORR_INVALID,
                        "byte %llu: tensor '%.100s' has %s that are not whole numbers",
                        (unsigned long long)orr_json_byte_pos(h->json), name, what);
        n++;
    }
    *ret_n = n;
    return status;
}

static orr_status read_shape(header *h, entry *e)
{
    uint64_t dim[ORR_TYPE_DIMS];
    uint32_t rank;
    ORR_TRY(read_numbers(h, e->weight.name, "dims", dim, ORR_TYPE_DIMS, &rank));
    for (uint32_t i = 0; i < rank; i++)
        e->weight.dim[i] = (int64_t)dim[i];
    e->weight.rank = (uint8_t)rank;
    e->has_shape = true;
    return ORR_OK;
}

static orr_status read_offsets(header *h, entry *e)
{
    uint64_t at[2];
    uint32_t n;
    ORR_TRY(read_numbers(h, e->weight.name, "data_offsets", at, 2, &n));
    if (n != 2 || at[0] > at[1])
        return FAIL(h, ORR_INVALID,
                    "byte %llu: tensor '%.100s' has data_offsets that are not a begin and an end",
                    (unsigned long long)orr_json_byte_pos(h->json), e->weight.name);
    e->begin = at[0];
    e->end = at[1];
    e->has_offsets = true;
    return ORR_OK;
}

/* Bytes by the dims; -1: overflow, or not an integer. */
static int64_t bytes_of(const entry *e)
{
    int64_t bits = e->bits;
    for (uint32_t i = 0; i < e->weight.rank; i++)
        if (__builtin_mul_overflow(bits, e->weight.dim[i], &bits))
            return -1;
    return bits % 8 == 0 ? bits / 8 : -1;
}

static orr_status check_entry(const header *h, entry *e)
{
    const char *name = e->weight.name;
    char shape[ORR_SHAPE_CHARS];
    if (e->dtype == NULL || !e->has_shape || !e->has_offsets)
        return FAIL(h, ORR_INVALID, "tensor '%.200s' has no %s", name,
                    e->dtype == NULL ? "dtype"
                    : !e->has_shape  ? "shape"
                                     : "data_offsets");
    (void)orr_weight_shape(e->weight.rank, e->weight.dim, shape);
    e->weight.bytes = bytes_of(e);
    if (e->weight.bytes < 0)
        return FAIL(h, ORR_INVALID, "tensor '%.100s' of the shape %s has no number of bytes", name,
                    shape);
    if ((uint64_t)e->weight.bytes != e->end - e->begin)
        return FAIL(h, ORR_INVALID,
                    "tensor '%.100s' of the shape %s needs %lld bytes and is given %llu", name,
                    shape, (long long)e->weight.bytes, (unsigned long long)(e->end - e->begin));
    if (e->end > h->file->n - h->data)
        return FAIL(h, ORR_INVALID, "tensor '%.100s' ends at byte %llu, the file at byte %llu",
                    name, (unsigned long long)h->data + e->end, (unsigned long long)h->file->n);
    e->weight.data = h->file->bytes + h->data + e->begin;
    return ORR_OK;
}

static orr_status read_tensor(header *h, const char *name)
{
    entry e = {.weight = {.name = name}};
    orr_status status = ORR_OK;
    orr_text key;
    ORR_TRY(orr_json_enter_object(h->json, h->err));
    while (orr_json_next_key(h->json, &key, &status, h->err)) {
        if (orr_text_is(key, "dtype"))
            ORR_TRY(read_dtype(h, &e));
        else if (orr_text_is(key, "shape"))
            ORR_TRY(read_shape(h, &e));
        else if (orr_text_is(key, "data_offsets"))
            ORR_TRY(read_offsets(h, &e));
        else
            return FAIL(h, ORR_INVALID, "byte %llu: tensor '%.100s' has a key '%.*s'",
                        (unsigned long long)orr_json_byte_pos(h->json), name,
                        (int)(key.n < 40 ? key.n : 40), key.at);
    }
    ORR_TRY(status);
    ORR_TRY(check_entry(h, &e));
    return orr_array_push(&h->list, e) ? ORR_OK : orr_fail_memory(h->err);
}

static orr_status read_metadata(header *h)
{
    orr_arena *arena = h->store->arena;
    orr_status status = ORR_OK;
    orr_text text;
    ORR_TRY(orr_json_enter_object(h->json, h->err));
    while (orr_json_next_key(h->json, &text, &status, h->err)) {
        const char *key = orr_arena_strndup(arena, text.at, text.n);
        orr_json_value value;
        if (key == NULL)
            return orr_fail_memory(h->err);
        ORR_TRY(orr_json_value_next(h->json, &value, h->err));
        if (value.type != ORR_JSON_STRING)
            return FAIL(h, ORR_INVALID, "byte %llu: __metadata__ has '%.100s' that is no text",
                        (unsigned long long)orr_json_byte_pos(h->json), key);
        ORR_TRY(orr_weight_store_add_metadata(
            h->store, key, orr_arena_strndup(arena, value.text.at, value.text.n), h->err));
    }
    return status;
}

static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static orr_status push(header *h, const entry *e)
{
    const orr_weight_unsupported foreign = {.name = e->weight.name, .dtype = e->dtype};
    if (e->weight.format == ORR_ROW_FORMATS && !orr_array_push(&h->store->foreign, foreign))
        return orr_fail_memory(h->err);
    return orr_array_push(&h->store->tensors, e->weight) ? ORR_OK : orr_fail_memory(h->err);
}

/* Every byte belongs to exactly one tensor. */
static orr_status check_places(header *h)
{
    uint64_t end = 0;
    if (h->list.n > 0)
        qsort(h->list.at, h->list.n, sizeof *h->list.at, by_place);
    for (size_t i = 0; i < h->list.n; i++) {
        const entry *e = &h->list.at[i];
        if (e->begin < end)
            return FAIL(h, ORR_INVALID, "tensors '%.100s' and '%.100s' overlap",
                        h->list.at[i - 1].weight.name, e->weight.name);
        if (e->begin > end)
            return FAIL(h, ORR_INVALID, "%llu bytes before tensor '%.100s' are no tensor's",
                        (unsigned long long)(e->begin - end), e->weight.name);
        end = e->end;
        ORR_TRY(push(h, e));
    }
    if (end != h->file->n - h->data)
        return FAIL(h, ORR_INVALID, "the tensors end at byte %llu, the file at byte %llu",
                    (unsigned long long)(h->data + end), (unsigned long long)h->file->n);
    return ORR_OK;
}

static orr_status read_entries(header *h)
{
    orr_status status = ORR_OK;
    orr_text key;
    ORR_TRY(orr_json_enter_object(h->json, h->err));
    while (orr_json_next_key(h->json, &key, &status, h->err)) {
        if (orr_text_is(key, "__metadata__")) {
            ORR_TRY(read_metadata(h));
            continue;
        }
        if (memchr(key.at, '\0', key.n) != NULL)
            return FAIL(h, ORR_INVALID, "byte %llu: a tensor's name has a NUL in it",
                        (unsigned long long)orr_json_byte_pos(h->json));
        const char *name = orr_arena_strndup(h->store->arena, key.at, key.n);
        if (name == NULL)
            return orr_fail_memory(h->err);
        ORR_TRY(read_tensor(h, name));
    }
    ORR_TRY(status);
    return orr_json_end(h->json, h->err);
}

/* `text`: the file up to `n`. The size is overwritten with spaces, so that error offsets are those
 * of the file. */
static orr_status read_text(header *h, char *text, size_t n)
{
    orr_stream *stream = NULL;
    orr_status status;
    memset(text, ' ', HEADER_AT);
    ORR_TRY_OUT(status, orr_stream_open_memory(text, n, &stream, h->err));
    ORR_TRY_OUT(status, orr_json_new(stream, false, &h->json, h->err));
    orr_json_set_depth_limit(h->json, MOST_DEPTH);
    ORR_TRY_OUT(status, read_entries(h));
    status = check_places(h);
out:
    orr_json_free(h->json);
    orr_stream_close(stream);
    return status;
}

static orr_status header_bytes(const orr_mapped_file *file, uint64_t *ret, orr_error *err)
{
    uint8_t size[HEADER_AT];
    uint64_t n = 0;
    if (file->n < HEADER_AT)
        return orr_fail_byte(err, ORR_PARSE, file->n,
                             "byte %llu: the file ends before the size of its header",
                             (unsigned long long)file->n);
    ORR_TRY(orr_mapped_file_read(file, 0, size, sizeof size, err));
    for (int i = HEADER_AT; i-- > 0;)
        n = n << 8 | size[i];
    if (n > MOST_HEADER_BYTES)
        return orr_fail_byte(
            err, ORR_LIMIT, 0,
            "byte 0: a header of %llu bytes; %d are the most there may be (is this "
            "a safetensors file?)",
            (unsigned long long)n, MOST_HEADER_BYTES);
    if (n > file->n - HEADER_AT)
        return orr_fail_byte(err, ORR_PARSE, file->n,
                             "byte %llu: the file ends in its header of %llu bytes",
                             (unsigned long long)file->n, (unsigned long long)n);
    *ret = HEADER_AT + n;
    return ORR_OK;
}

orr_status orr_safetensors_read(const orr_mapped_file *file, orr_weight_store *store,
                                orr_error *err)
{
    header h = {.file = file, .store = store, .err = err};
    ORR_TRY(header_bytes(file, &h.data, err));
    char *text = orr_malloc(h.data);
    if (text == NULL)
        return orr_fail_memory(err);
    orr_status status = orr_mapped_file_read(file, 0, text, h.data, err);
    if (status == ORR_OK)
        status = read_text(&h, text, h.data);
    orr_array_done(&h.list);
    orr_free(text);
    return status;
}
