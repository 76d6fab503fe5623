/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/gemm/gemm.h"

#if ORR_X86
#include <immintrin.h>

/* GEMM microkernels at AVX-512, fp32 and bf16 pairs: a tile of 8 rows by 3 vectors of 16. Of 32
 * registers 24 hold sums, 3 vectors of b, 1 a broadcast number of a; 24 independent sums hide the
 * latency of two FMAs a cycle of latency 4 three times over. Sums are added to c once per block of
 * K. */
enum { ROWS = 8, VECTORS = 3, LANES = 16, COLUMNS = VECTORS * LANES };

#define BODY static inline __attribute__((always_inline))

ORR_AVX512 BODY void store_row(const __m512 *sums, int vectors, float *c, int64_t columns, bool add)
{
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) {
        const int64_t left = columns - LANES * v;
        const __mmask16 mask = orr_first_lanes_mask(left);
        const __m512 old = add ? _mm512_maskz_loadu_ps(mask, c + LANES * v) : _mm512_setzero_ps();
        _mm512_mask_storeu_ps(c + LANES * v, mask, _mm512_add_ps(old, sums[v]));
    }
}

/* Prefetches the tile of c that the sums will be added to: it has left the caches since the last
 * block. */
ORR_AVX512 BODY void fetch_tile(const float *c, int64_t c_stride)
{
    for (int i = 0; i < ROWS; i++)
        for (int v = 0; v < VECTORS; v++)
            _mm_prefetch((const char *)(c + i * c_stride + v * LANES), _MM_HINT_T0);
}

ORR_AVX512 BODY void tile_fp32(int64_t units, const float *a, const float *b, float *c,
                               int64_t c_stride, int64_t columns, bool add, int vectors)
{
    __m512 sums[ROWS][VECTORS];
    fetch_tile(c, c_stride);
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            sums[i][v] = _mm512_setzero_ps();
    for (int64_t k = 0; k < units; k++, a += ROWS, b += COLUMNS) {
        __m512 bs[VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            bs[v] = _mm512_load_ps(b + LANES * v);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const __m512 x = _mm512_set1_ps(a[i]);
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++)
                sums[i][v] = _mm512_fmadd_ps(x, bs[v], sums[i][v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
        store_row(sums[i], vectors, c + i * c_stride, columns, add);
}

ORR_AVX512 static void tile_of_fp32(int64_t units, const void *a, const void *b, float *c,
                                    int64_t c_stride, int64_t columns, bool add)
{
    if (columns > 2 * LANES)
        tile_fp32(units, a, b, c, c_stride, columns, add, 3);
    else if (columns > LANES)
        tile_fp32(units, a, b, c, c_stride, columns, add, 2);
    else
        tile_fp32(units, a, b, c, c_stride, columns, add, 1);
}

ORR_AVX512_BF16 BODY void tile_bf16(int64_t units, const int32_t *a, const uint32_t *b, float *c,
                                    int64_t c_stride, int64_t columns, bool add, int vectors)
{
    __m512 sums[ROWS][VECTORS];
    fetch_tile(c, c_stride);
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            sums[i][v] = _mm512_setzero_ps();
    for (int64_t k = 0; k < units; k++, a += ROWS, b += COLUMNS) {
        __m512bh bs[VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            bs[v] = (__m512bh)_mm512_load_si512(b + LANES * v);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32(a[i]);
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++)
                sums[i][v] = _mm512_dpbf16_ps(sums[i][v], x, bs[v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
        store_row(sums[i], vectors, c + i * c_stride, columns, add);
}

ORR_AVX512_BF16 static void tile_of_bf16(int64_t units, const void *a, const void *b, float *c,
                                         int64_t c_stride, int64_t columns, bool add)
{
    if (columns > 2 * LANES)
        tile_bf16(units, a, b, c, c_stride, columns, add, 3);
    else if (columns > LANES)
        tile_bf16(units, a, b, c, c_stride, columns, add, 2);
    else
        tile_bf16(units, a, b, c, c_stride, columns, add, 1);
}

/* Transposes 16 rows of 16 units: pairs of rows, then pairs of pairs, within the 128-bit quarters
 * of the vectors; then the quarters. */
ORR_AVX512 BODY void transpose_16x16(const void *const *rows, int64_t from, uint32_t *ret,
                                     int64_t ret_stride)
{
    enum { AHEAD = 256 };
    __m512i r[LANES], t[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        _mm_prefetch((const char *)rows[i] + 4 * from + AHEAD, _MM_HINT_T0);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        r[i] = _mm512_loadu_si512((const char *)rows[i] + 4 * from);
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    /* r[4 g + j], quarter q: unit 4 q + j of rows 4 g to 4 g + 3 */
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        t[j] = _mm512_shuffle_i32x4(r[j], r[j + 4], 0x88);
        t[j + 4] = _mm512_shuffle_i32x4(r[j], r[j + 4], 0xdd);
        t[j + 8] = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0x88);
        t[j + 12] = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        _mm512_storeu_si512(ret + j * ret_stride, _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88));
        _mm512_storeu_si512(ret + (j + 4) * ret_stride,
                            _mm512_shuffle_i32x4(t[j + 4], t[j + 12], 0x88));
        _mm512_storeu_si512(ret + (j + 8) * ret_stride, _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd));
        _mm512_storeu_si512(ret + (j + 12) * ret_stride,
                            _mm512_shuffle_i32x4(t[j + 4], t[j + 12], 0xdd));
    }
}

ORR_AVX512 static void transpose(const void *const *rows, int width, int64_t units, uint32_t *ret)
{
    int64_t u = 0;
    if (width == ROWS) {
        u = units / 8 * 8;
        orr_transpose_units_8x8(rows, u, ret, ROWS);
    } else {
        for (; u + LANES <= units; u += LANES)
            for (int i = 0; i < width; i += LANES)
                transpose_16x16(rows + i, u, ret + u * width + i, width);
    }
    for (; u < units; u++)
        for (int i = 0; i < width; i++)
            ret[u * width + i] = orr_unit_at(rows[i], u);
}

ORR_AVX512 static void copy(const void *from, int64_t n, uint32_t *ret)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = orr_first_lanes_mask(n - i);
        _mm512_mask_storeu_epi32(ret + i, mask,
                                 _mm512_maskz_loadu_epi32(mask, (const char *)from + 4 * i));
    }
}

ORR_AVX512 static void interleave(const uint16_t *even, const uint16_t *odd, int64_t n,
                                  uint32_t *ret)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(even + i)));
        const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(odd + i)));
        _mm512_storeu_si512(ret + i, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
    for (; i < n; i++)
        ret[i] = even[i] | (uint32_t)odd[i] << 16;
}

ORR_AVX512_BF16 void orr_fp32_to_bf16_avx512(const float *from, int64_t n, uint16_t *ret)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = orr_first_lanes_mask(n - i);
        const __m256bh narrow = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + i));
        _mm256_mask_storeu_epi16(ret + i, mask, (__m256i)narrow);
    }
}

const orr_gemm_microkernel orr_gemm_microkernel_avx512 = {
    .rows = ROWS,
    .columns = COLUMNS,
    .per_unit = 1,
    .k_block = 512,
    .tile = tile_of_fp32,
    .transpose = transpose,
    .copy = copy,
    .interleave = interleave,
};
const orr_gemm_microkernel orr_gemm_microkernel_avx512_bf16 = {
    .rows = ROWS,
    .columns = COLUMNS,
    .per_unit = 2,
    .k_block = 1024,
    .tile = tile_of_bf16,
    .transpose = transpose,
    .copy = copy,
    .interleave = interleave,
};
#endif
