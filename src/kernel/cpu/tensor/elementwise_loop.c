/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"

/* Elementwise kernels: runs a body over chunks of elements that fit L1 buffers. */
typedef struct each {
    orr_tensor_iter *walk;
    uint32_t n_in;
    bool accumulate;
    orr_elementwise_body *body;
    const void *ctx;
    int64_t chunks; /* chunks of a row */
} each;

/* Buffers for parts that are not computed in place, at most all eight. */
enum { BUFFERS = ORR_TENSOR_ITER_PARTS };

static void run_span(const each *e, const orr_tensor_cursor *cursor, int64_t row, int64_t from,
                     float (*buffers)[ORR_ELEMENT_CHUNK])
{
    const orr_tensor_iter *walk = e->walk;
    const int64_t columns = orr_tensor_iter_columns(walk), left = columns - from;
    orr_element_span span = {.n = left < ORR_ELEMENT_CHUNK ? left : ORR_ELEMENT_CHUNK,
                             .index = row * columns + from};
    const float *old = NULL;
    for (uint32_t p = 0; p < e->n_in; p++)
        span.in[p] = orr_tensor_iter_read(walk, p, cursor, from, span.n, buffers[p]);
    for (uint32_t p = e->n_in; p < walk->n; p++)
        span.out[p - e->n_in] = orr_tensor_iter_buffer(walk, p, cursor, from, buffers[p]);
    if (e->accumulate) {
        old = orr_tensor_iter_read(walk, e->n_in, cursor, from, span.n, buffers[BUFFERS]);
        span.out[0] = buffers[e->n_in];
    }
    e->body(e->ctx, &span);
    if (e->accumulate)
        orr_vector_math_of_cpu()->add(old, span.out[0], span.n, span.out[0]);
    for (uint32_t p = e->n_in; p < walk->n; p++)
        orr_tensor_iter_write(walk, p, cursor, from, span.n, span.out[p - e->n_in]);
}

static void run_chunks(void *ctx, int64_t begin, int64_t end)
{
    const each *e = ctx;
    _Alignas(64) float buffers[BUFFERS + 1][ORR_ELEMENT_CHUNK];
    orr_tensor_cursor cursor;
    int64_t row = begin / e->chunks, chunk = begin % e->chunks;
    orr_tensor_iter_seek(e->walk, row, &cursor);
    for (int64_t i = begin; i < end; i++) {
        run_span(e, &cursor, row, chunk * ORR_ELEMENT_CHUNK, buffers);
        if (++chunk < e->chunks)
            continue;
        chunk = 0;
        row++;
        orr_tensor_iter_next(e->walk, &cursor);
    }
}

void orr_elementwise_copy(const void *ctx, const orr_element_span *span)
{
    (void)ctx;
    if (span->in[0] != span->out[0])
        memcpy(span->out[0], span->in[0], (size_t)span->n * sizeof(float));
}

void orr_elementwise(orr_tensor_iter *walk, uint32_t n_in, bool accumulate,
                     orr_elementwise_body *body, const void *ctx, orr_workers *workers)
{
    orr_tensor_iter_coalesce(walk, 0);
    const int64_t columns = orr_tensor_iter_columns(walk), rows = orr_tensor_iter_rows(walk);
    if (columns == 0 || rows == 0)
        return;
    each e = {.walk = walk,
              .n_in = n_in,
              .accumulate = accumulate && walk->n > n_in && walk->part[n_in].data != NULL,
              .body = body,
              .ctx = ctx,
              .chunks = (columns - 1) / ORR_ELEMENT_CHUNK + 1};
    const int64_t width = columns < ORR_ELEMENT_CHUNK ? columns : ORR_ELEMENT_CHUNK;
    orr_parallel_ranges(rows * e.chunks, orr_rows_per_range(width), run_chunks, &e, workers);
}
