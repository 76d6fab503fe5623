/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernel/cpu/tensor/strided_copy.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* CAST, by way of fp32; between integers directly, which keeps all digits. */

static bool is_integer(uint8_t dtype)
{
    return dtype == ORR_DTYPE_INT8 || dtype == ORR_DTYPE_INT32 || dtype == ORR_DTYPE_INT64;
}

static int64_t integer_at(uint8_t dtype, const char *at)
{
    int32_t narrow;
    int64_t wide;
    if (dtype == ORR_DTYPE_INT64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (dtype == ORR_DTYPE_INT8)
        return (int8_t)*at;
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static void put_integer(uint8_t dtype, int64_t value, char *at)
{
    const int64_t most = dtype == ORR_DTYPE_INT8 ? INT8_MAX : INT32_MAX;
    if (dtype == ORR_DTYPE_INT64) {
        memcpy(at, &value, sizeof value);
        return;
    }
    value = value > most ? most : value < -most - 1 ? -most - 1 : value;
    const int32_t narrow = (int32_t)value;
    if (dtype == ORR_DTYPE_INT8)
        *at = (char)narrow;
    else
        memcpy(at, &narrow, sizeof narrow);
}

static void cast_integers(void *ctx, int64_t begin, int64_t end)
{
    const orr_tensor_iter *walk = ctx;
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(walk, begin, &cursor);
    for (int64_t i = begin; i < end; i++, orr_tensor_iter_next(walk, &cursor)) {
        const char *from = walk->part[0].data + cursor.offset[0];
        char *to = walk->part[1].data + cursor.offset[1];
        for (int64_t j = 0; j < orr_tensor_iter_columns(walk); j++)
            put_integer(
                walk->part[1].dtype,
                integer_at(walk->part[0].dtype, from + j * walk->part[0].stride[walk->rank - 1]),
                to + j * walk->part[1].stride[walk->rank - 1]);
    }
}

/* To an integer: truncates. */
static void cut_body(const void *ctx, const orr_element_span *span)
{
    (void)ctx;
    for (int64_t i = 0; i < span->n; i++)
        span->out[0][i] = truncf(span->in[0][i]);
}

static orr_status cast_run(const orr_kernel_call *call, orr_error *err)
{
    const orr_operand *x = &call->in[0], *y = &call->out[0];
    orr_tensor_iter walk = orr_tensor_iter_over(&x->type);
    if (y->data == NULL)
        return ORR_OK;
    orr_tensor_iter_add(&walk, x);
    orr_tensor_iter_add(&walk, y);
    if (x->type.dtype == y->type.dtype && !call->accumulate) {
        if (x->data != y->data)
            orr_copy_operand(x, y, call->workers);
    } else if (x->type.dtype == ORR_DTYPE_FP4 || y->type.dtype == ORR_DTYPE_FP4) {
        return orr_fail(err, ORR_UNSUPPORTED, "cast: fp4 has scales: quantize, dequantize");
    } else if (is_integer(x->type.dtype) && is_integer(y->type.dtype) && !call->accumulate) {
        orr_tensor_iter_coalesce(&walk, 1);
        orr_parallel_ranges(orr_tensor_iter_rows(&walk),
                            orr_rows_per_range(orr_tensor_iter_columns(&walk)), cast_integers,
                            &walk, call->workers);
    } else {
        orr_elementwise(&walk, 1, call->accumulate,
                        is_integer(y->type.dtype) ? cut_body : orr_elementwise_copy, NULL,
                        call->workers);
    }
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_CAST = {.run = cast_run, .accumulates = true};
