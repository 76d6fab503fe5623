/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_TENSOR_ITERATOR_H
#define ORR_KERNEL_CPU_TENSOR_ITERATOR_H

#include <orrery/kernel.h>

#include "base/workers.h"

/* Kernels that go through tensors row by row compute in fp32, a chunk at a time: numbers of another
 * dtype, or with gaps between them, are read into a buffer of the first cache and written from one.
 * Beside what memory takes, that costs next to nothing.
 *
 * A walk is several tensors seen as rows of the same columns. Its parts are added, then it is
 * merged: dims that all parts see as one become one. */
enum { ORR_TENSOR_ITER_PARTS = 8, ORR_ELEMENT_CHUNK = 1024 };
typedef struct orr_tensor_iter_part {
    char *data; /* NULL: an output that no one wants                           */
    uint8_t dtype;
    int64_t stride[ORR_TYPE_DIMS]; /* bytes from one index of a dim to the next; 0: all the same  */
} orr_tensor_iter_part;
typedef struct orr_tensor_iter {
    uint32_t rank; /* at least 1; the last dim is the columns                     */
    int64_t dim[ORR_TYPE_DIMS];
    uint32_t n;
    orr_tensor_iter_part part[ORR_TENSOR_ITER_PARTS];
} orr_tensor_iter;

orr_tensor_iter orr_tensor_iter_over(const orr_type *dims);
/* An operand whose dims are those of the walk, or its last ones, or 1 where they differ. Returns
 * its number. */
uint32_t orr_tensor_iter_add(orr_tensor_iter *walk, const orr_operand *operand);
/* One that has a number for each row: all dims of the walk but the last. */
uint32_t orr_tensor_iter_add_per_row(orr_tensor_iter *walk, const orr_operand *operand);
/* `apart`: so many of the last dims stay as they are. */
void orr_tensor_iter_coalesce(orr_tensor_iter *walk, uint32_t apart);

static inline int64_t orr_tensor_iter_columns(const orr_tensor_iter *walk)
{
    return walk->dim[walk->rank - 1];
}
int64_t orr_tensor_iter_rows(const orr_tensor_iter *walk);

/* A row of it: byte offsets of all parts. */
typedef struct orr_tensor_cursor {
    int64_t at[ORR_TYPE_DIMS], offset[ORR_TENSOR_ITER_PARTS];
} orr_tensor_cursor;
void orr_tensor_iter_seek(const orr_tensor_iter *walk, int64_t row, orr_tensor_cursor *cursor);
void orr_tensor_iter_next(const orr_tensor_iter *walk, orr_tensor_cursor *cursor);

/* `n` numbers of the cursor's row of part p, from column `from` on: in place, or in `buffer`. */
const float *orr_tensor_iter_read(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor, int64_t from, int64_t n,
                                  float *buffer);
/* Where to write them: then orr_tensor_iter_write() what stands there. */
float *orr_tensor_iter_buffer(const orr_tensor_iter *walk, uint32_t p,
                              const orr_tensor_cursor *cursor, int64_t from, float *buffer);
void orr_tensor_iter_write(const orr_tensor_iter *walk, uint32_t p, const orr_tensor_cursor *cursor,
                           int64_t from, int64_t n, const float *values);
/* The number of the row in a part that has one for each. */
float orr_tensor_iter_read_scalar(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor);
void orr_tensor_iter_write_scalar(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor, float value);
/* The same of indices: INT32 or INT64. */
int64_t orr_tensor_iter_read_index(const orr_tensor_iter *walk, uint32_t p,
                                   const orr_tensor_cursor *cursor);
/* A tensor of INT32 or INT64, by row-major index. */
typedef struct orr_indices {
    const orr_operand *of;
    int64_t n;
    bool wide, dense;
} orr_indices;
orr_indices orr_indices_of(const orr_operand *operand);
int64_t orr_indices_at(const orr_indices *indices, int64_t i);

/* Kernels on elements. Of a span of up to ORR_ELEMENT_CHUNK elements, outputs may be where inputs
 * are. */
typedef struct orr_element_span {
    const float *in[ORR_TENSOR_ITER_PARTS];
    float *out[ORR_TENSOR_ITER_PARTS];
    int64_t n, index; /* index: of the first element, row-major */
} orr_element_span;
typedef void orr_elementwise_body(const void *ctx, const orr_element_span *span);
/* The first `n_in` parts of the walk are inputs, the others outputs. */
void orr_elementwise(orr_tensor_iter *walk, uint32_t n_in, bool accumulate,
                     orr_elementwise_body *body, const void *ctx, orr_workers *workers);

/* Output 0 is input 0. */
void orr_elementwise_copy(const void *ctx, const orr_element_span *span);

/* Pieces of up to `each` of `n`, and the pieces' ends: body(ctx, begin, end), for every piece.
 * Pieces do not depend on the number of threads. */
typedef void orr_range_body(void *ctx, int64_t begin, int64_t end);
void orr_parallel_ranges(int64_t n, int64_t each, orr_range_body *body, void *ctx,
                         orr_workers *workers);
/* Rows that make a piece of about 64 Ki elements. */
static inline int64_t orr_rows_per_range(int64_t columns)
{
    const int64_t rows = columns > 0 ? 65536 / columns : 1;
    return rows > 0 ? rows : 1;
}

#endif /* ORR_KERNEL_CPU_TENSOR_ITERATOR_H */
