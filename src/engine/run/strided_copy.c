/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/workers.h"
#include "engine/run/program_state.h"

/* Strided copies on the host. Dims that are contiguous on both sides are coalesced, and contiguous
 * innermost rows are copied by memcpy. */

enum { PIECE_BYTES = 256 << 10 };

typedef struct move {
    int64_t dim[ORR_TYPE_DIMS], to[ORR_TYPE_DIMS], from[ORR_TYPE_DIMS]; /* strides: bytes */
    int n_dims;                                                         /* dims of rows */
    int64_t rows, rows_each;
    int64_t run, run_to, run_from; /* of a row: elements, and their strides in bytes */
    int64_t element_bytes;
    char *into;
    const char *of;
} move;

static void add_dim(move *m, int64_t dim, int64_t to, int64_t from)
{
    if (dim == 1)
        return;
    if (m->n_dims > 0) {
        const int last = m->n_dims - 1;
        if (m->to[last] == dim * to && m->from[last] == dim * from) {
            m->dim[last] *= dim;
            m->to[last] = to;
            m->from[last] = from;
            return;
        }
    }
    m->dim[m->n_dims] = dim;
    m->to[m->n_dims] = to;
    m->from[m->n_dims++] = from;
}

static void copy_row(const move *m, char *to, const char *from)
{
    if (m->run_to == m->element_bytes && m->run_from == m->element_bytes) {
        memcpy(to, from, (size_t)(m->run * m->element_bytes));
        return;
    }
    for (int64_t i = 0; i < m->run; i++)
        memcpy(to + i * m->run_to, from + i * m->run_from, (size_t)m->element_bytes);
}

static void copy_rows(void *ctx, size_t piece, int thread)
{
    const move *m = ctx;
    (void)thread;
    const int64_t begin = (int64_t)piece * m->rows_each;
    const int64_t end = begin + m->rows_each < m->rows ? begin + m->rows_each : m->rows;
    for (int64_t row = begin; row < end; row++) {
        int64_t to = 0, from = 0, rest = row;
        for (int d = m->n_dims - 1; d >= 0; d--) {
            to += rest % m->dim[d] * m->to[d];
            from += rest % m->dim[d] * m->from[d];
            rest /= m->dim[d];
        }
        copy_row(m, m->into + to, m->of + from);
    }
}

void orr_strided_copy(const orr_operand *to, const orr_operand *from, orr_workers *workers)
{
    const int64_t bytes = orr_element_bits(to->type.dtype) / 8;
    move m = {.element_bytes = bytes, .rows = 1, .run = 1, .into = to->data, .of = from->data};
    if (orr_type_elements(&to->type) <= 0 || to->data == from->data)
        return;
    if (bytes == 0) { /* below a byte: contiguous by the choice of locations */
        memcpy(to->data, from->data, (size_t)orr_type_bytes(&to->type));
        return;
    }
    for (int d = 0; d < to->type.rank; d++)
        add_dim(&m, to->type.dim[d], to->stride[d] * bytes, from->stride[d] * bytes);
    m.run_to = m.run_from = bytes;
    if (m.n_dims > 0) {
        m.run = m.dim[--m.n_dims];
        m.run_to = m.to[m.n_dims];
        m.run_from = m.from[m.n_dims];
    }
    for (int d = 0; d < m.n_dims; d++)
        m.rows *= m.dim[d];
    const int64_t each = PIECE_BYTES / (m.run * bytes) + 1;
    m.rows_each = each;
    orr_workers_run(workers, (size_t)((m.rows + each - 1) / each), copy_rows, &m);
}

orr_operand orr_operand_slice(const orr_operand *whole, int32_t dim, int64_t begin, int64_t count)
{
    orr_operand part = *whole;
    part.type.dim[dim] = count;
    part.data =
        (char *)whole->data + begin * whole->stride[dim] * orr_element_bits(whole->type.dtype) / 8;
    return part;
}

orr_operand orr_operand_dense(const orr_type *type, void *data)
{
    orr_operand operand = {.type = *type, .data = data};
    orr_operand_contiguous(type, operand.stride);
    return operand;
}
