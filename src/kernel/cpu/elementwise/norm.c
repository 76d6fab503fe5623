/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Layer norm and RMS norm, forward, a row at a time: the row is read twice, the second time from
 * L1. Sums of chunks are added in double precision. */
typedef struct norms {
    orr_tensor_iter walk;
    uint32_t w, b, y, m, r; /* parts of the iterator; x is part 0 */
    double epsilon;
} norms;
enum { NONE = ORR_TENSOR_ITER_PARTS, HELD = 8 * ORR_ELEMENT_CHUNK };

typedef struct norm_row {
    const norms *norm;
    const orr_tensor_cursor *cursor;
    int64_t columns;
    float *buffer;     /* shape (HELD) */
    const float *held; /* a row that fits one chunk is converted once */
} norm_row;

static const float *chunk_of(norm_row *row, int64_t from, int64_t *ret_n)
{
    const int64_t left = row->columns - from;
    const bool fits = row->columns <= HELD;
    *ret_n = left < ORR_ELEMENT_CHUNK ? left : ORR_ELEMENT_CHUNK;
    if (row->held == NULL && fits)
        row->held =
            orr_tensor_iter_read(&row->norm->walk, 0, row->cursor, 0, row->columns, row->buffer);
    return fits ? row->held + from
                : orr_tensor_iter_read(&row->norm->walk, 0, row->cursor, from, *ret_n, row->buffer);
}

static double mean_of(norm_row *row)
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    double sum = 0;
    for (int64_t from = 0, n; from < row->columns; from += n) {
        const float *x = chunk_of(row, from, &n);
        sum += math->sum(x, n);
    }
    return sum / (double)row->columns;
}

static double square_of(norm_row *row, float mean)
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    double sum = 0;
    for (int64_t from = 0, n; from < row->columns; from += n) {
        const float *x = chunk_of(row, from, &n);
        sum += math->spread(x, mean, n);
    }
    return sum / (double)row->columns;
}

static const float *weights_of(const norms *norm, uint32_t part, const orr_tensor_cursor *cursor,
                               int64_t from, int64_t n, float *buffer)
{
    return part == NONE ? NULL : orr_tensor_iter_read(&norm->walk, part, cursor, from, n, buffer);
}

static void apply(norm_row *row, float m, float r, float (*buffers)[ORR_ELEMENT_CHUNK])
{
    const norms *norm = row->norm;
    for (int64_t from = 0, n; from < row->columns; from += n) {
        const float *x = chunk_of(row, from, &n);
        const float *w = weights_of(norm, norm->w, row->cursor, from, n, buffers[0]);
        const float *b = weights_of(norm, norm->b, row->cursor, from, n, buffers[1]);
        float *y = orr_tensor_iter_buffer(&norm->walk, norm->y, row->cursor, from, buffers[2]);
        orr_vector_math_of_cpu()->norm(x, w, b, m, r, n, y);
        orr_tensor_iter_write(&norm->walk, norm->y, row->cursor, from, n, y);
    }
}

static void norm_rows(void *ctx, int64_t begin, int64_t end)
{
    const norms *norm = ctx;
    _Alignas(64) float buffers[3][ORR_ELEMENT_CHUNK], held[HELD];
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&norm->walk, begin, &cursor);
    for (int64_t i = begin; i < end; i++, orr_tensor_iter_next(&norm->walk, &cursor)) {
        norm_row row = {.norm = norm,
                        .cursor = &cursor,
                        .columns = orr_tensor_iter_columns(&norm->walk),
                        .buffer = held};
        const double m = norm->m == NONE ? 0 : mean_of(&row);
        const double r = 1 / sqrt(square_of(&row, (float)m) + norm->epsilon);
        apply(&row, (float)m, (float)r, buffers);
        if (norm->m != NONE)
            orr_tensor_iter_write_scalar(&norm->walk, norm->m, &cursor, (float)m);
        if (norm->r != NONE)
            orr_tensor_iter_write_scalar(&norm->walk, norm->r, &cursor, (float)r);
    }
}

static orr_status norm_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const bool layer = call->op == ORR_OP_LAYER_NORM;
    norms n = {.walk = orr_tensor_iter_over(&call->in[0].type),
               .w = NONE,
               .b = NONE,
               .m = NONE,
               .r = NONE,
               .epsilon = call->args->value};
    orr_tensor_iter_add(&n.walk, &call->in[0]);
    if (call->n_in > 1)
        n.w = orr_tensor_iter_add(&n.walk, &call->in[1]);
    if (call->n_in > 2)
        n.b = orr_tensor_iter_add(&n.walk, &call->in[2]);
    n.y = orr_tensor_iter_add(&n.walk, &call->out[0]);
    if (layer)
        n.m = orr_tensor_iter_add_per_row(&n.walk, &call->out[1]);
    if (call->n_out > (layer ? 2 : 1))
        n.r = orr_tensor_iter_add_per_row(&n.walk, &call->out[layer ? 2 : 1]);
    orr_tensor_iter_coalesce(&n.walk, 1);
    orr_parallel_ranges(orr_tensor_iter_rows(&n.walk),
                        orr_rows_per_range(orr_tensor_iter_columns(&n.walk)), norm_rows, &n,
                        call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_RMS_NORM = {.run = norm_run};
const orr_kernel_entry orr_cpu_LAYER_NORM = {.run = norm_run};
