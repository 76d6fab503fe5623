/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Softmax of rows: exponentials are written once, then divided by their sum. Masked elements are 0;
 * a row that is masked altogether is all 0. */
typedef struct softmax {
    orr_tensor_iter walk; /* not coalesced: rows count queries */
    const orr_op_args *args;
    const int64_t *first;
    int64_t columns, queries, samples_rows; /* rows of a sample */
} softmax;

enum { HELD = 8 * ORR_ELEMENT_CHUNK }; /* numbers of a row kept between the two passes */

typedef struct seen {
    int64_t begin, end;
} seen;

static seen seen_by(const softmax *s, int64_t row)
{
    if (s->args->mask == ORR_MASK_NONE)
        return (seen){0, s->columns};
    const int64_t offset = s->first != NULL ? s->first[row / s->samples_rows] : s->args->offset;
    const int64_t position = offset + row % s->queries;
    seen sees = {0, position + 1 < s->columns ? position + 1 : s->columns};
    if (s->args->mask == ORR_MASK_CHUNKED)
        sees.begin = position / s->args->window * s->args->window;
    if (sees.begin >= sees.end)
        sees = (seen){0, 0};
    return sees;
}

static int64_t chunk(int64_t from, int64_t end)
{
    return end - from < ORR_ELEMENT_CHUNK ? end - from : ORR_ELEMENT_CHUNK;
}

static float most_of(const softmax *s, const orr_tensor_cursor *cursor, seen sees)
{
    float buffer[ORR_ELEMENT_CHUNK], most = -INFINITY;
    for (int64_t from = sees.begin, n; from < sees.end; from += n) {
        n = chunk(from, sees.end);
        most = fmaxf(most, orr_vector_math_of_cpu()->most(
                               orr_tensor_iter_read(&s->walk, 0, cursor, from, n, buffer), n));
    }
    return most;
}

/* Exponentials of the visible elements of a row, and their sum; kept in `held` if they fit. */
static double sum_of(const softmax *s, const orr_tensor_cursor *cursor, seen sees, float most,
                     float *held)
{
    float buffer[ORR_ELEMENT_CHUNK];
    double sum = 0;
    for (int64_t from = sees.begin, n; from < sees.end; from += n) {
        n = chunk(from, sees.end);
        const float *x = orr_tensor_iter_read(&s->walk, 0, cursor, from, n, buffer);
        sum += (double)(held != NULL ? orr_vector_math_of_cpu()->exp_write(x, most, n,
                                                                           held + from - sees.begin)
                                     : orr_vector_math_of_cpu()->exp_sum(x, most, n));
    }
    return sum;
}

static void hide(const softmax *s, const orr_tensor_cursor *cursor, int64_t begin, int64_t end)
{
    float zeros[ORR_ELEMENT_CHUNK];
    if (begin >= end)
        return;
    orr_vector_math_of_cpu()->fill(0, chunk(0, end - begin), zeros);
    for (int64_t from = begin, n; from < end; from += n) {
        n = chunk(from, end);
        orr_tensor_iter_write(&s->walk, 1, cursor, from, n, zeros);
    }
}

static void softmax_row(const softmax *s, int64_t row, const orr_tensor_cursor *cursor, float *room)
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    float in[ORR_ELEMENT_CHUNK], out[ORR_ELEMENT_CHUNK];
    const seen sees = seen_by(s, row);
    float *held = sees.end - sees.begin <= HELD ? room : NULL;
    float most = most_of(s, cursor, sees);
    most = isinf(most) && most < 0 ? 0 : most;
    const double sum = sum_of(s, cursor, sees, most, held);
    const float factor = sum != 0 ? (float)(1 / sum) : 0;
    for (int64_t from = sees.begin, n; from < sees.end; from += n) {
        n = chunk(from, sees.end);
        const float *x =
            held != NULL ? NULL : orr_tensor_iter_read(&s->walk, 0, cursor, from, n, in);
        float *y = orr_tensor_iter_buffer(&s->walk, 1, cursor, from, out);
        if (held != NULL)
            math->scale(held + from - sees.begin, factor, n, y);
        else
            math->exp_scaled(x, most, factor, n, y);
        orr_tensor_iter_write(&s->walk, 1, cursor, from, n, y);
    }
    hide(s, cursor, 0, sees.begin);
    hide(s, cursor, sees.end, s->columns);
}

static void softmax_rows(void *ctx, int64_t begin, int64_t end)
{
    const softmax *s = ctx;
    float room[HELD];
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&s->walk, begin, &cursor);
    for (int64_t row = begin; row < end; row++, orr_tensor_iter_next(&s->walk, &cursor))
        softmax_row(s, row, &cursor, room);
}

static softmax rows_of(const orr_kernel_call *call)
{
    const orr_type *x = &call->in[0].type;
    softmax s = {.walk = orr_tensor_iter_over(x),
                 .args = call->args,
                 .first = call->first,
                 .columns = x->dim[x->rank - 1],
                 .queries = x->rank > 1 ? x->dim[x->rank - 2] : 1,
                 .samples_rows = 1};
    for (uint32_t d = 1; d + 1 < x->rank; d++)
        s.samples_rows *= x->dim[d];
    for (uint32_t k = 0; k < call->n_in; k++)
        orr_tensor_iter_add(&s.walk, &call->in[k]);
    orr_tensor_iter_add(&s.walk, &call->out[0]);
    return s;
}

static orr_status softmax_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    softmax s = rows_of(call);
    if (call->out[0].data != NULL)
        orr_parallel_ranges(orr_tensor_iter_rows(&s.walk), orr_rows_per_range(s.columns),
                            softmax_rows, &s, call->workers);
    return ORR_OK;
}

static void gradient_rows(void *ctx, int64_t begin, int64_t end)
{
    enum { DY, Y, DX };
    const softmax *s = ctx;
    const orr_vector_math *math = orr_vector_math_of_cpu();
    float a[ORR_ELEMENT_CHUNK], b[ORR_ELEMENT_CHUNK], made[ORR_ELEMENT_CHUNK];
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&s->walk, begin, &cursor);
    for (int64_t row = begin; row < end; row++, orr_tensor_iter_next(&s->walk, &cursor)) {
        double dot = 0;
        for (int64_t from = 0, n; from < s->columns; from += n) {
            n = chunk(from, s->columns);
            const float *dy = orr_tensor_iter_read(&s->walk, DY, &cursor, from, n, a);
            const float *y = orr_tensor_iter_read(&s->walk, Y, &cursor, from, n, b);
            dot += (double)math->dot(dy, y, n);
        }
        for (int64_t from = 0, n; from < s->columns; from += n) {
            n = chunk(from, s->columns);
            const float *dy = orr_tensor_iter_read(&s->walk, DY, &cursor, from, n, a);
            const float *y = orr_tensor_iter_read(&s->walk, Y, &cursor, from, n, b);
            float *dx = orr_tensor_iter_buffer(&s->walk, DX, &cursor, from, made);
            math->softmax_gradient(dy, y, (float)dot, n, dx);
            orr_tensor_iter_write(&s->walk, DX, &cursor, from, n, dx);
        }
    }
}

static orr_status softmax_back_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    softmax s = rows_of(call);
    orr_tensor_iter_coalesce(&s.walk, 1);
    if (call->out[0].data != NULL)
        orr_parallel_ranges(orr_tensor_iter_rows(&s.walk), orr_rows_per_range(s.columns),
                            gradient_rows, &s, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_SOFTMAX = {.run = softmax_run};
const orr_kernel_entry orr_cpu_SOFTMAX_BACKWARD = {.run = softmax_back_run};
