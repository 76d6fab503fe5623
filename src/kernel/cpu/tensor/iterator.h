/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_TENSOR_ITERATOR_H
#define ORR_KERNEL_CPU_TENSOR_ITERATOR_H

#include <orrery/kernel.h>

#include "base/workers.h"

/* Tensor iterator (cf. PyTorch's TensorIterator): several strided tensors seen as rows of the same
 * columns, for kernels that compute in fp32 a chunk of a row at a time. Parts (operands) are added,
 * then adjacent dims that are contiguous in all parts are coalesced. For example y (4, 6, 8) with
 * strides (48, 8, 1) and a bias (8) with strides (0, 0, 1) become rows (24) of columns (8), strides
 * (8, 1) and (0, 1).
 *
 * Elements of another dtype, or with gaps, are read into a buffer in L1 and written from one, at
 * little cost beside that of memory. */
enum { ORR_TENSOR_ITER_PARTS = 8, ORR_ELEMENT_CHUNK = 1024 };
typedef struct orr_tensor_iter_part {
    char *data; /* NULL: an output that is not wanted */
    uint8_t dtype;
    int64_t stride[ORR_TYPE_DIMS]; /* bytes from one index of a dim to the next; 0: broadcast */
} orr_tensor_iter_part;
typedef struct orr_tensor_iter {
    uint32_t rank; /* at least 1; the last dim is the columns */
    int64_t dim[ORR_TYPE_DIMS];
    uint32_t n;
    orr_tensor_iter_part part[ORR_TENSOR_ITER_PARTS];
} orr_tensor_iter;

orr_tensor_iter orr_tensor_iter_over(const orr_type *dims);
/* Adds an operand whose dims are those of the iterator, or its last ones, or 1 where they are
 * broadcast. Returns the part's number. */
uint32_t orr_tensor_iter_add(orr_tensor_iter *walk, const orr_operand *operand);
/* Adds an operand that has one element per row: all dims of the iterator but the last. */
uint32_t orr_tensor_iter_add_per_row(orr_tensor_iter *walk, const orr_operand *operand);
/* Coalesces dims; the last `apart` dims are left alone. */
void orr_tensor_iter_coalesce(orr_tensor_iter *walk, uint32_t apart);

static inline int64_t orr_tensor_iter_columns(const orr_tensor_iter *walk)
{
    return walk->dim[walk->rank - 1];
}
int64_t orr_tensor_iter_rows(const orr_tensor_iter *walk);

/* A position: the row's byte offset in each part. */
typedef struct orr_tensor_cursor {
    int64_t at[ORR_TYPE_DIMS], offset[ORR_TENSOR_ITER_PARTS];
} orr_tensor_cursor;
void orr_tensor_iter_seek(const orr_tensor_iter *walk, int64_t row, orr_tensor_cursor *cursor);
void orr_tensor_iter_next(const orr_tensor_iter *walk, orr_tensor_cursor *cursor);

/* Reads n elements of part p in the cursor's row, from column `from` on: in place, or into
 * `buffer`. */
const float *orr_tensor_iter_read(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor, int64_t from, int64_t n,
                                  float *buffer);
/* Where to compute n elements for part p: in place or in `buffer`; orr_tensor_iter_write() stores
 * them. */
float *orr_tensor_iter_buffer(const orr_tensor_iter *walk, uint32_t p,
                              const orr_tensor_cursor *cursor, int64_t from, float *buffer);
void orr_tensor_iter_write(const orr_tensor_iter *walk, uint32_t p, const orr_tensor_cursor *cursor,
                           int64_t from, int64_t n, const float *values);
/* The row's element of a part that has one per row. */
float orr_tensor_iter_read_scalar(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor);
void orr_tensor_iter_write_scalar(const orr_tensor_iter *walk, uint32_t p,
                                  const orr_tensor_cursor *cursor, float value);
/* The same for indices: INT32 or INT64. */
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

/* A span of up to ORR_ELEMENT_CHUNK elements for an elementwise kernel. Outputs may alias
 * inputs. */
typedef struct orr_element_span {
    const float *in[ORR_TENSOR_ITER_PARTS];
    float *out[ORR_TENSOR_ITER_PARTS];
    int64_t n, index; /* index: row-major, of the first element */
} orr_element_span;
typedef void orr_elementwise_body(const void *ctx, const orr_element_span *span);
/* Runs an elementwise kernel. The first `n_in` parts of the iterator are inputs, the others
 * outputs. */
void orr_elementwise(orr_tensor_iter *walk, uint32_t n_in, bool accumulate,
                     orr_elementwise_body *body, const void *ctx, orr_workers *workers);

/* The identity kernel: output 0 = input 0. */
void orr_elementwise_copy(const void *ctx, const orr_element_span *span);

/* Parallel loop over ranges of up to `each` of n indices: body(ctx, begin, end) for each. Ranges do
 * not depend on the number of threads. */
typedef void orr_range_body(void *ctx, int64_t begin, int64_t end);
void orr_parallel_ranges(int64_t n, int64_t each, orr_range_body *body, void *ctx,
                         orr_workers *workers);
/* Rows of a range of about 64 Ki elements (grain size). */
static inline int64_t orr_rows_per_range(int64_t columns)
{
    const int64_t rows = columns > 0 ? 65536 / columns : 1;
    return rows > 0 ? rows : 1;
}

#endif /* ORR_KERNEL_CPU_TENSOR_ITERATOR_H */
