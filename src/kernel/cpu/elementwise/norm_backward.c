/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Backward layer norm and RMS norm. With e = dy w and h = (x - m) r,
 *
 *   dx = r (e - mean(e) - h mean(e h)),  dw = sum over rows of dy h
 *
 * (mean(e) for layer norm only). dw is a two-stage deterministic reduction: rows are divided into a
 * fixed number of parts, each part is summed in the workspace, then the parts are added in order.
 * `accumulate` refers to dw. */
enum { PARTS_MAX = 32, ROWS_LEAST = 16, DY = 0, X = 1 };
enum { CHUNK = 4 * ORR_ELEMENT_CHUNK }; /* longer than other chunks: a row that fits is read once */

typedef struct norm_back {
    orr_tensor_iter walk;
    uint32_t m, r, w, dx; /* parts of the iterator */
    bool centred, weighed;
    float *sums; /* shape (parts, columns); NULL: dw is not wanted */
    int64_t rows, columns, parts;
    const orr_operand *dw;
    bool accumulate;
} norm_back;

static int64_t parts_of(int64_t rows)
{
    const int64_t parts = (rows + ROWS_LEAST - 1) / ROWS_LEAST;
    return parts < 1 ? 1 : parts > PARTS_MAX ? PARTS_MAX : parts;
}

typedef struct back_row {
    const orr_tensor_cursor *cursor;
    float m, r;
} back_row;

typedef struct back_chunk {
    const float *dy, *x, *w;
    int64_t n;
} back_chunk;

/* A chunk of the row; a row of one chunk is not read again. */
static back_chunk chunk_at(const norm_back *b, const orr_tensor_cursor *cursor, int64_t from,
                           float (*buffers)[CHUNK])
{
    const int64_t left = b->columns - from, n = left < CHUNK ? left : CHUNK;
    return (back_chunk){
        .n = n,
        .dy = orr_tensor_iter_read(&b->walk, DY, cursor, from, n, buffers[0]),
        .x = orr_tensor_iter_read(&b->walk, X, cursor, from, n, buffers[1]),
        .w = b->weighed ? orr_tensor_iter_read(&b->walk, b->w, cursor, from, n, buffers[2]) : NULL,
    };
}

static void back_of_row(const norm_back *b, const back_row *row, float *dw, float (*buffers)[CHUNK])
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    back_chunk c = {.n = 0};
    double sums[2] = {0, 0};
    for (int64_t from = 0; from < b->columns; from += c.n) {
        c = chunk_at(b, row->cursor, from, buffers);
        math->norm_sums(c.dy, c.x, c.w, row->m, row->r, c.n, sums);
    }
    const float mean = b->centred ? (float)(sums[0] / (double)b->columns) : 0;
    const float product = (float)(sums[1] / (double)b->columns);
    for (int64_t from = 0; from < b->columns; from += c.n) {
        if (b->columns > CHUNK)
            c = chunk_at(b, row->cursor, from, buffers);
        float *dx = orr_tensor_iter_buffer(&b->walk, b->dx, row->cursor, from, buffers[3]);
        math->norm_gradient(c.dy, c.x, c.w, row->m, row->r, mean, product, c.n, dx,
                            dw != NULL ? dw + from : NULL);
        orr_tensor_iter_write(&b->walk, b->dx, row->cursor, from, c.n, dx);
    }
}

static void back_part(void *ctx, size_t part, int thread)
{
    const norm_back *b = ctx;
    (void)thread;
    _Alignas(64) float buffers[4][CHUNK];
    orr_tensor_cursor cursor;
    const int64_t p = (int64_t)part, begin = b->rows * p / b->parts,
                  end = b->rows * (p + 1) / b->parts;
    float *dw = b->sums != NULL ? b->sums + p * b->columns : NULL;
    if (dw != NULL)
        memset(dw, 0, (size_t)b->columns * sizeof *dw);
    if (begin == end)
        return;
    orr_tensor_iter_seek(&b->walk, begin, &cursor);
    for (int64_t i = begin; i < end; i++, orr_tensor_iter_next(&b->walk, &cursor)) {
        const back_row row = {.cursor = &cursor,
                              .m = b->centred ? orr_tensor_iter_read_scalar(&b->walk, b->m, &cursor)
                                              : 0,
                              .r = orr_tensor_iter_read_scalar(&b->walk, b->r, &cursor)};
        back_of_row(b, &row, dw, buffers);
    }
}

/* Columns [begin, end) of dw, at most a chunk. */
static void add_parts(void *ctx, int64_t begin, int64_t end)
{
    const norm_back *b = ctx;
    float *sum = b->sums + begin;
    float old[ORR_ELEMENT_CHUNK];
    const orr_tensor_cursor start = {.at = {0}};
    orr_tensor_iter walk = orr_tensor_iter_over(&b->dw->type);
    orr_tensor_iter_add(&walk, b->dw);
    for (int64_t p = 1; p < b->parts; p++)
        orr_vector_math_of_cpu()->add(sum, sum + p * b->columns, end - begin, sum);
    if (b->accumulate)
        orr_vector_math_of_cpu()->add(
            orr_tensor_iter_read(&walk, 0, &start, begin, end - begin, old), sum, end - begin, sum);
    orr_tensor_iter_write(&walk, 0, &start, begin, end - begin, sum);
}

static bool wants_weight(const orr_kernel_call *call)
{
    return call->n_out > 1;
}

static orr_status back_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const uint32_t r = call->op == ORR_OP_LAYER_NORM_BACKWARD ? 3 : 2;
    norm_back b = {.walk = orr_tensor_iter_over(&call->in[X].type),
                   .centred = r == 3,
                   .weighed = call->n_in > r + 1,
                   .accumulate = call->accumulate};
    orr_tensor_iter_add(&b.walk, &call->in[DY]);
    orr_tensor_iter_add(&b.walk, &call->in[X]);
    if (b.centred)
        b.m = orr_tensor_iter_add_per_row(&b.walk, &call->in[2]);
    b.r = orr_tensor_iter_add_per_row(&b.walk, &call->in[r]);
    if (b.weighed)
        b.w = orr_tensor_iter_add(&b.walk, &call->in[r + 1]);
    b.dx = orr_tensor_iter_add(&b.walk, &call->out[0]);
    orr_tensor_iter_coalesce(&b.walk, 1);
    b.rows = orr_tensor_iter_rows(&b.walk);
    b.columns = orr_tensor_iter_columns(&b.walk);
    b.parts = parts_of(b.rows);
    if (wants_weight(call) && call->out[1].data != NULL) {
        b.sums = call->workspace;
        b.dw = &call->out[1];
    }
    orr_workers_run(call->workers, (size_t)b.parts, back_part, &b);
    if (b.sums != NULL)
        orr_parallel_ranges(b.columns, ORR_ELEMENT_CHUNK, add_parts, &b, call->workers);
    return ORR_OK;
}

static size_t back_workspace(const orr_kernel_call *call)
{
    const orr_type *x = &call->in[X].type;
    if (!wants_weight(call) || x->rank == 0)
        return 0;
    int64_t rows = 1;
    for (uint32_t d = 0; d + 1 < x->rank; d++)
        rows *= x->dim[d];
    return (size_t)(parts_of(rows) * x->dim[x->rank - 1]) * sizeof(float);
}

const orr_kernel_entry orr_cpu_RMS_NORM_BACKWARD = {
    .run = back_run, .workspace = back_workspace, .accumulates = true};
const orr_kernel_entry orr_cpu_LAYER_NORM_BACKWARD = {
    .run = back_run, .workspace = back_workspace, .accumulates = true};
