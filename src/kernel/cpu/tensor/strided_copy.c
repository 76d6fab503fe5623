/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/tensor/strided_copy.h"

#include <string.h>

#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/tensor/iterator.h"

/* Strided copy. Rows that are contiguous on both sides are copied as bytes. Where `from` is
 * contiguous along another dim than `to`, the two dims are copied in tiles (a blocked transpose),
 * so that each cache line is used whole. */
enum { TILE = 64, BESIDE = 8, FROM = 0, TO = 1 };

typedef struct copying {
    orr_tensor_iter walk;
    int64_t bytes;                    /* of an element */
    int64_t wide;                     /* for rows: bytes of a piece of a row */
    int64_t chunks;                   /* pieces of a row */
    int64_t high, high_from, high_to; /* for tiles: the dim along which `from` is contiguous */
    int64_t tiles_high, tiles_wide;
} copying;

static char *place(const copying *c, uint32_t p, const orr_tensor_cursor *cursor)
{
    return c->walk.part[p].data + cursor->offset[p];
}

static void copy_rows(void *ctx, int64_t begin, int64_t end)
{
    const copying *c = ctx;
    const int64_t row_bytes = orr_tensor_iter_columns(&c->walk) * c->bytes;
    orr_tensor_cursor cursor;
    int64_t chunk = begin % c->chunks;
    orr_tensor_iter_seek(&c->walk, begin / c->chunks, &cursor);
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = chunk * c->wide, left = row_bytes - at;
        memmove(place(c, TO, &cursor) + at, place(c, FROM, &cursor) + at,
                (size_t)(left < c->wide ? left : c->wide));
        if (++chunk < c->chunks)
            continue;
        chunk = 0;
        orr_tensor_iter_next(&c->walk, &cursor);
    }
}

/* Transposes `high` x `wide` elements, strides in bytes: `from` is read along `high`, `to` written
 * along `wide`, whole cache lines each, by way of a buffer. */
#define COPY_BLOCK(name, type)                                                                     \
    static void name(const char *from, int64_t from_high, int64_t from_wide, char *to,             \
                     int64_t to_high, int64_t to_wide, int64_t high, int64_t wide)                 \
    {                                                                                              \
        type tile[TILE][TILE + 64 / sizeof(type)], row[TILE];                                      \
        for (int64_t j = 0; j < wide && from_high == (int64_t)sizeof(type); j++)                   \
            memcpy(tile[j], from + j * from_wide, (size_t)high * sizeof(type));                    \
        for (int64_t j = 0; j < wide && from_high != (int64_t)sizeof(type); j++)                   \
            for (int64_t i = 0; i < high; i++)                                                     \
                tile[j][i] = *(const type *)(from + i * from_high + j * from_wide);                \
        for (int64_t i = 0; i < high; i++) {                                                       \
            for (int64_t j = 0; j < wide; j++)                                                     \
                row[j] = tile[j][i];                                                               \
            for (int64_t j = 0; j < wide && to_wide != (int64_t)sizeof(type); j++)                 \
                *(type *)(to + i * to_high + j * to_wide) = row[j];                                \
            if (to_wide == (int64_t)sizeof(type))                                                  \
                memcpy(to + i * to_high, row, (size_t)wide * sizeof(type));                        \
        }                                                                                          \
    }
COPY_BLOCK(copy_1, uint8_t)
COPY_BLOCK(copy_2, uint16_t)
COPY_BLOCK(copy_4, uint32_t)
COPY_BLOCK(copy_8, uint64_t)

static void copy_block(int64_t bytes, const char *from, int64_t from_high, int64_t from_wide,
                       char *to, int64_t to_high, int64_t to_wide, int64_t high, int64_t wide)
{
    (bytes == 1   ? copy_1
     : bytes == 2 ? copy_2
     : bytes == 4 ? copy_4
                  : copy_8)(from, from_high, from_wide, to, to_high, to_wide, high, wide);
}

static int64_t part_of(int64_t whole, int64_t at)
{
    return whole - at < TILE ? whole - at : TILE;
}

/* Order of tiles: neighbours on the side that is read first, then the rows of tiles below, so that
 * both sides return to pages in recent use (TLB). */
static void copy_tiles(void *ctx, int64_t begin, int64_t end)
{
    const copying *c = ctx;
    const uint32_t last = c->walk.rank - 1;
    const int64_t wide = c->walk.dim[last], from_wide = c->walk.part[FROM].stride[last],
                  to_wide = c->walk.part[TO].stride[last], plane = c->tiles_high * c->tiles_wide;
    for (int64_t i = begin; i < end; i++) {
        orr_tensor_cursor cursor;
        orr_tensor_iter_seek(&c->walk, i / plane, &cursor);
        const int64_t group = i % plane / (BESIDE * c->tiles_wide),
                      w = i % plane % (BESIDE * c->tiles_wide) / BESIDE * TILE,
                      h = (group * BESIDE + i % BESIDE) * TILE;
        if (h >= c->high)
            continue;
        copy_block(c->bytes, place(c, FROM, &cursor) + h * c->high_from + w * from_wide,
                   c->high_from, from_wide, place(c, TO, &cursor) + h * c->high_to + w * to_wide,
                   c->high_to, to_wide, part_of(c->high, h), part_of(wide, w));
    }
}

/* Removes from the iterator the dim along which `from` is contiguous, or none, with runs of one. */
static void find_high(copying *c)
{
    orr_tensor_iter *walk = &c->walk;
    c->high = 1;
    c->high_from = c->high_to = 0;
    for (uint32_t d = 0; d + 1 < walk->rank; d++) {
        if (walk->part[FROM].stride[d] != c->bytes)
            continue;
        c->high = walk->dim[d];
        c->high_from = walk->part[FROM].stride[d];
        c->high_to = walk->part[TO].stride[d];
        for (uint32_t e = d; e + 1 < walk->rank; e++) {
            walk->dim[e] = walk->dim[e + 1];
            for (uint32_t p = 0; p < 2; p++)
                walk->part[p].stride[e] = walk->part[p].stride[e + 1];
        }
        walk->rank--;
        break;
    }
    c->tiles_high = ((c->high - 1) / TILE / BESIDE + 1) * BESIDE;
    c->tiles_wide = (orr_tensor_iter_columns(walk) - 1) / TILE + 1;
}

static void copy_run(copying *c, orr_workers *workers)
{
    enum { PIECE = 1 << 18 }; /* bytes of a row at once */
    orr_tensor_iter_coalesce(&c->walk, 0);
    const uint32_t last = c->walk.rank - 1;
    const int64_t columns = orr_tensor_iter_columns(&c->walk),
                  rows = orr_tensor_iter_rows(&c->walk);
    if (columns == 0 || rows == 0)
        return;
    if (columns == 1 || (c->walk.part[FROM].stride[last] == c->bytes &&
                         c->walk.part[TO].stride[last] == c->bytes)) {
        const int64_t row_bytes = columns * c->bytes;
        c->wide = row_bytes < PIECE ? row_bytes : PIECE;
        c->chunks = (row_bytes - 1) / PIECE + 1;
        const int64_t each = PIECE / c->wide;
        orr_parallel_ranges(rows * c->chunks, each, copy_rows, c, workers);
        return;
    }
    find_high(c);
    orr_parallel_ranges(orr_tensor_iter_rows(&c->walk) * c->tiles_high * c->tiles_wide, 64,
                        copy_tiles, c, workers);
}

/* FP4 elements are copied as whole bytes. */
static orr_operand whole_bytes(const orr_operand *x)
{
    orr_operand bytes = *x;
    if (x->type.dtype != ORR_DTYPE_FP4 || x->type.rank == 0)
        return bytes;
    bytes.type.dtype = ORR_DTYPE_INT8;
    bytes.type.dim[x->type.rank - 1] = (x->type.dim[x->type.rank - 1] + 1) / 2;
    for (uint32_t d = 0; d + 1 < x->type.rank; d++)
        bytes.stride[d] = x->stride[d] / 2;
    return bytes;
}

void orr_copy_elements(const orr_type *dims, const void *from, const int64_t *from_stride, void *to,
                       const int64_t *to_stride, orr_workers *workers)
{
    orr_operand side[2] = {{.type = *dims, .data = (void *)(uintptr_t)from},
                           {.type = *dims, .data = to}};
    copying c;
    if (from == NULL || to == NULL)
        return;
    for (uint32_t d = 0; d < dims->rank; d++) {
        side[FROM].stride[d] = from_stride[d];
        side[TO].stride[d] = to_stride[d];
    }
    for (uint32_t p = 0; p < 2; p++) {
        side[p] = whole_bytes(&side[p]);
        if (p == 0)
            c = (copying){.walk = orr_tensor_iter_over(&side[p].type)};
        orr_tensor_iter_add(&c.walk, &side[p]);
    }
    c.bytes = orr_dtype_stride_bytes((orr_dtype)side[0].type.dtype);
    copy_run(&c, workers);
}

void orr_copy_operand(const orr_operand *from, const orr_operand *to, orr_workers *workers)
{
    orr_copy_elements(&from->type, from->data, from->stride, to->data, to->stride, workers);
}

void *orr_operand_at(const orr_operand *operand, int32_t d, int64_t at)
{
    if (operand->data == NULL)
        return NULL;
    const int64_t elements = at * operand->stride[d];
    return (char *)operand->data +
           (operand->type.dtype == ORR_DTYPE_FP4
                ? elements / 2
                : elements * orr_dtype_stride_bytes((orr_dtype)operand->type.dtype));
}
