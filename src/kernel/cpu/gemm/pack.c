/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/gemm.h"

#include <string.h>

#include "kernel/format/row.h"

/* Packing of GEMM operands: a block of any dtype, stride or row format is laid out in panels of the
 * microkernel's width. Rows contiguous along K are transposed (pack_rows); operands contiguous
 * along the rows or columns are copied unit by unit (pack_columns). */

/* Parameters of packing first block. A panel of the result is `units` x `width` units. */
typedef struct packing {
    const orr_gemm_microkernel *tiler;
    const orr_matrix *from;
    int width;
    int64_t i0, n_i, k0, n_k, units;
    size_t bytes;       /* of a packed number */
    int64_t from_bytes; /* of a number of `from` */
    uint8_t dtype;      /* of packed numbers */
    /* Scratch. */
    char *rows; /* (width, row_bytes) */
    size_t row_bytes;
    char *zeros; /* (row_bytes) */
    float *wide; /* (numbers of a row) */
} packing;

static size_t row_bytes_of(const orr_gemm_microkernel *tiler)
{
    return (size_t)(tiler->k_block / tiler->per_unit) * 4;
}

size_t orr_gemm_pack_scratch_bytes(const orr_gemm_microkernel *tiler)
{
    return (ORR_TILE_COLUMNS_MAX + 1) * row_bytes_of(tiler) +
           (size_t)tiler->k_block * sizeof(float);
}

static const char *number_at(const packing *p, int64_t i, int64_t k)
{
    const orr_matrix *from = p->from;
    return (const char *)from->data + (i * from->stride_i + k * from->stride_k) * p->from_bytes;
}

/* Reads numbers k0 .. k0 + n_k - 1 of row i as fp32. */
static void read_wide(const packing *p, int64_t i, float *ret)
{
    const orr_matrix *from = p->from;
    const orr_dtype dtype = (orr_dtype)from->dtype;
    if (from->rows != NULL)
        orr_row_range_to_fp32((orr_row_format)from->rows->format,
                              orr_row_at(from->rows, from->first_row + i), p->k0, p->n_k, ret);
    else if (from->stride_k == 1)
        orr_dtype_to_fp32(dtype, number_at(p, i, p->k0), p->n_k, ret);
    else
        for (int64_t k = 0; k < p->n_k; k++)
            orr_dtype_to_fp32(dtype, number_at(p, i, p->k0 + k), 1, &ret[k]);
}

/* Row i in the packed type: in place where its dtype and layout allow, else converted in
 * scratch. */
static const void *row_of(const packing *p, int64_t i, int slot)
{
    const orr_matrix *from = p->from;
    const bool whole = p->n_k % p->tiler->per_unit == 0;
    const orr_row_format same =
        p->dtype == ORR_DTYPE_BF16 ? ORR_ROW_FORMAT_BF16 : ORR_ROW_FORMAT_FP32;
    if (whole && from->rows != NULL && from->rows->format == same)
        return (const char *)orr_row_at(from->rows, from->first_row + i) + (size_t)p->k0 * p->bytes;
    if (whole && from->rows == NULL && from->dtype == p->dtype && from->stride_k == 1)
        return number_at(p, i, p->k0);
    char *row = p->rows + (size_t)slot * p->row_bytes;
    const size_t bytes = (size_t)p->n_k * p->bytes;
    memset(row + bytes, 0, (size_t)p->units * 4 - bytes);
    read_wide(p, i, p->wide);
    orr_dtype_from_fp32((orr_dtype)p->dtype, p->wide, p->n_k, row);
    return row;
}

/* Rows one after the other, for a microkernel that takes them so. */
static void pack_by_rows(const packing *p, uint32_t *ret)
{
    const size_t bytes = (size_t)p->units * 4;
    const int64_t rows = (p->n_i + p->width - 1) / p->width * p->width;
    for (int64_t i = 0; i < rows; i++, ret += p->units)
        if (i < p->n_i && p->tiler->per_unit == 1)
            read_wide(p, p->i0 + i, (float *)(void *)ret);
        else
            memcpy(ret, i < p->n_i ? row_of(p, p->i0 + i, 0) : p->zeros, bytes);
}

static void pack_rows(const packing *p, uint32_t *ret)
{
    const void *rows[ORR_TILE_COLUMNS_MAX];
    for (int64_t i = 0; i < p->n_i; i += p->width, ret += p->units * p->width) {
        for (int j = 0; j < p->width; j++)
            rows[j] = i + j < p->n_i ? row_of(p, p->i0 + i + j, j) : p->zeros;
        p->tiler->transpose(rows, p->width, p->units, ret);
    }
}

/* Numbers i .. i + n - 1 at k, contiguous, in the packed type. */
static const void *contiguous_at(const packing *p, int64_t i, int64_t n, int64_t k, int slot)
{
    if (k >= p->k0 + p->n_k)
        return p->zeros;
    if (p->from->dtype == p->dtype)
        return number_at(p, i, k);
    char *row = p->rows + (size_t)slot * p->row_bytes;
    orr_dtype_to_fp32((orr_dtype)p->from->dtype, number_at(p, i, k), n, p->wide);
    orr_dtype_from_fp32((orr_dtype)p->dtype, p->wide, n, row);
    return row;
}

/* Rows of `from` are far apart, beyond the reach of hardware prefetching, so they are prefetched
 * here. */
static void prefetch_unit(const packing *p, int64_t k)
{
    enum { AHEAD = 16, LINE = 64 };
    const char *row = number_at(p, p->i0, k + AHEAD);
    for (int64_t at = 0; at < p->n_i * p->from_bytes; at += LINE)
        __builtin_prefetch(row + at);
}

static void pack_unit(const packing *p, int64_t i, int64_t k, uint32_t *ret)
{
    const int64_t n = p->n_i - i < p->width ? p->n_i - i : p->width;
    const void *first = contiguous_at(p, p->i0 + i, n, k, 0);
    if (p->tiler->per_unit == 1)
        p->tiler->copy(first, n, ret);
    else
        p->tiler->interleave(first, contiguous_at(p, p->i0 + i, n, k + 1, 1), n, ret);
    for (int64_t j = n; j < p->width; j++)
        ret[j] = 0;
}

/* Goes along i in the inner loop, since that is the contiguous direction of `from`. */
static void pack_columns(const packing *p, uint32_t *ret)
{
    const int64_t panel = p->units * p->width;
    for (int64_t u = 0; u < p->units; u++) {
        const int64_t k = p->k0 + u * p->tiler->per_unit;
        for (int j = 0; j < p->tiler->per_unit; j++)
            prefetch_unit(p, k + j);
        uint32_t *to = ret + u * p->width;
        for (int64_t i = 0; i < p->n_i; i += p->width, to += panel)
            pack_unit(p, i, k, to);
    }
}

void orr_gemm_pack(const orr_gemm_microkernel *tiler, const orr_matrix *from, int width, int64_t i0,
                   int64_t n_i, int64_t k0, int64_t n_k, void *scratch, void *ret)
{
    const size_t row_bytes = row_bytes_of(tiler);
    const packing p = {
        .tiler = tiler,
        .from = from,
        .width = width,
        .i0 = i0,
        .n_i = n_i,
        .k0 = k0,
        .n_k = n_k,
        .units = (n_k + tiler->per_unit - 1) / tiler->per_unit,
        .from_bytes = (int64_t)orr_dtype_bytes((orr_dtype)from->dtype),
        .bytes = tiler->per_unit == 2 ? 2 : 4,
        .dtype = tiler->per_unit == 2 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP32,
        .rows = scratch,
        .row_bytes = row_bytes,
        .zeros = (char *)scratch + ORR_TILE_COLUMNS_MAX * row_bytes,
        .wide = (void *)((char *)scratch + (ORR_TILE_COLUMNS_MAX + 1) * row_bytes),
    };
    memset(p.zeros, 0, row_bytes);
    if (tiler->by_rows)
        pack_by_rows(&p, ret);
    else if (from->rows == NULL && from->stride_i == 1 && from->stride_k != 1)
        pack_columns(&p, ret);
    else
        pack_rows(&p, ret);
}
