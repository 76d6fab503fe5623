/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/gemm/gemm.h"

#if ORR_X86
#include <immintrin.h>

/* GEMM microkernel at AVX2: a tile of 6 rows by 2 vectors of 8. Of 16 registers 12 hold sums, 2
 * vectors of b, 1 a broadcast number of a. */
enum { ROWS = 6, VECTORS = 2, LANES = 8, COLUMNS = VECTORS * LANES };

ORR_AVX2 static void tile(int64_t units, const void *a_panel, const void *b_panel, float *c,
                          int64_t c_stride, int64_t columns, bool add)
{
    const float *a = a_panel, *b = b_panel;
    __m256 sums[ROWS][VECTORS];
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++)
        sums[i][0] = sums[i][1] = _mm256_setzero_ps();
    for (int64_t k = 0; k < units; k++, a += ROWS, b += COLUMNS) {
        const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + LANES);
#pragma GCC unroll 6
        for (int i = 0; i < ROWS; i++) {
            const __m256 x = _mm256_broadcast_ss(a + i);
            sums[i][0] = _mm256_fmadd_ps(x, b0, sums[i][0]);
            sums[i][1] = _mm256_fmadd_ps(x, b1, sums[i][1]);
        }
    }
    _Alignas(32) float row[COLUMNS];
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) {
        _mm256_store_ps(row, sums[i][0]);
        _mm256_store_ps(row + LANES, sums[i][1]);
        for (int64_t j = 0; j < columns; j++)
            c[i * c_stride + j] = add ? c[i * c_stride + j] + row[j] : row[j];
    }
}

/* Transposes 8 rows of 8 units. */
ORR_AVX2 static inline void transpose_8x8(const void *const *rows, int64_t from, uint32_t *ret,
                                          int64_t ret_stride)
{
    __m256 r[8], t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps((const float *)((const char *)rows[i] + 4 * from));
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps((float *)(void *)(ret + j * ret_stride),
                         _mm256_permute2f128_ps(r[j], r[j + 4], 0x20));
        _mm256_storeu_ps((float *)(void *)(ret + (j + 4) * ret_stride),
                         _mm256_permute2f128_ps(r[j], r[j + 4], 0x31));
    }
}

ORR_AVX2 void orr_transpose_units_8x8(const void *const *rows, int64_t units, uint32_t *ret,
                                      int64_t ret_stride)
{
    for (int64_t u = 0; u < units; u += 8)
        transpose_8x8(rows, u, ret + u * ret_stride, ret_stride);
}

ORR_AVX2 static void transpose(const void *const *rows, int width, int64_t units, uint32_t *ret)
{
    int64_t u = 0;
    if (width % 8 == 0) {
        u = units / 8 * 8;
        for (int i = 0; i < width; i += 8)
            orr_transpose_units_8x8(rows + i, u, ret + i, width);
    }
    for (; u < units; u++)
        for (int i = 0; i < width; i++)
            ret[u * width + i] = orr_unit_at(rows[i], u);
}

const orr_gemm_microkernel orr_gemm_microkernel_avx2 = {
    .rows = ROWS,
    .columns = COLUMNS,
    .per_unit = 1,
    .k_block = 512,
    .tile = tile,
    .transpose = transpose,
    .copy = orr_gemm_copy_units,
};
#endif
