/* SPDX-License-Identifier: Apache-2.0 */
/* Reads parameters by their mapping: in place in the mapped file (zero-copy) where rows are
 * contiguous in one format, or copied, or converted to fp32. */
#include <string.h>

#include "base/alloc.h"
#include "kernel/format/row.h"
#include "weights/mapping.h"
#include "weights/store.h"

/* A mapping with its tensors, all present and of the right shape. */
typedef struct found {
    orr_weight_mapping mapping;
    const orr_weight **tensors; /* shape (mapping.n_tensors) */
    orr_arena *arena;
} found;

static orr_status fail_missing(const orr_weights *weights, const char *name, orr_error *err)
{
    const orr_weight_store *store = orr_weight_store_of(weights);
    for (size_t i = 0; i < store->foreign.n; i++)
        if (strcmp(store->foreign.at[i].name, name) == 0)
            return orr_fail(
                err, ORR_UNSUPPORTED,
                "%s: %s is %s; fp32, fp16 and bf16 can be read, and q8_0 and q4_0 of GGUF",
                weights->path, name, store->foreign.at[i].dtype);
    return orr_fail(err, ORR_NOT_FOUND, "%s: has no tensor %s", weights->path, name);
}

static orr_status find_tensor(const orr_weights *weights, const orr_weight_mapping_tensor *t,
                              const orr_weight **ret, orr_error *err)
{
    const orr_weight *w = orr_weights_find(weights, t->name);
    char is[ORR_SHAPE_CHARS], shall[ORR_SHAPE_CHARS];
    if (w == NULL)
        return fail_missing(weights, t->name, err);
    if (!orr_weight_mapping_matches(t, w))
        return orr_fail(err, ORR_INVALID, "%s: %s is %s and should be %s", weights->path, t->name,
                        orr_weight_shape(w->rank, w->dim, is),
                        orr_weight_shape(t->rank, t->dim, shall));
    *ret = w;
    return ORR_OK;
}

static orr_status find(const orr_weights *weights, const orr_model *model,
                       const orr_weight_key *key, found *f, orr_error *err)
{
    const orr_tensor_naming *naming;
    ORR_TRY(orr_tensor_naming_of(model, weights, weights->gguf, f->arena, &naming, err));
    ORR_TRY(orr_weight_mapping_make(naming, key, f->arena, &f->mapping, err));
    f->tensors = orr_arena_array(f->arena, const orr_weight *, f->mapping.n_tensors);
    if (f->tensors == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < f->mapping.n_tensors; i++)
        ORR_TRY(find_tensor(weights, &f->mapping.tensors[i], &f->tensors[i], err));
    return ORR_OK;
}

/* Address of row `from` of a matrix, in a tensor stored by rows. */
static const uint8_t *row_at(const found *f, const orr_weight_mapping_rows *p, int64_t row_bytes)
{
    const orr_weight_mapping_tensor *t = &f->mapping.tensors[p->tensor];
    return (const uint8_t *)f->tensors[p->tensor]->data +
           (p->matrix * t->rows + p->from) * row_bytes;
}

static bool is_aligned(const void *data, uint8_t format)
{
    const uintptr_t each = format == ORR_ROW_FORMAT_FP32 ? 4 : 2;
    return (uintptr_t)data % each == 0;
}

/* The common format of all tensors; fp32 where they differ. */
static uint8_t format_of(const found *f)
{
    for (uint32_t i = 1; i < f->mapping.n_tensors; i++)
        if (f->tensors[i]->format != f->tensors[0]->format)
            return ORR_ROW_FORMAT_FP32;
    return f->tensors[0]->format;
}

/* A vector is one row. */
static void frame(const found *f, orr_weight_rows *ret)
{
    const bool vector = f->mapping.kind == ORR_WEIGHT_MAPPING_VECTOR;
    *ret = (orr_weight_rows){.format = format_of(f),
                             .columns = vector ? f->mapping.rows : f->mapping.columns};
    ret->row_bytes = orr_row_format_bytes((orr_row_format)ret->format, ret->columns);
}

/* Shorter segments on average are copied, since finding them costs more. */
enum { LEAST_ROWS_OF_A_PIECE = 8 };

static bool can_stay(const found *f, const orr_weight_rows *rows)
{
    const orr_weight_mapping *r = &f->mapping;
    if (r->kind == ORR_WEIGHT_MAPPING_VECTOR)
        return r->n_ranges == 1 && is_aligned(f->tensors[0]->data, rows->format);
    for (uint32_t i = 0; i < r->n_tensors; i++)
        if (r->tensors[i].input_major || f->tensors[i]->format != rows->format ||
            !is_aligned(f->tensors[i]->data, rows->format))
            return false;
    return r->matrices * r->rows / LEAST_ROWS_OF_A_PIECE >= r->n_ranges || r->n_ranges == 1;
}

/* Zero-copy: adjacent ranges become one segment. */
static orr_status stay(const found *f, orr_arena *arena, orr_weight_rows *rows, orr_error *err)
{
    const orr_weight_mapping *r = &f->mapping;
    const bool vector = r->kind == ORR_WEIGHT_MAPPING_VECTOR;
    orr_row_segment *segments = orr_arena_array(arena, orr_row_segment, r->n_ranges);
    uint32_t n = 0;
    int64_t first = 0;
    if (segments == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < r->n_ranges; i++) {
        const uint8_t *data = row_at(f, &r->ranges[i], vector ? 0 : rows->row_bytes);
        const int64_t count = vector ? 1 : r->ranges[i].count;
        orr_row_segment *last = n > 0 ? &segments[n - 1] : NULL;
        if (last != NULL && (const uint8_t *)last->data + last->count * rows->row_bytes == data)
            last->count += count;
        else
            segments[n++] = (orr_row_segment){.data = data, .first = first, .count = count};
        first += count;
    }
    rows->segments = segments;
    rows->n_segments = n;
    return ORR_OK;
}

/* Transposes a range of a matrix (K, R) to rows; elements of 2 or 4 bytes, in tiles that fit the
 * cache. */
static void interleave_rotary(const found *f, const orr_weight_mapping_rows *p, int64_t bytes,
                              uint8_t *to)
{
    enum { SIDE = 32 };
    const orr_weight_mapping_tensor *t = &f->mapping.tensors[p->tensor];
    const uint8_t *from = (const uint8_t *)f->tensors[p->tensor]->data +
                          (p->matrix * t->rows * t->columns + p->from) * bytes;
    for (int64_t k0 = 0; k0 < t->columns; k0 += SIDE)
        for (int64_t n0 = 0; n0 < p->count; n0 += SIDE)
            for (int64_t n = n0; n < n0 + SIDE && n < p->count; n++)
                for (int64_t k = k0; k < k0 + SIDE && k < t->columns; k++)
                    memcpy(to + (n * t->columns + k) * bytes, from + (k * t->rows + n) * bytes,
                           (size_t)bytes);
}

/* n elements of a tensor as fp32, from any address. */
static void read_numbers(const orr_weight *w, const uint8_t *at, int64_t n, float *ret)
{
    enum { MOST = 256 };
    const int64_t each = w->format == ORR_ROW_FORMAT_FP32 ? 4 : 2;
    uint8_t aligned[MOST * 4] __attribute__((aligned(4)));
    if (is_aligned(at, w->format)) {
        orr_row_to_fp32((orr_row_format)w->format, at, n, ret);
        return;
    }
    for (int64_t i = 0; i < n; i += MOST) { /* quantized formats are aligned to two bytes */
        const int64_t count = n - i < MOST ? n - i : MOST;
        memcpy(aligned, at + i * each, (size_t)(count * each));
        orr_row_to_fp32((orr_row_format)w->format, aligned, count, ret + i);
    }
}

/* Row `i` of a range, as fp32. */
static void read_row(const found *f, const orr_weight_mapping_rows *p, int64_t i, float *ret)
{
    const orr_weight_mapping_tensor *t = &f->mapping.tensors[p->tensor];
    const orr_weight *w = f->tensors[p->tensor];
    const int64_t row = orr_row_format_bytes((orr_row_format)w->format, t->columns);
    if (!t->input_major) {
        read_numbers(w, row_at(f, p, row) + i * row, t->columns, ret);
        return;
    }
    const int64_t each = w->format == ORR_ROW_FORMAT_FP32 ? 4 : 2;
    const uint8_t *at =
        (const uint8_t *)w->data + (p->matrix * t->rows * t->columns + p->from + i) * each;
    for (int64_t k = 0; k < t->columns; k++)
        read_numbers(w, at + k * t->rows * each, 1, ret + k);
}

/* The elements of a vector, range by range. */
static void read_vector(const found *f, float *ret)
{
    const orr_weight_mapping *r = &f->mapping;
    for (uint32_t i = 0; i < r->n_ranges; i++) {
        const orr_weight_mapping_rows *p = &r->ranges[i];
        const orr_weight *w = f->tensors[p->tensor];
        const int64_t each = w->format == ORR_ROW_FORMAT_FP32 ? 4 : 2;
        if (w->format > ORR_ROW_FORMAT_BF16) /* quantized: whole blocks only */
            read_numbers(w, w->data, p->count, ret);
        else
            read_numbers(w, (const uint8_t *)w->data + p->from * each, p->count, ret);
        ret += p->count;
    }
}

static void copy_range(const found *f, const orr_weight_mapping_rows *p,
                       const orr_weight_rows *rows, uint8_t *to, float *scratch)
{
    const orr_weight_mapping_tensor *t = &f->mapping.tensors[p->tensor];
    const bool same = f->tensors[p->tensor]->format == rows->format;
    if (same && !t->input_major) {
        memcpy(to, row_at(f, p, rows->row_bytes), (size_t)(p->count * rows->row_bytes));
    } else if (same) {
        interleave_rotary(f, p, rows->row_bytes / rows->columns, to);
    } else {
        for (int64_t i = 0; i < p->count; i++) {
            read_row(f, p, i, scratch);
            orr_row_from_fp32((orr_row_format)rows->format, scratch, rows->columns,
                              to + i * rows->row_bytes);
        }
    }
}

static orr_status copy_vector(const found *f, orr_arena *arena, orr_weight_rows *rows,
                              orr_error *err)
{
    float *numbers = orr_arena_array(f->arena, float, (size_t)rows->columns);
    void *to = orr_arena_alloc(arena, (size_t)rows->row_bytes, 1, 64);
    orr_row_segment *piece = orr_arena_one(arena, orr_row_segment);
    if (numbers == NULL || to == NULL || piece == NULL)
        return orr_fail_memory(err);
    read_vector(f, numbers);
    orr_row_from_fp32((orr_row_format)rows->format, numbers, rows->columns, to);
    *piece = (orr_row_segment){.data = to, .count = 1};
    rows->segments = piece;
    rows->n_segments = 1;
    return ORR_OK;
}

static orr_status copy(const found *f, orr_arena *arena, orr_weight_rows *rows, orr_error *err)
{
    const orr_weight_mapping *r = &f->mapping;
    const int64_t n = r->matrices * r->rows;
    float *scratch = orr_arena_array(f->arena, float, (size_t)r->columns);
    uint8_t *to = orr_arena_alloc(arena, (size_t)n, (size_t)rows->row_bytes, 64);
    orr_row_segment *piece = orr_arena_one(arena, orr_row_segment);
    if (scratch == NULL || to == NULL || piece == NULL)
        return orr_fail_memory(err);
    *piece = (orr_row_segment){.data = to, .count = n};
    for (uint32_t i = 0; i < r->n_ranges; i++) {
        copy_range(f, &r->ranges[i], rows, to, scratch);
        to += r->ranges[i].count * rows->row_bytes;
    }
    rows->segments = piece;
    rows->n_segments = 1;
    return ORR_OK;
}

static orr_status rows_of(found *f, orr_arena *arena, orr_weight_rows *ret, orr_error *err)
{
    orr_weight_rows rows;
    frame(f, &rows);
    if (can_stay(f, &rows))
        ORR_TRY(stay(f, arena, &rows, err));
    else if (f->mapping.kind == ORR_WEIGHT_MAPPING_VECTOR)
        ORR_TRY(copy_vector(f, arena, &rows, err));
    else
        ORR_TRY(copy(f, arena, &rows, err));
    *ret = rows;
    return ORR_OK;
}

orr_status orr_weights_rows(const orr_weights *weights, const orr_model *model,
                            const orr_weight_key *key, orr_arena *arena, orr_weight_rows *ret,
                            orr_error *err)
{
    found f = {.arena = orr_arena_new(0, 0)};
    orr_status status = ORR_NO_MEMORY;
    if (f.arena == NULL)
        return orr_fail_memory(err);
    status = find(weights, model, key, &f, err);
    if (status == ORR_OK)
        status = rows_of(&f, arena, ret, err);
    orr_arena_free(f.arena);
    return status;
}

/* Whether the tape's dims fit, where rows may be padded to equal slices. */
static bool fits(const orr_weight_mapping *r, const orr_weight_key *key, const orr_type *type)
{
    const bool padded = strcmp(key->name, "embedding") == 0 || strcmp(key->name, "head") == 0;
    const uint32_t rank = r->matrices > 1 || type->rank == 3 ? 3 : 2;
    const int64_t *dim = type->dim + (rank - 2);
    if (r->kind == ORR_WEIGHT_MAPPING_VECTOR)
        return orr_type_elements(type) == r->rows ||
               (padded && type->rank == 1 && type->dim[0] > r->rows);
    const int64_t rows = dim[r->kind == ORR_WEIGHT_MAPPING_TABLE ? 0 : 1];
    const int64_t columns = dim[r->kind == ORR_WEIGHT_MAPPING_TABLE ? 1 : 0];
    return type->rank == rank && (rank == 2 || type->dim[0] == r->matrices) &&
           columns == r->columns && (rows == r->rows || (padded && rows > r->rows));
}

/* Transposes rows into columns of (K, width), a few at a time. */
static void read_product(const found *f, int64_t width, float *scratch, float *ret)
{
    enum { TOGETHER = 16 };
    const orr_weight_mapping *r = &f->mapping;
    const int64_t k_all = r->columns;
    int64_t row = 0; /* over all matrices */
    for (uint32_t i = 0; i < r->n_ranges; i++) {
        const orr_weight_mapping_rows *p = &r->ranges[i];
        float *to = ret + row / r->rows * k_all * width + row % r->rows;
        for (int64_t at = 0; at < p->count; at += TOGETHER) {
            const int64_t n = p->count - at < TOGETHER ? p->count - at : TOGETHER;
            for (int64_t j = 0; j < n; j++)
                read_row(f, p, at + j, scratch + j * k_all);
            for (int64_t k = 0; k < k_all; k++)
                for (int64_t j = 0; j < n; j++)
                    to[k * width + at + j] = scratch[j * k_all + k];
        }
        row += p->count;
    }
}

/* The file has (K, R) too: row by row. */
static void read_as_is(const found *f, int64_t width, float *ret)
{
    const orr_weight_mapping *r = &f->mapping;
    int64_t row = 0;
    for (uint32_t i = 0; i < r->n_ranges; i++) {
        const orr_weight_mapping_rows *p = &r->ranges[i];
        const orr_weight_mapping_tensor *t = &r->tensors[p->tensor];
        const orr_weight *w = f->tensors[p->tensor];
        const int64_t each = w->format == ORR_ROW_FORMAT_FP32 ? 4 : 2;
        float *to = ret + row / r->rows * r->columns * width + row % r->rows;
        for (int64_t k = 0; k < r->columns; k++)
            read_numbers(w,
                         (const uint8_t *)w->data +
                             ((p->matrix * t->columns + k) * t->rows + p->from) * each,
                         p->count, to + k * width);
        row += p->count;
    }
}

static orr_status read_all(const found *f, const orr_type *type, float *ret, orr_error *err)
{
    enum { TOGETHER = 16 };
    const orr_weight_mapping *r = &f->mapping;
    const int64_t width = type->dim[type->rank - 1];
    float *scratch = orr_arena_array(f->arena, float, (size_t)r->columns *TOGETHER);
    if (scratch == NULL)
        return orr_fail_memory(err);
    if (orr_type_elements(type) != r->matrices * r->rows * r->columns)
        memset(ret, 0, (size_t)orr_type_elements(type) * sizeof *ret);
    if (r->kind == ORR_WEIGHT_MAPPING_VECTOR) {
        read_vector(f, ret);
    } else if (r->kind == ORR_WEIGHT_MAPPING_LINEAR && r->tensors[0].input_major) {
        read_as_is(f, width, ret);
    } else if (r->kind == ORR_WEIGHT_MAPPING_LINEAR) {
        read_product(f, width, scratch, ret);
    } else {
        for (uint32_t i = 0; i < r->n_ranges; i++)
            for (int64_t j = 0; j < r->ranges[i].count; j++, ret += r->columns)
                read_row(f, &r->ranges[i], j, ret);
    }
    return ORR_OK;
}

/* Whether a tied head is the embedding table itself. */
static bool is_table(const orr_weight_mapping *r, const orr_model *model, const orr_weight_key *key,
                     const orr_type *type)
{
    return r->kind == ORR_WEIGHT_MAPPING_LINEAR && model->tied && strcmp(key->name, "head") == 0 &&
           type->rank == 2 && type->dim[0] >= r->rows && type->dim[1] == r->columns;
}

static orr_status fail_shape(const orr_weight_mapping *r, const orr_weight_key *key,
                             const orr_type *type, orr_error *err)
{
    char is[ORR_SHAPE_CHARS];
    return orr_fail(err, ORR_INVALID,
                    "'%s' of layer %u is asked for as %s; the model has %lld x %lld x %lld of it",
                    key->name, key->layer, orr_weight_shape(type->rank, type->dim, is),
                    (long long)r->matrices, (long long)r->columns, (long long)r->rows);
}

orr_status orr_weights_read(const orr_weights *weights, const orr_model *model,
                            const orr_weight_key *key, const orr_type *type, float *ret,
                            orr_error *err)
{
    found f = {.arena = orr_arena_new(0, 0)};
    if (f.arena == NULL)
        return orr_fail_memory(err);
    orr_status status = find(weights, model, key, &f, err);
    if (status == ORR_OK && is_table(&f.mapping, model, key, type))
        f.mapping.kind = ORR_WEIGHT_MAPPING_TABLE;
    if (status == ORR_OK)
        status = fits(&f.mapping, key, type) ? read_all(&f, type, ret, err)
                                             : fail_shape(&f.mapping, key, type, err);
    orr_arena_free(f.arena);
    return status;
}
