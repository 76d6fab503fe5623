/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/tensor/iterator.h"

#include "kernel/format/dtype_convert.h"

orr_tensor_iter orr_tensor_iter_over(const orr_type *dims)
{
    orr_tensor_iter walk = {.rank = dims->rank};
    for (uint32_t d = 0; d < dims->rank; d++)
        walk.dim[d] = dims->dim[d];
    if (walk.rank == 0)
        walk.dim[walk.rank++] = 1;
    return walk;
}

static orr_tensor_iter_part part_of(const orr_operand *operand)
{
    return (orr_tensor_iter_part){.data = operand->data, .dtype = operand->type.dtype};
}

uint32_t orr_tensor_iter_add(orr_tensor_iter *walk, const orr_operand *operand)
{
    const orr_type *type = &operand->type;
    orr_tensor_iter_part part = part_of(operand);
    const int64_t bytes = orr_dtype_stride_bytes((orr_dtype)type->dtype);
    const uint32_t lead = walk->rank - (type->rank < walk->rank ? type->rank : walk->rank);
    for (uint32_t d = lead; d < walk->rank && type->rank > 0; d++)
        part.stride[d] = type->dim[d - lead] == 1 ? 0 : operand->stride[d - lead] * bytes;
    walk->part[walk->n] = part;
    return walk->n++;
}

uint32_t orr_tensor_iter_add_per_row(orr_tensor_iter *walk, const orr_operand *operand)
{
    orr_tensor_iter_part part = part_of(operand);
    const int64_t bytes = orr_dtype_stride_bytes((orr_dtype)operand->type.dtype);
    for (uint32_t d = 0; d + 1 < walk->rank && d < operand->type.rank; d++)
        part.stride[d] = operand->stride[d] * bytes;
    walk->part[walk->n] = part;
    return walk->n++;
}

/* Whether in every part dim d + 1 exactly fills one step of dim d, so that both are one dim. */
static bool is_one(const orr_tensor_iter *walk, uint32_t d)
{
    for (uint32_t p = 0; p < walk->n; p++)
        if (walk->part[p].stride[d] != walk->part[p].stride[d + 1] * walk->dim[d + 1])
            return false;
    return true;
}

static void take_out(orr_tensor_iter *walk, uint32_t d)
{
    walk->rank--;
    for (uint32_t e = d; e < walk->rank; e++) {
        walk->dim[e] = walk->dim[e + 1];
        for (uint32_t p = 0; p < walk->n; p++)
            walk->part[p].stride[e] = walk->part[p].stride[e + 1];
    }
}

void orr_tensor_iter_coalesce(orr_tensor_iter *walk, uint32_t apart)
{
    for (uint32_t d = walk->rank; d-- > 0;)
        if (walk->dim[d] == 1 && d + apart < walk->rank && walk->rank > 1)
            take_out(walk, d);
    for (uint32_t d = walk->rank; d-- > 0;)
        if (d + 1 + apart < walk->rank && is_one(walk, d)) {
            walk->dim[d + 1] *= walk->dim[d];
            take_out(walk, d);
        }
}

int64_t orr_tensor_iter_rows(const orr_tensor_iter *walk)
{
    int64_t rows = 1;
    for (uint32_t d = 0; d + 1 < walk->rank; d++)
        rows *= walk->dim[d];
    return rows;
}

void orr_tensor_iter_seek(const orr_tensor_iter *walk, int64_t row, orr_tensor_cursor *cursor)
{
    *cursor = (orr_tensor_cursor){.at = {0}};
    for (uint32_t d = walk->rank - 1; d-- > 0; row /= walk->dim[d]) {
        cursor->at[d] = row % walk->dim[d];
        for (uint32_t p = 0; p < walk->n; p++)
            cursor->offset[p] += cursor->at[d] * walk->part[p].stride[d];
    }
}

void orr_tensor_iter_next(const orr_tensor_iter *walk, orr_tensor_cursor *cursor)
{
    for (uint32_t d = walk->rank - 1; d-- > 0;) {
        const bool over = ++cursor->at[d] == walk->dim[d];
        for (uint32_t p = 0; p < walk->n; p++) {
            const int64_t stride = walk->part[p].stride[d];
            cursor->offset[p] += over ? stride * (1 - walk->dim[d]) : stride;
        }
        if (!over)
            return;
        cursor->at[d] = 0;
    }
}

static char *place(const orr_tensor_iter *walk, uint32_t p, const orr_tensor_cursor *cursor,
                   int64_t from)
{
    const orr_tensor_iter_part *part = &walk->part[p];
    return part->data + cursor->offset[p] + from * part->stride[walk->rank - 1];
}

static bool is_dense(const orr_tensor_iter *walk, uint32_t p)
{
    const orr_tensor_iter_part *part = &walk->part[p];
    return part->data != NULL && part->dtype == ORR_DTYPE_FP32 &&
           part->stride[walk->rank - 1] == (int64_t)sizeof(float);
}

const float *orr_tensor_iter_read(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor, int64_t from, int64_t n,
                                  float *buffer)
{
    const char *at = place(walk, p, cursor, from);
    if (is_dense(walk, p))
        return (const float *)at;
    orr_strided_to_fp32((orr_dtype)walk->part[p].dtype, at, walk->part[p].stride[walk->rank - 1], n,
                        buffer);
    return buffer;
}

float *orr_tensor_iter_buffer(const orr_tensor_iter *walk, uint32_t p,
                              const orr_tensor_cursor *cursor, int64_t from, float *buffer)
{
    return is_dense(walk, p) ? (float *)place(walk, p, cursor, from) : buffer;
}

void orr_tensor_iter_write(const orr_tensor_iter *walk, uint32_t p, const orr_tensor_cursor *cursor,
                           int64_t from, int64_t n, const float *values)
{
    if (walk->part[p].data == NULL)
        return;
    char *at = place(walk, p, cursor, from);
    if ((const void *)at != values)
        orr_strided_from_fp32((orr_dtype)walk->part[p].dtype, values, n,
                              walk->part[p].stride[walk->rank - 1], at);
}

float orr_tensor_iter_read_scalar(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor)
{
    const orr_tensor_iter_part *part = &walk->part[p];
    float value;
    orr_strided_to_fp32((orr_dtype)part->dtype, part->data + cursor->offset[p], 0, 1, &value);
    return value;
}

void orr_tensor_iter_write_scalar(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor, float value)
{
    const orr_tensor_iter_part *part = &walk->part[p];
    if (part->data != NULL)
        orr_strided_from_fp32((orr_dtype)part->dtype, &value, 1, 0, part->data + cursor->offset[p]);
}

static int64_t index_of(orr_dtype dtype, const char *at)
{
    if (dtype == ORR_DTYPE_INT64) {
        int64_t wide;
        __builtin_memcpy(&wide, at, sizeof wide);
        return wide;
    }
    int32_t narrow;
    __builtin_memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

int64_t orr_tensor_iter_read_index(const orr_tensor_iter *walk, uint32_t p,
                                   const orr_tensor_cursor *cursor)
{
    return index_of((orr_dtype)walk->part[p].dtype, walk->part[p].data + cursor->offset[p]);
}

orr_indices orr_indices_of(const orr_operand *operand)
{
    return (orr_indices){.of = operand,
                         .n = orr_type_elements(&operand->type),
                         .wide = operand->type.dtype == ORR_DTYPE_INT64,
                         .dense = orr_operand_is_contiguous(operand)};
}

int64_t orr_indices_at(const orr_indices *indices, int64_t i)
{
    const orr_type *type = &indices->of->type;
    int64_t at = i;
    if (!indices->dense) {
        at = 0;
        for (uint32_t d = type->rank; d-- > 0; i /= type->dim[d])
            at += i % type->dim[d] * indices->of->stride[d];
    }
    return index_of((orr_dtype)type->dtype,
                    (const char *)indices->of->data + at * (indices->wide ? 8 : 4));
}

typedef struct split {
    int64_t n, each;
    orr_range_body *body;
    void *ctx;
} split;

static void split_piece(void *ctx, size_t i, int thread)
{
    const split *s = ctx;
    (void)thread;
    const int64_t begin = (int64_t)i * s->each, left = s->n - begin;
    s->body(s->ctx, begin, begin + (left < s->each ? left : s->each));
}

void orr_parallel_ranges(int64_t n, int64_t each, orr_range_body *body, void *ctx,
                         orr_workers *workers)
{
    split s = {.n = n, .each = each, .body = body, .ctx = ctx};
    if (n > 0)
        orr_workers_run(workers, (size_t)((n - 1) / each + 1), split_piece, &s);
}
