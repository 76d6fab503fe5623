/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "kernel/format/row.h"
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/tensor/radix_sort.h"

/* Embedding lookup: a table row for each id. With a sliced vocabulary (args.count) ids of other
 * slices give zeros; otherwise ids out of range are an error. The table is a tensor, or stored rows
 * of any format. */
typedef struct lookup {
    orr_tensor_iter y;              /* rows of y */
    orr_tensor_iter table;          /* rows of the tensor */
    const orr_weight_rows *rows_of; /* or stored rows */
    orr_indices ids;
    int64_t begin, rows, columns;
    bool sliced;
    _Atomic int64_t stray; /* first position of an invalid id; -1: none */
} lookup;

static void note_stray(lookup *l, int64_t at)
{
    int64_t seen = atomic_load(&l->stray);
    while ((seen < 0 || at < seen) && !atomic_compare_exchange_weak(&l->stray, &seen, at))
        continue;
}

/* Reads numbers of a table row; a negative row: zeros. */
static const float *read_row(const lookup *l, int64_t row, int64_t from, int64_t n, float *buffer)
{
    orr_tensor_cursor cursor;
    if (row < 0) {
        orr_vector_math_of_cpu()->fill(0, n, buffer);
        return buffer;
    }
    if (l->rows_of != NULL) {
        orr_row_range_to_fp32((orr_row_format)l->rows_of->format, orr_row_at(l->rows_of, row), from,
                              n, buffer);
        return buffer;
    }
    orr_tensor_iter_seek(&l->table, row, &cursor);
    return orr_tensor_iter_read(&l->table, 0, &cursor, from, n, buffer);
}

static void look_up(void *ctx, int64_t begin, int64_t end)
{
    lookup *l = ctx;
    float buffer[ORR_ELEMENT_CHUNK];
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&l->y, begin, &cursor);
    for (int64_t i = begin; i < end; i++, orr_tensor_iter_next(&l->y, &cursor)) {
        const int64_t row = orr_indices_at(&l->ids, i) - l->begin;
        const bool here = row >= 0 && row < l->rows;
        if (!here && !l->sliced)
            note_stray(l, i);
        for (int64_t at = 0, n; at < l->columns; at += n) {
            n = l->columns - at < ORR_ELEMENT_CHUNK ? l->columns - at : ORR_ELEMENT_CHUNK;
            orr_tensor_iter_write(&l->y, 0, &cursor, at, n,
                                  read_row(l, here ? row : -1, at, n, buffer));
        }
    }
}

static orr_status embedding_run(const orr_kernel_call *call, orr_error *err)
{
    const orr_operand *table = &call->in[0];
    lookup l = {.y = orr_tensor_iter_over(&call->out[0].type),
                .table = orr_tensor_iter_over(&table->type),
                .rows_of = table->data == NULL ? table->rows : NULL,
                .ids = orr_indices_of(&call->in[1]),
                .begin = call->args->begin,
                .rows = table->type.dim[0],
                .columns = table->type.dim[1],
                .sliced = call->args->count > 0,
                .stray = -1};
    if (l.columns == 0)
        return ORR_OK;
    orr_tensor_iter_add(&l.y, &call->out[0]);
    orr_tensor_iter_add(&l.table, table);
    orr_parallel_ranges(l.ids.n, orr_rows_per_range(l.columns), look_up, &l, call->workers);
    const int64_t stray = atomic_load(&l.stray);
    if (stray >= 0)
        return orr_fail(err, ORR_INVALID, "embedding: id %lld, at %lld, of a table of %lld rows",
                        (long long)orr_indices_at(&l.ids, stray), (long long)stray,
                        (long long)l.rows);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_EMBEDDING = {.run = embedding_run};

/* Backward: ids are sorted, so that each table row sums its gradients in fp32 in id order and is
 * written once. Ids of other slices are skipped. */
typedef struct scatter {
    orr_tensor_iter grad, table;
    orr_indices ids;
    const uint32_t *order; /* positions sorted by id */
    int64_t begin, rows, columns;
    bool accumulate;
} scatter;
enum { ROWS_EACH = 64 };

/* First place in the order whose id is at least `id` (binary search). */
static int64_t place_of(const scatter *s, int64_t id)
{
    int64_t low = 0, high = s->ids.n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (orr_indices_at(&s->ids, s->order[middle]) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void sum_row(const scatter *s, const orr_tensor_cursor *to, int64_t first, int64_t last)
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    float sum[ORR_ELEMENT_CHUNK], buffer[ORR_ELEMENT_CHUNK];
    for (int64_t at = 0, n; at < s->columns; at += n) {
        n = s->columns - at < ORR_ELEMENT_CHUNK ? s->columns - at : ORR_ELEMENT_CHUNK;
        math->fill(0, n, sum);
        if (s->accumulate)
            math->add(sum, orr_tensor_iter_read(&s->table, 0, to, at, n, buffer), n, sum);
        for (int64_t i = first; i < last; i++) {
            orr_tensor_cursor from;
            orr_tensor_iter_seek(&s->grad, s->order[i], &from);
            math->add(sum, orr_tensor_iter_read(&s->grad, 0, &from, at, n, buffer), n, sum);
        }
        orr_tensor_iter_write(&s->table, 0, to, at, n, sum);
    }
}

static void sum_rows(void *ctx, int64_t begin, int64_t end)
{
    const scatter *s = ctx;
    int64_t first = place_of(s, s->begin + begin);
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&s->table, begin, &cursor);
    for (int64_t row = begin; row < end; row++, orr_tensor_iter_next(&s->table, &cursor)) {
        int64_t last = first;
        while (last < s->ids.n && orr_indices_at(&s->ids, s->order[last]) == s->begin + row)
            last++;
        if (last > first || !s->accumulate)
            sum_row(s, &cursor, first, last);
        first = last;
    }
}

static orr_status backward_run(const orr_kernel_call *call, orr_error *err)
{
    const orr_type *table = &call->out[0].type;
    scatter s = {.grad = orr_tensor_iter_over(&call->in[0].type),
                 .table = orr_tensor_iter_over(table),
                 .ids = orr_indices_of(&call->in[1]),
                 .begin = call->args->begin,
                 .rows = table->dim[0],
                 .columns = table->dim[1],
                 .accumulate = call->accumulate};
    if (call->out[0].data == NULL || s.columns == 0)
        return ORR_OK;
    for (int64_t i = 0; i < s.ids.n; i++)
        if (orr_indices_at(&s.ids, i) < 0)
            return orr_fail(err, ORR_INVALID, "embedding_backward: id %lld, at %lld",
                            (long long)orr_indices_at(&s.ids, i), (long long)i);
    orr_tensor_iter_add(&s.grad, &call->in[0]);
    orr_tensor_iter_add(&s.table, &call->out[0]);
    s.order = orr_radix_sort_ids(&s.ids, call->workspace, (uint32_t *)call->workspace + s.ids.n);
    orr_parallel_ranges(s.rows, ROWS_EACH, sum_rows, &s, call->workers);
    return ORR_OK;
}

static size_t backward_workspace(const orr_kernel_call *call)
{
    return 2 * (size_t)orr_type_elements(&call->in[1].type) * sizeof(uint32_t);
}

const orr_kernel_entry orr_cpu_EMBEDDING_BACKWARD = {
    .run = backward_run, .workspace = backward_workspace, .accumulates = true};
