/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/json/reader.h"

/* Reads the header of a GGUF file. Every size is checked against the file's length before it is
 * used. */

enum {
    MOST_HEADER_BYTES = 100 * 1000 * 1000,
    WINDOW_BYTES = 1 << 16,
    MOST_NAME_BYTES = 1 << 16,
    LEAST_KEY_BYTES = 8 + 4 + 1,       /* a key, its type and a value of one byte */
    LEAST_TENSOR_BYTES = 8 + 4 + 4 + 8 /* a tensor without name and dims */
};

typedef struct reader {
    const orr_mapped_file *file;
    orr_weight_store *store;
    uint64_t at;     /* offset in the file */
    uint8_t *window; /* buffered part of it: shape (WINDOW_BYTES) */
    uint64_t window_at, window_n;
    uint64_t alignment;
    size_t first; /* of this file's tensors in the store */
    orr_error *err;
} reader;

#define FAIL(r, status, format, ...)                                                               \
    orr_fail_byte((r)->err, (status), (r)->at, "byte %llu: " format, (unsigned long long)(r)->at,  \
                  __VA_ARGS__)

/* Whether the file, and a header, can have n more bytes. */
static orr_status need(reader *r, uint64_t n)
{
    if (n > r->file->n - r->at)
        return FAIL(r, ORR_PARSE, "%llu bytes more are needed, the file has %llu",
                    (unsigned long long)n, (unsigned long long)(r->file->n - r->at));
    if (n > MOST_HEADER_BYTES || r->at + n > MOST_HEADER_BYTES)
        return FAIL(r, ORR_LIMIT, "the header is longer than %d bytes", MOST_HEADER_BYTES);
    return ORR_OK;
}

static orr_status read_bytes(reader *r, void *ret, size_t n)
{
    ORR_TRY(need(r, n));
    if (r->at < r->window_at || r->at + n > r->window_at + r->window_n) {
        if (n > WINDOW_BYTES) {
            ORR_TRY(orr_mapped_file_read(r->file, r->at, ret, n, r->err));
            r->at += n;
            return ORR_OK;
        }
        const uint64_t rest = r->file->n - r->at;
        const size_t more = rest < WINDOW_BYTES ? (size_t)rest : WINDOW_BYTES;
        ORR_TRY(orr_mapped_file_read(r->file, r->at, r->window, more, r->err));
        r->window_at = r->at;
        r->window_n = more;
    }
    memcpy(ret, r->window + (r->at - r->window_at), n);
    r->at += n;
    return ORR_OK;
}

static orr_status read_number(reader *r, int bytes, uint64_t *ret)
{
    uint8_t raw[8];
    uint64_t value = 0;
    ORR_TRY(read_bytes(r, raw, (size_t)bytes));
    for (int i = bytes; i-- > 0;)
        value = value << 8 | raw[i];
    *ret = value;
    return ORR_OK;
}

static orr_status read_u32(reader *r, uint32_t *ret)
{
    uint64_t value;
    ORR_TRY(read_number(r, 4, &value));
    *ret = (uint32_t)value;
    return ORR_OK;
}

/* Text of at most `most` bytes without NUL. */
static orr_status read_text(reader *r, uint64_t most, const char **ret)
{
    uint64_t n;
    ORR_TRY(read_number(r, 8, &n));
    if (n > most)
        return FAIL(r, ORR_LIMIT, "a text of %llu bytes", (unsigned long long)n);
    ORR_TRY(need(r, n));
    char *text = orr_arena_alloc(r->store->arena, n + 1, 1, 1);
    if (text == NULL)
        return orr_fail_memory(r->err);
    ORR_TRY(read_bytes(r, text, (size_t)n));
    *ret = text;
    return ORR_OK;
}

static int bytes_of_type(uint32_t type)
{
    static const uint8_t bytes[] = {
#define BYTES_(name, number, bytes) [number] = bytes,
        ORR_GGUF_TYPE_MAP(BYTES_)
#undef BYTES_
    };
    return type < ORR_GGUF_TYPES ? bytes[type] : 0;
}

/* The shortest digits that read back as the same number, in the C locale. */
static const char *text_of_float(orr_arena *arena, double value, bool narrow)
{
    char text[40];
    for (int digits = narrow ? 6 : 15; digits <= (narrow ? 9 : 17); digits++) {
        double back;
        const int n = snprintf(text, sizeof text, "%.*g", digits, value);
        char *comma = memchr(text, ',', (size_t)n);
        if (comma != NULL)
            *comma = '.';
        if (orr_text_double((orr_text){text, (size_t)n}, &back) &&
            (narrow ? (float)back == (float)value : back == value))
            break;
    }
    return orr_arena_strndup(arena, text, strlen(text));
}

/* A number as text; integers with a sign by what their type says. */
static const char *text_of(orr_arena *arena, uint32_t type, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    double wide;
    float narrow;
    switch (type) {
    case ORR_GGUF_BOOL:
        return bits != 0 ? "true" : "false";
    case ORR_GGUF_F32:
        memcpy(&narrow, &low, sizeof narrow);
        return text_of_float(arena, narrow, true);
    case ORR_GGUF_F64:
        memcpy(&wide, &bits, sizeof wide);
        return text_of_float(arena, wide, false);
    case ORR_GGUF_I8:
        return orr_arena_printf(arena, "%d", (int8_t)bits);
    case ORR_GGUF_I16:
        return orr_arena_printf(arena, "%d", (int16_t)bits);
    case ORR_GGUF_I32:
        return orr_arena_printf(arena, "%d", (int32_t)bits);
    case ORR_GGUF_I64:
        return orr_arena_printf(arena, "%lld", (long long)bits);
    default:
        return orr_arena_printf(arena, "%llu", (unsigned long long)bits);
    }
}

/* Skips n bytes, checked against the file's length. */
static orr_status skip(reader *r, uint64_t n)
{
    ORR_TRY(need(r, n));
    r->at += n;
    return ORR_OK;
}

static orr_status skip_texts(reader *r, uint64_t n)
{
    while (n-- > 0) {
        uint64_t bytes;
        ORR_TRY(read_number(r, 8, &bytes));
        ORR_TRY(skip(r, bytes));
    }
    return ORR_OK;
}

static orr_status read_array(reader *r, const char *key)
{
    uint32_t type;
    orr_gguf_array array = {.key = key};
    ORR_TRY(read_u32(r, &type));
    ORR_TRY(read_number(r, 8, &array.n));
    const uint64_t begin = r->at, each = (uint64_t)bytes_of_type(type);
    array.type = (uint8_t)type;
    if (type >= ORR_GGUF_TYPES || type == ORR_GGUF_ARRAY)
        return FAIL(r, ORR_UNSUPPORTED, "'%.100s' is an array of type %u", key, type);
    if (array.n > r->file->n)
        return FAIL(r, ORR_PARSE, "'%.100s' has %llu elements, more than the file has bytes", key,
                    (unsigned long long)array.n);
    if (type == ORR_GGUF_TEXT)
        ORR_TRY(skip_texts(r, array.n));
    else if (array.n > MOST_HEADER_BYTES)
        return FAIL(r, ORR_LIMIT, "'%.100s' has %llu elements", key, (unsigned long long)array.n);
    else
        ORR_TRY(skip(r, array.n * each));
    array.bytes = r->file->bytes + begin;
    array.n_bytes = r->at - begin;
    return orr_array_push(&r->store->arrays, array) ? ORR_OK : orr_fail_memory(r->err);
}

static orr_status set_alignment(reader *r, const char *value)
{
    const orr_text text = {value, strlen(value)};
    uint64_t alignment;
    if (!orr_text_uint64(text, &alignment) || alignment == 0 || alignment > 1 << 20 ||
        (alignment & (alignment - 1)) != 0)
        return FAIL(r, ORR_INVALID, "general.alignment '%.40s' is no power of two", value);
    r->alignment = alignment;
    return ORR_OK;
}

static orr_status read_key(reader *r)
{
    const char *key, *value;
    uint32_t type;
    uint64_t bits;
    ORR_TRY(read_text(r, MOST_NAME_BYTES, &key));
    ORR_TRY(read_u32(r, &type));
    if (type >= ORR_GGUF_TYPES)
        return FAIL(r, ORR_INVALID, "'%.100s' has the type %u, which there is not", key, type);
    if (type == ORR_GGUF_ARRAY)
        return read_array(r, key);
    if (type == ORR_GGUF_TEXT) {
        ORR_TRY(read_text(r, MOST_HEADER_BYTES, &value));
        return orr_weight_store_add_metadata(r->store, key, value, r->err);
    }
    ORR_TRY(read_number(r, bytes_of_type(type), &bits));
    value = text_of(r->store->arena, type, bits);
    ORR_TRY(orr_weight_store_add_metadata(r->store, key, value, r->err));
    if (strcmp(key, "general.alignment") == 0)
        return set_alignment(r, value);
    return strcmp(key, "split.count") == 0 && bits > 1
               ? FAIL(r, ORR_UNSUPPORTED, "one of %llu parts of a model; merge them first",
                      (unsigned long long)bits)
               : ORR_OK;
}

/* Dims are innermost first in the file. */
static orr_status read_dims(reader *r, orr_weight *w)
{
    uint32_t rank;
    ORR_TRY(read_u32(r, &rank));
    if (rank > ORR_TYPE_DIMS)
        return FAIL(r, ORR_INVALID, "tensor '%.100s' has %u dims", w->name, rank);
    w->rank = (uint8_t)rank;
    for (uint32_t i = rank; i-- > 0;) {
        uint64_t dim;
        ORR_TRY(read_number(r, 8, &dim));
        if (dim > INT64_MAX)
            return FAIL(r, ORR_INVALID, "tensor '%.100s' has a dim of %llu", w->name,
                        (unsigned long long)dim);
        w->dim[i] = (int64_t)dim;
    }
    return ORR_OK;
}

static orr_status read_format(reader *r, orr_weight *w)
{
    uint32_t type;
    char shape[ORR_SHAPE_CHARS];
    ORR_TRY(read_u32(r, &type));
    const char *name = orr_gguf_type_name(type);
    w->format = (uint8_t)orr_gguf_format(type);
    if (name == NULL)
        return FAIL(r, ORR_UNSUPPORTED, "tensor '%.100s' has the type %u, which is not known",
                    w->name, type);
    if (w->format == ORR_ROW_FORMATS)
        return FAIL(r, ORR_UNSUPPORTED,
                    "tensor '%.100s' is %s; F32, F16, BF16, Q8_0 and Q4_0 can be read", w->name,
                    name);
    w->bytes = orr_weight_bytes(w->format, w->rank, w->dim);
    return w->bytes >= 0 ? ORR_OK
                         : FAIL(r, ORR_INVALID,
                                "tensor '%.100s' of the shape %s has no number of bytes in %s",
                                w->name, orr_weight_shape(w->rank, w->dim, shape), name);
}

static orr_status read_tensor(reader *r)
{
    orr_weight w = {0};
    uint64_t offset;
    ORR_TRY(read_text(r, MOST_NAME_BYTES, &w.name));
    ORR_TRY(read_dims(r, &w));
    ORR_TRY(read_format(r, &w));
    ORR_TRY(read_number(r, 8, &offset));
    if (offset % r->alignment != 0)
        return FAIL(r, ORR_INVALID, "tensor '%.100s' begins at %llu, no multiple of %llu", w.name,
                    (unsigned long long)offset, (unsigned long long)r->alignment);
    w.data = (const void *)(uintptr_t)offset; /* an offset until the start of the data is known */
    return orr_array_push(&r->store->tensors, w) ? ORR_OK : orr_fail_memory(r->err);
}

static int by_place(const void *a, const void *b)
{
    const orr_weight *x = a, *y = b;
    const uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
    if (p != q)
        return p < q ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Sets the addresses of tensors. */
static orr_status place(reader *r)
{
    const size_t n = r->store->tensors.n - r->first;
    orr_weight *list = n > 0 ? r->store->tensors.at + r->first : NULL;
    const uint64_t data = (r->at + r->alignment - 1) / r->alignment * r->alignment;
    uint64_t end = 0;
    if (n > 0)
        qsort(list, n, sizeof *list, by_place);
    for (size_t i = 0; i < n; i++) {
        const uint64_t begin = (uint64_t)(uintptr_t)list[i].data, bytes = (uint64_t)list[i].bytes;
        if (begin < end)
            return FAIL(r, ORR_INVALID, "tensors '%.100s' and '%.100s' overlap", list[i - 1].name,
                        list[i].name);
        if (data > r->file->n || begin > r->file->n - data || bytes > r->file->n - data - begin)
            return FAIL(r, ORR_INVALID, "tensor '%.100s' reaches beyond the file's %llu bytes",
                        list[i].name, (unsigned long long)r->file->n);
        end = begin + bytes;
        list[i].data = r->file->bytes + data + begin;
    }
    return ORR_OK;
}

static orr_status check_version(reader *r)
{
    uint32_t magic, version;
    ORR_TRY(read_u32(r, &magic));
    ORR_TRY(read_u32(r, &version));
    if (version == 2 || version == 3)
        return ORR_OK;
    if ((version & 0xffff) == 0 && version != 0)
        return FAIL(r, ORR_UNSUPPORTED, "%s", "a big-endian GGUF file");
    return FAIL(r, ORR_UNSUPPORTED, "GGUF version %u; 2 and 3 can be read", version);
}

static orr_status read_header(reader *r)
{
    uint64_t tensors, keys;
    ORR_TRY(check_version(r));
    ORR_TRY(read_number(r, 8, &tensors));
    ORR_TRY(read_number(r, 8, &keys));
    const uint64_t rest = r->file->n - r->at;
    if (tensors > rest / LEAST_TENSOR_BYTES || keys > rest / LEAST_KEY_BYTES)
        return FAIL(r, ORR_PARSE, "%llu tensors and %llu keys are more than the file has room for",
                    (unsigned long long)tensors, (unsigned long long)keys);
    while (keys-- > 0)
        ORR_TRY(read_key(r));
    while (tensors-- > 0)
        ORR_TRY(read_tensor(r));
    return place(r);
}

orr_status orr_gguf_read(const orr_mapped_file *file, orr_weight_store *store, orr_error *err)
{
    reader r = {.file = file,
                .store = store,
                .alignment = ORR_GGUF_ALIGNMENT,
                .first = store->tensors.n,
                .err = err};
    store->about.gguf = true;
    r.window = orr_malloc(WINDOW_BYTES);
    if (r.window == NULL)
        return orr_fail_memory(err);
    const orr_status status = read_header(&r);
    orr_free(r.window);
    return status;
}
