/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/embedding/bags.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/entries.h"
#if ORR_X86
#include <emmintrin.h>
#endif

/* Gradient of embedding bags: each lookup's row is that of its bag. Many more rows are written than
 * read, and none is read again soon, so whole cache lines are written with non-temporal stores. */
enum { COLUMNS = 1024 };

typedef struct spread {
    orr_bags bags;
    orr_tensor_iter dy, rows;
    int64_t columns, row_bytes;
} spread;

static bool goes_past_caches(const char *to, int64_t bytes)
{
    return ORR_X86 && bytes % 64 == 0 && (uintptr_t)to % 64 == 0;
}

static void write_past_caches(char *to, const char *from, int64_t bytes)
{
#if ORR_X86
    for (int64_t at = 0; at < bytes; at += 16)
        _mm_stream_si128((__m128i *)(void *)(to + at),
                         _mm_loadu_si128((const __m128i *)(const void *)(from + at)));
#else
    memcpy(to, from, (size_t)bytes);
#endif
}

/* Writes one row to all lookups of its bag. */
static void write_rows(const spread *s, int64_t begin, int64_t end, const float *values)
{
    _Alignas(64) char row[COLUMNS * 8];
    orr_tensor_cursor cursor;
    if (begin >= end)
        return;
    orr_tensor_iter_seek(&s->rows, begin, &cursor);
    const orr_tensor_iter_part *part = &s->rows.part[0];
    const orr_dtype dtype = (orr_dtype)part->dtype;
    char *to = part->data + cursor.offset[0];
    orr_strided_from_fp32(dtype, values, s->columns, orr_dtype_stride_bytes(dtype), row);
    const bool dense = part->stride[s->rows.rank - 1] == orr_dtype_stride_bytes(dtype);
    const int64_t step = s->rows.rank > 1 ? part->stride[0] : 0;
    for (int64_t i = begin; i < end; i++, to += step)
        if (!dense)
            orr_strided_from_fp32(dtype, values, s->columns, part->stride[s->rows.rank - 1], to);
        else if (goes_past_caches(to, s->row_bytes))
            write_past_caches(to, row, s->row_bytes);
        else
            memcpy(to, row, (size_t)s->row_bytes);
}

static void spread_bags(void *ctx, int64_t begin, int64_t end)
{
    const spread *s = ctx;
    float buffer[COLUMNS];
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&s->dy, begin, &cursor);
    for (int64_t b = begin; b < end; b++, orr_tensor_iter_next(&s->dy, &cursor))
        write_rows(s, orr_bags_begin(&s->bags, b), orr_bags_begin(&s->bags, b + 1),
                   orr_tensor_iter_read(&s->dy, 0, &cursor, 0, s->columns, buffer));
#if ORR_X86
    _mm_sfence();
#endif
}

static orr_status backward_run(const orr_kernel_call *call, orr_error *err)
{
    const orr_operand *dy = &call->in[0], *rows = &call->out[0];
    spread s = {.columns = rows->type.dim[1],
                .dy = orr_tensor_iter_over(&dy->type),
                .rows = orr_tensor_iter_over(&rows->type)};
    (void)orr_tensor_iter_add(&s.dy, dy);
    (void)orr_tensor_iter_add(&s.rows, rows);
    s.row_bytes = s.columns * orr_dtype_stride_bytes((orr_dtype)rows->type.dtype);
    ORR_TRY(orr_bags_of(&call->in[1], call->n_in > 2, "embedding_bag_backward", &s.bags, err));
    if (s.columns > COLUMNS)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "embedding_bag_backward: rows of %lld columns, more than %d",
                        (long long)s.columns, COLUMNS);
    if (rows->data == NULL)
        return ORR_OK;
    orr_parallel_ranges(s.bags.bags, orr_bags_per_range(&s.bags), spread_bags, &s, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_EMBEDDING_BAG_BACKWARD = {.run = backward_run};
