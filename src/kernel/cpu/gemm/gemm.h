/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_GEMM_GEMM_H
#define ORR_KERNEL_CPU_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/kernel.h>

/* General matrix multiplication (GEMM), c (M, N) = a (M, K) b (K, N), blocked for the caches and
 * packed as in Goto and van de Geijn (ACM TOMS 34(3), 2008) and BLIS (Van Zee and van de Geijn,
 * 2015).
 *
 * A block of a and one of b are first packed: laid out in the order in which the innermost loop,
 * the microkernel, reads them, and converted to the type that it computes with. A microkernel
 * multiplies a panel of a (a few rows) by a panel of b (a few columns) over all K of a block; its
 * tile of sums stays in registers. */

/* One of the two operands. `i` counts rows of a and columns of b: element (i, k) is at i * stride_i
 * + k * stride_k elements from `data`, or is number k of row i of `rows`. */
typedef struct orr_matrix {
    uint8_t dtype; /* orr_dtype; for `rows`, the type that the product takes them for */
    const void *data;
    int64_t stride_i, stride_k;
    const orr_weight_rows *rows;
    int64_t first_row; /* of `rows`: the one that is i = 0 */
} orr_matrix;

typedef struct orr_gemm_problem {
    int64_t m, n, k;
    orr_matrix a, b;
    uint8_t c_dtype;
    bool accumulate;
    void *c;
    int64_t c_stride_m, c_stride_n;
    int64_t first_m; /* in a grouped product: its first row within the rows of all products */
} orr_gemm_problem;
/* Stores n sums in row m of c from column n0 on, added to what is there if `accumulate`. Clobbers
 * `sums`. */
void orr_gemm_store_row(const orr_gemm_problem *p, int64_t m, int64_t n0, int64_t n, float *sums);

/* The microkernel of one CPU level. K is counted in units of 32 bits: one fp32 or two neighbouring
 * bf16 numbers. A packed panel is (units of K, rows of the panel), padded with zeros. */
enum { ORR_TILE_ROWS_MAX = 8, ORR_TILE_COLUMNS_MAX = 48 };
typedef struct orr_gemm_microkernel {
    int rows, columns; /* of a tile */
    int per_unit;      /* 1: computes in fp32; 2: multiplies bf16 pairs with fp32 sums */
    int64_t k_block;   /* numbers of K in a block, a multiple of 64 */
    bool by_rows;      /* a packed panel is (rows of the panel, units of K) instead */
    /* c (rows, columns) of fp32 (+)= a panel of a times a panel of b; only the first `columns`
     * columns are stored. */
    void (*tile)(int64_t units, const void *a, const void *b, float *c, int64_t c_stride,
                 int64_t columns, bool add);
    /* Transposes rows of units into a panel of `width` rows: ret[u * width + i] = rows[i][u]. */
    void (*transpose)(const void *const *rows, int width, int64_t units, uint32_t *ret);
    /* Copies n units; interleaves two rows of n bf16 numbers into one row of pairs. */
    void (*copy)(const void *from, int64_t n, uint32_t *ret);
    void (*interleave)(const uint16_t *even, const uint16_t *odd, int64_t n, uint32_t *ret);
} orr_gemm_microkernel;
/* The fastest microkernel of this CPU with its sums in the order of K, for products that may or may
 * not be computed in bf16. */
const orr_gemm_microkernel *orr_gemm_microkernel_of(bool bf16);
extern const orr_gemm_microkernel orr_gemm_microkernel_plain;
extern const orr_gemm_microkernel orr_gemm_microkernel_avx2, orr_gemm_microkernel_avx512,
    orr_gemm_microkernel_avx512_bf16;
/* Rounds sums to bf16; magnitudes below 2^-126 are flushed to zero. */
void orr_fp32_to_bf16_avx512(const float *from, int64_t n, uint16_t *ret);

/* Helpers shared by the microkernels' packing functions. */
static inline uint32_t orr_unit_at(const void *row, int64_t unit)
{
    uint32_t value;
    __builtin_memcpy(&value, (const char *)row + 4 * unit, sizeof value);
    return value;
}
void orr_transpose_units_8x8(const void *const *rows, int64_t units, uint32_t *ret,
                             int64_t ret_stride);
/* The `copy` of a microkernel where a memcpy is all it takes. */
void orr_gemm_copy_units(const void *from, int64_t n, uint32_t *ret);

/* Packs rows i0 .. i0 + n_i - 1 by k0 .. k0 + n_k - 1 of an operand into panels of `width`.
 * `scratch` has orr_gemm_pack_scratch_bytes() bytes. */
size_t orr_gemm_pack_scratch_bytes(const orr_gemm_microkernel *tiler);
void orr_gemm_pack(const orr_gemm_microkernel *tiler, const orr_matrix *from, int width, int64_t i0,
                   int64_t n_i, int64_t k0, int64_t n_k, void *scratch, void *ret);

/* Batched and grouped GEMM: `count` products like `like` (whose m and k are the largest of them).
 * at(ctx, i, p) fills in what differs for product i: addresses, and m or k where they are
 * smaller. */
typedef struct orr_gemm_batch {
    orr_gemm_problem like;
    int64_t count;
    bool column; /* the rows of all a are rows of like.a; at() then sets first_m */
    void (*at)(const void *ctx, int64_t i, orr_gemm_problem *p);
    const void *ctx;
} orr_gemm_batch;
/* Blocked GEMM of a batch by a microkernel. Results are bitwise the same for any number of
 * workers. */
size_t orr_blocked_gemm_workspace(const orr_gemm_batch *products, const orr_gemm_microkernel *tiler,
                                  const orr_workers *workers);
void orr_blocked_gemm(const orr_gemm_batch *products, const orr_gemm_microkernel *tiler,
                      void *workspace, orr_workers *workers);

/* Skinny GEMM: the same for few rows of a (decode), which are a column, with stored rows as b.
 * Bound by the bandwidth of reading b. */
size_t orr_skinny_gemm_workspace(const orr_gemm_batch *products, const orr_workers *workers);
void orr_skinny_gemm(const orr_gemm_batch *products, void *workspace, orr_workers *workers);

#endif /* ORR_KERNEL_CPU_GEMM_GEMM_H */
