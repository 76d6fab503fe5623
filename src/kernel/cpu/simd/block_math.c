/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/block_math.h"

#include "kernel/cpu/simd/cpu_level.h"

/* Where tiles are, products of pairs of bf16 in vectors are half as fast as those of fp32
 * (measured: 111 and 226 GFLOP/s a core of a Xeon with AMX); on others they are twice as fast. */
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
