/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* SUM over dims. x is seen as (kept, summed, columns); columns are the last dim if that is kept,
 * else 1, and the sum then goes along rows. Where few rows are kept the reduction has two stages: a
 * fixed number of parts is summed in the workspace, then the parts are added in order, so that
 * results do not depend on threads. */
enum { PARTS_MAX = 32, SUMMED_LEAST = 32, ENOUGH = 64, DIMS = ORR_TYPE_DIMS };
enum { STRIP = 8 * ORR_ELEMENT_CHUNK }; /* columns of a work item */

typedef struct summing {
    const orr_operand *x, *y;
    int64_t kept_dim[DIMS], kept_stride[DIMS], summed_dim[DIMS], summed_stride[DIMS];
    uint32_t n_kept, n_summed;
    int64_t kept, summed; /* indices of both */
    int64_t columns;      /* of y's rows; 1 where sums go along rows */
    int64_t along;        /* numbers of a row that are summed; 1 where columns are */
    int64_t step;         /* elements from one number of a row of x to the next */
    int64_t parts, strips;
    float *sums; /* shape (parts, kept, columns) */
    bool accumulate;
} summing;

static int64_t offset_of(uint32_t n, const int64_t *dim, const int64_t *stride, int64_t i)
{
    int64_t offset = 0;
    for (uint32_t d = n; d-- > 0; i /= dim[d])
        offset += i % dim[d] * stride[d];
    return offset;
}

static summing shape_of(const orr_kernel_call *call)
{
    const orr_operand *x = &call->in[0];
    const uint32_t first = (uint32_t)call->args->dim,
                   end = first + (uint32_t)(call->args->count > 0 ? call->args->count : 1);
    const uint32_t last = x->type.rank - 1u;
    summing s = {.x = x, .y = &call->out[0], .kept = 1, .summed = 1, .columns = 1, .along = 1};
    for (uint32_t d = 0; d < last; d++) {
        const bool summed = d >= first && d < end;
        uint32_t *n = summed ? &s.n_summed : &s.n_kept;
        (summed ? s.summed_dim : s.kept_dim)[*n] = x->type.dim[d];
        (summed ? s.summed_stride : s.kept_stride)[(*n)++] = x->stride[d];
        *(summed ? &s.summed : &s.kept) *= x->type.dim[d];
    }
    *(end > last ? &s.along : &s.columns) = x->type.dim[last];
    s.step = x->stride[last];
    s.strips = s.columns > 0 ? (s.columns - 1) / STRIP + 1 : 0;
    s.parts = s.kept * s.strips >= ENOUGH ? 1 : (s.summed + SUMMED_LEAST - 1) / SUMMED_LEAST;
    s.parts = s.parts < 1 ? 1 : s.parts > PARTS_MAX ? PARTS_MAX : s.parts;
    return s;
}

/* A row of x as an iterator of one part. */
static orr_tensor_iter row_of(const summing *s, int64_t kept, int64_t summed)
{
    const int64_t bytes = (int64_t)orr_dtype_bytes((orr_dtype)s->x->type.dtype);
    const int64_t at = offset_of(s->n_kept, s->kept_dim, s->kept_stride, kept) +
                       offset_of(s->n_summed, s->summed_dim, s->summed_stride, summed);
    return (orr_tensor_iter){.rank = 1,
                             .dim = {s->along > s->columns ? s->along : s->columns},
                             .n = 1,
                             .part = {{.data = (char *)s->x->data + at * bytes,
                                       .dtype = s->x->type.dtype,
                                       .stride = {s->step * bytes}}}};
}

/* Adds columns [from, from + n) of the rows of part `part` into row `kept`. */
static void sum_columns(const summing *s, int64_t kept, int64_t part, int64_t from, int64_t n)
{
    float buffer[ORR_ELEMENT_CHUNK];
    const orr_tensor_cursor start = {.at = {0}};
    float *sum = s->sums + (part * s->kept + kept) * s->columns + from;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t i = s->summed * part / s->parts; i < s->summed * (part + 1) / s->parts; i++) {
        const orr_tensor_iter row = row_of(s, kept, i);
        for (int64_t at = 0, some; at < n; at += some) {
            some = n - at < ORR_ELEMENT_CHUNK ? n - at : ORR_ELEMENT_CHUNK;
            orr_vector_math_of_cpu()->add(
                sum + at, orr_tensor_iter_read(&row, 0, &start, from + at, some, buffer), some,
                sum + at);
        }
    }
}

static void sum_rows(const summing *s, int64_t kept, int64_t part)
{
    float buffer[ORR_ELEMENT_CHUNK];
    const orr_tensor_cursor start = {.at = {0}};
    double sum = 0;
    for (int64_t i = s->summed * part / s->parts; i < s->summed * (part + 1) / s->parts; i++) {
        const orr_tensor_iter row = row_of(s, kept, i);
        for (int64_t from = 0, n; from < s->along; from += n) {
            n = s->along - from < ORR_ELEMENT_CHUNK ? s->along - from : ORR_ELEMENT_CHUNK;
            sum += (double)orr_vector_math_of_cpu()->sum(
                orr_tensor_iter_read(&row, 0, &start, from, n, buffer), n);
        }
    }
    s->sums[part * s->kept + kept] = (float)sum;
}

static void sum_pieces(void *ctx, int64_t begin, int64_t end)
{
    const summing *s = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int64_t part = i % s->parts, from = i / s->parts % s->strips * STRIP,
                      kept = i / s->parts / s->strips, left = s->columns - from;
        if (s->columns > 1 || s->along == 1)
            sum_columns(s, kept, part, from, left < STRIP ? left : STRIP);
        else
            sum_rows(s, kept, part);
    }
}

static orr_status sum_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    summing s = shape_of(call);
    s.sums = call->workspace;
    s.accumulate = call->accumulate;
    const int64_t made = s.kept * s.columns;
    if (made == 0 || s.y->data == NULL)
        return ORR_OK;
    const int64_t work = s.along * s.summed / s.parts * (s.columns / s.strips);
    orr_parallel_ranges(s.kept * s.strips * s.parts, orr_rows_per_range(work), sum_pieces, &s,
                        call->workers);
    for (int64_t p = 1; p < s.parts; p++)
        orr_vector_math_of_cpu()->add(s.sums, s.sums + p * made, made, s.sums);
    orr_tensor_iter walk = orr_tensor_iter_over(&s.y->type);
    orr_operand sums = {.type = s.y->type, .data = s.sums};
    sums.type.dtype = ORR_DTYPE_FP32;
    orr_operand_contiguous(&sums.type, sums.stride);
    orr_tensor_iter_add(&walk, &sums);
    orr_tensor_iter_add(&walk, s.y);
    orr_elementwise(&walk, 1, s.accumulate, orr_elementwise_copy, NULL, call->workers);
    return ORR_OK;
}

static size_t sum_workspace(const orr_kernel_call *call)
{
    const summing s = shape_of(call);
    return (size_t)(s.parts * s.kept * s.columns) * sizeof(float);
}

const orr_kernel_entry orr_cpu_SUM = {
    .run = sum_run, .workspace = sum_workspace, .accumulates = true};
