/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_GEMM_GEMM_H
#define ORR_KERNEL_CPU_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/kernel.h>

/* Products of matrices, c (M, N) = a (M, K) b (K, N), in blocks that caches hold.
 *
 * A block of a and one of b are first packed: laid out in the order in which the innermost loop, a
 * tile, reads them, converted to the numbers that it computes with. A tile is a few rows of a times
 * a few columns of b, all K of a block, in registers. */

/* One of the two operands. `i` counts rows of a, columns of b: index (i, k) is element i * stride_i
 * + k * stride_k; or row i of `rows`, number k of it. */
typedef struct orr_matrix {
    uint8_t dtype; /* orr_dtype; of rows: what the product takes them for */
    const void *data;
    int64_t stride_i, stride_k;
    const orr_weight_rows *rows;
    int64_t first_row; /* of rows: where i is 0 */
} orr_matrix;

typedef struct orr_gemm_problem {
    int64_t m, n, k;
    orr_matrix a, b;
    uint8_t c_dtype;
    bool accumulate;
    void *c;
    int64_t c_stride_m, c_stride_n;
    int64_t first_m; /* of a product among many: its first row in the column of all */
} orr_gemm_problem;
/* Sums (n) go to row m of c from column n0 on, added to what is there where that is asked for;
 * `sums` is changed. */
void orr_gemm_store_row(const orr_gemm_problem *p, int64_t m, int64_t n0, int64_t n, float *sums);

/* What a level of the CPU brings. Units: numbers of K that lie side by side, 1 fp32 or 2 bf16,
 * always 32 bits. Packed panels: (units of K, rows of the panel), zeros where there is no number.
 */
enum { ORR_TILE_ROWS_MAX = 8, ORR_TILE_COLUMNS_MAX = 48 };
typedef struct orr_gemm_microkernel {
    int rows, columns; /* of a tile                                                             */
    int per_unit;      /* 1: computes in fp32, 2: in bf16 with sums in fp32                     */
    int64_t k_block;   /* numbers of K of a block, a multiple of 64                             */
    /* c (rows, columns) of fp32 (+)= a panel of a by a panel of b; `columns` of them are stored. */
    void (*tile)(int64_t units, const void *a, const void *b, float *c, int64_t c_stride,
                 int64_t columns, bool add);
    /* Rows of units to a panel of `width` rows: ret[u * width + i] = rows[i][u]. */
    void (*transpose)(const void *const *rows, int width, int64_t units, uint32_t *ret);
    /* n units as they are; two rows of bf16 into one of pairs. */
    void (*copy)(const void *from, int64_t n, uint32_t *ret);
    void (*interleave)(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *ret);
} orr_gemm_microkernel;
/* The best here for products that may be computed in bf16, or not. */
const orr_gemm_microkernel *orr_gemm_microkernel_of(bool bf16);
extern const orr_gemm_microkernel orr_gemm_microkernel_plain;
extern const orr_gemm_microkernel orr_gemm_microkernel_avx2, orr_gemm_microkernel_avx512,
    orr_gemm_microkernel_avx512_bf16;
/* Sums to bf16; what is below 2^-126 becomes zero. */
void orr_fp32_to_bf16_avx512(const float *from, int64_t n, uint16_t *ret);

/* For the innermost loops of more than one tiler. */
static inline uint32_t orr_unit_at(const void *row, int64_t unit)
{
    uint32_t value;
    __builtin_memcpy(&value, (const char *)row + 4 * unit, sizeof value);
    return value;
}
void orr_transpose_units_8x8(const void *const *rows, int64_t units, uint32_t *ret,
                             int64_t ret_stride);
/* As `copy` of a tiler: no more than a memcpy. */
void orr_gemm_copy_units(const void *from, int64_t n, uint32_t *ret);

/* Packs i0 .. i0 + n_i - 1 by k0 .. k0 + n_k - 1 into panels of `width`. `scratch`:
 * orr_gemm_pack_scratch_bytes(). */
size_t orr_gemm_pack_scratch_bytes(const orr_gemm_microkernel *tiler);
void orr_gemm_pack(const orr_gemm_microkernel *tiler, const orr_matrix *from, int width, int64_t i0,
                   int64_t n_i, int64_t k0, int64_t n_k, void *scratch, void *ret);

/* Many products of the same shape (m and k: the largest of them); at(ctx, i, p) fills in what
 * differs for number i: places, and m or k where it is less. */
typedef struct orr_gemm_batch {
    orr_gemm_problem like;
    int64_t count;
    bool column; /* rows of all a are rows of like.a; then at() says which is the first of a product
                  */
    void (*at)(const void *ctx, int64_t i, orr_gemm_problem *p);
    const void *ctx;
} orr_gemm_batch;
/* Results do not depend on the number of workers. */
size_t orr_blocked_gemm_workspace(const orr_gemm_batch *products, const orr_workers *workers);
void orr_blocked_gemm(const orr_gemm_batch *products, void *workspace, orr_workers *workers);

/* The same for few rows of a and rows of b whose numbers lie side by side: bound by reading b. */
bool orr_skinny_gemm_applies(const orr_gemm_batch *products);
size_t orr_skinny_gemm_workspace(const orr_gemm_batch *products, const orr_workers *workers);
void orr_skinny_gemm(const orr_gemm_batch *products, void *workspace, orr_workers *workers);

#endif /* ORR_KERNEL_CPU_GEMM_GEMM_H */
