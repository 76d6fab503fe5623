/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* QUANTIZE and DEQUANTIZE: numbers of 8 or 4 bits with scales, one for a tensor or one for each
 * block along its rows. A scale is the largest magnitude divided by the dtype's largest number. In
 * blocks of 16 it is rounded to FP8 (NVFP4); in blocks of 32 it is a power of two in a byte: the
 * exponent of the largest magnitude less that of the dtype's largest number (OCP Microscaling 1.0,
 * section 6.3). */
enum { BLOCK_FP8 = 16, BLOCK_POWER = 32, PIECES_MAX = 256 };

static float largest_of(uint8_t dtype)
{
    return dtype == ORR_DTYPE_INT8 ? 127 : dtype == ORR_DTYPE_FP8 ? 448 : 6;
}

typedef struct quantizing {
    const orr_operand *x, *q, *scale; /* x: the tensor of the wide dtype */
    orr_tensor_iter walk;             /* rows of x */
    int64_t columns, block, blocks;   /* blocks: of a row */
    float whole;                      /* the scale of the tensor; 0: blocks have their own */
    float *sizes;                     /* largest magnitude of each work item */
} quantizing;

/* Address of element (row, column) of q or of the scales, whose rows are contiguous. */
static char *byte_of(const orr_operand *to, int64_t columns, int64_t row, int64_t column)
{
    if (to->type.dtype == ORR_DTYPE_FP4) {
        const int64_t bytes = (columns + 1) / 2;
        return (char *)to->data + row * bytes + column / 2;
    }
    return (char *)to->data +
           (row * columns + column) * orr_dtype_stride_bytes((orr_dtype)to->type.dtype);
}

static float scale_read(const quantizing *z, int64_t row, int64_t block)
{
    const char *at = byte_of(z->scale, z->blocks, row, block);
    float wide;
    if (z->block == BLOCK_POWER)
        return ldexpf(1, (int)(uint8_t)*at - 127);
    if (z->block == BLOCK_FP8)
        return orr_fp8_e4m3_to_fp32((uint8_t)*at);
    __builtin_memcpy(&wide, at, sizeof wide);
    return wide;
}

/* Stores a block's scale in its own format, and returns the value stored. */
static float scale_write(const quantizing *z, int64_t row, int64_t block, float size)
{
    const float largest = largest_of(z->q->type.dtype);
    char *at = byte_of(z->scale, z->blocks, row, block);
    float wide = size / largest;
    if (z->block == BLOCK_POWER) {
        int power = 0, top = 0;
        (void)frexpf(size, &power);
        (void)frexpf(largest, &top);
        const int e = size > 0 ? power - top : -127;
        *at = (char)(uint8_t)(e < -127 ? 0 : e > 127 ? 254 : e + 127);
    } else if (z->block == BLOCK_FP8) {
        const uint8_t bits = orr_fp32_to_fp8_e4m3(wide);
        /* Below the normal numbers of FP8, where rounding down would clip the largest number. */
        *at = (char)(bits + (orr_fp8_e4m3_to_fp32(bits) < wide * 0.9375f));
    } else {
        __builtin_memcpy(at, &wide, sizeof wide);
    }
    return scale_read(z, row, block);
}

static void number_write(const quantizing *z, int64_t row, int64_t column, float value)
{
    char *at = byte_of(z->q, z->columns, row, column);
    if (z->q->type.dtype == ORR_DTYPE_FP4) {
        const uint8_t bits = orr_fp32_to_fp4_e2m1(value), other = (uint8_t)*at;
        *at = (char)(column % 2 == 0 ? bits : (other & 0xf) | bits << 4);
    } else {
        orr_strided_from_fp32((orr_dtype)z->q->type.dtype, &value, 1, 0, at);
    }
}

static float number_read(const quantizing *z, int64_t row, int64_t column)
{
    const char *at = byte_of(z->q, z->columns, row, column);
    float value;
    if (z->q->type.dtype == ORR_DTYPE_FP4)
        return orr_fp4_e2m1_to_fp32((uint8_t)(column % 2 == 0 ? *at & 0xf : (uint8_t)*at >> 4));
    orr_strided_to_fp32((orr_dtype)z->q->type.dtype, at, 0, 1, &value);
    return value;
}

static float size_of(const quantizing *z, const orr_tensor_cursor *cursor, int64_t from,
                     int64_t end)
{
    float buffer[ORR_ELEMENT_CHUNK], size = 0;
    for (int64_t n; from < end; from += n) {
        n = end - from < ORR_ELEMENT_CHUNK ? end - from : ORR_ELEMENT_CHUNK;
        size = fmaxf(size, orr_vector_math_of_cpu()->size(
                               orr_tensor_iter_read(&z->walk, 0, cursor, from, n, buffer), n));
    }
    return size;
}

static void round_block(const quantizing *z, const orr_tensor_cursor *cursor, int64_t row,
                        int64_t from, int64_t end, float scale)
{
    float buffer[ORR_ELEMENT_CHUNK];
    const float factor = scale > 0 ? 1 / scale : 0;
    for (int64_t n; from < end; from += n) {
        n = end - from < ORR_ELEMENT_CHUNK ? end - from : ORR_ELEMENT_CHUNK;
        const float *x = orr_tensor_iter_read(&z->walk, 0, cursor, from, n, buffer);
        for (int64_t i = 0; i < n; i++)
            number_write(z, row, from + i, x[i] * factor);
    }
}

static void quantize_rows(void *ctx, int64_t begin, int64_t end)
{
    const quantizing *z = ctx;
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&z->walk, begin, &cursor);
    for (int64_t row = begin; row < end; row++, orr_tensor_iter_next(&z->walk, &cursor))
        for (int64_t b = 0; b < z->blocks; b++) {
            const int64_t from = b * z->block,
                          to = z->columns - from < z->block ? z->columns : from + z->block;
            const float scale =
                z->whole != 0 ? z->whole : scale_write(z, row, b, size_of(z, &cursor, from, to));
            round_block(z, &cursor, row, from, to, scale);
        }
}

static int64_t pieces_of(int64_t rows)
{
    return rows < PIECES_MAX ? rows : PIECES_MAX;
}

static void size_piece(void *ctx, size_t piece, int thread)
{
    const quantizing *z = ctx;
    (void)thread;
    const int64_t rows = orr_tensor_iter_rows(&z->walk), p = (int64_t)piece, n = pieces_of(rows);
    orr_tensor_cursor cursor;
    float size = 0;
    orr_tensor_iter_seek(&z->walk, rows * p / n, &cursor);
    for (int64_t i = rows * p / n; i < rows * (p + 1) / n;
         i++, orr_tensor_iter_next(&z->walk, &cursor))
        size = fmaxf(size, size_of(z, &cursor, 0, z->columns));
    z->sizes[p] = size;
}

static float scale_of_all(const quantizing *z, orr_workers *workers)
{
    const int64_t n = pieces_of(orr_tensor_iter_rows(&z->walk));
    orr_workers_run(workers, (size_t)n, size_piece, (void *)(uintptr_t)z);
    const float size = orr_vector_math_of_cpu()->size(z->sizes, n);
    const float scale = size > 0 ? size / largest_of(z->q->type.dtype) : 1;
    *(float *)z->scale->data = scale;
    return scale;
}

static orr_status check(const quantizing *z, const char *name, orr_error *err)
{
    const uint8_t dtype = z->q->type.dtype;
    if (dtype != ORR_DTYPE_INT8 && dtype != ORR_DTYPE_FP8 && dtype != ORR_DTYPE_FP4)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: no scales go with %s", name,
                        orr_dtype_name((orr_dtype)dtype));
    if (!orr_operand_is_contiguous(z->q) || !orr_operand_is_contiguous(z->scale))
        return orr_fail(err, ORR_UNSUPPORTED, "%s: quantised rows with gaps", name);
    return ORR_OK;
}

static quantizing quantizing_of(const orr_kernel_call *call, const orr_operand *x,
                                const orr_operand *q, const orr_operand *scale)
{
    quantizing z = {.x = x, .q = q, .scale = scale, .walk = orr_tensor_iter_over(&x->type)};
    orr_tensor_iter_add(&z.walk, x);
    z.columns = orr_tensor_iter_columns(&z.walk);
    z.block = call->args->size > 0 ? call->args->size : z.columns;
    z.blocks = z.block > 0 ? (z.columns - 1) / z.block + 1 : 0;
    return z;
}

static orr_status quantize_run(const orr_kernel_call *call, orr_error *err)
{
    quantizing z = quantizing_of(call, &call->in[0], &call->out[0], &call->out[1]);
    ORR_TRY(check(&z, "quantize", err));
    z.sizes = call->workspace;
    if (z.columns == 0)
        return ORR_OK;
    if (call->args->size == 0)
        z.whole = scale_of_all(&z, call->workers);
    orr_parallel_ranges(orr_tensor_iter_rows(&z.walk), orr_rows_per_range(z.columns), quantize_rows,
                        &z, call->workers);
    return ORR_OK;
}

static size_t quantize_workspace(const orr_kernel_call *call)
{
    (void)call;
    return PIECES_MAX * sizeof(float);
}

static void widen_rows(void *ctx, int64_t begin, int64_t end)
{
    const quantizing *z = ctx;
    float buffer[ORR_ELEMENT_CHUNK];
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&z->walk, begin, &cursor);
    for (int64_t row = begin; row < end; row++, orr_tensor_iter_next(&z->walk, &cursor))
        for (int64_t from = 0, n; from < z->columns; from += n) {
            n = z->columns - from < ORR_ELEMENT_CHUNK ? z->columns - from : ORR_ELEMENT_CHUNK;
            for (int64_t i = 0; i < n; i++)
                buffer[i] = number_read(z, row, from + i) *
                            (z->whole != 0 ? z->whole : scale_read(z, row, (from + i) / z->block));
            orr_tensor_iter_write(&z->walk, 0, &cursor, from, n, buffer);
        }
}

/* The number of scales says whether there is one for the tensor or one for each block. */
static orr_status dequantize_run(const orr_kernel_call *call, orr_error *err)
{
    quantizing z = quantizing_of(call, &call->out[0], &call->in[0], &call->in[1]);
    ORR_TRY(check(&z, "dequantize", err));
    if (z.columns == 0 || call->out[0].data == NULL)
        return ORR_OK;
    if (call->args->size == 0)
        z.whole = *(const float *)z.scale->data;
    orr_parallel_ranges(orr_tensor_iter_rows(&z.walk), orr_rows_per_range(z.columns), widen_rows,
                        &z, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_QUANTIZE = {.run = quantize_run, .workspace = quantize_workspace};
const orr_kernel_entry orr_cpu_DEQUANTIZE = {.run = dequantize_run};
