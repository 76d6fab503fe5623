/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/cpu/gemm/gemm.h"

/* Portable GEMM microkernel, and the choice of the microkernel for this CPU. */

enum { ROWS = 4, COLUMNS = 8 };

static void tile(int64_t units, const void *a_panel, const void *b_panel, float *c,
                 int64_t c_stride, int64_t columns, bool add)
{
    const float *a = a_panel, *b = b_panel;
    float sums[ROWS][COLUMNS] = {{0}};
    for (int64_t k = 0; k < units; k++, a += ROWS, b += COLUMNS)
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                sums[i][j] += a[i] * b[j];
    for (int i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < columns; j++)
            c[i * c_stride + j] = add ? c[i * c_stride + j] + sums[i][j] : sums[i][j];
}

static void transpose(const void *const *rows, int width, int64_t units, uint32_t *ret)
{
    for (int64_t u = 0; u < units; u++)
        for (int i = 0; i < width; i++)
            ret[u * width + i] = orr_unit_at(rows[i], u);
}

void orr_gemm_copy_units(const void *from, int64_t n, uint32_t *ret)
{
    memcpy(ret, from, (size_t)n * sizeof *ret);
}

const orr_gemm_microkernel orr_gemm_microkernel_plain = {
    .rows = ROWS,
    .columns = COLUMNS,
    .per_unit = 1,
    .k_block = 512,
    .tile = tile,
    .transpose = transpose,
    .copy = orr_gemm_copy_units,
};

const orr_gemm_microkernel *orr_gemm_microkernel_of(bool bf16)
{
#if ORR_X86
    const orr_cpu_level_id level = orr_cpu_level();
    /* CPUs with AMX multiply bf16 pairs by AVX-512 at half the rate of fp32 FMAs (measured: 111
     * against 226 GFLOP/s a core, Xeon at 3.56 GHz); others (Zen 4) at twice the rate. */
    if (level == ORR_CPU_AVX512_BF16 && bf16)
        return &orr_gemm_microkernel_avx512_bf16;
    if (level >= ORR_CPU_AVX512)
        return &orr_gemm_microkernel_avx512;
    if (level >= ORR_CPU_AVX2)
        return &orr_gemm_microkernel_avx2;
#endif
    (void)bf16;
    return &orr_gemm_microkernel_plain;
}
