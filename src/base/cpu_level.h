/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_CPU_LEVEL_H
#define ORR_BASE_CPU_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

/* The instruction-set level of this CPU, each level with all below it (cf. cpu_isa of oneDNN).
 * Kernels with several versions choose by
 *
 *   if (orr_cpu_level() >= ORR_CPU_AVX512) ...
 *
 * at run time; a version is a function marked ORR_AVX2, ORR_AVX512 or ORR_AVX512_BF16.
 *
 *   AVX2         AVX2, FMA, F16C
 *   AVX512       F, BW, DQ, VL
 *   AVX512_BF16  and VNNI, VBMI: dot products of bf16 pairs and of four int8, byte permutation
 *   AMX          tiles of bf16 and int8 */
#define ORR_CPU_LEVEL_MAP(X)                                                                       \
    X(PLAIN, "plain")                                                                              \
    X(AVX2, "avx2") X(AVX512, "avx512") X(AVX512_BF16, "avx512_bf16") X(AMX, "amx")
typedef enum orr_cpu_level_id {
#define ORR_CPU_LEVEL_ENUM_(name, text) ORR_CPU_##name,
    ORR_CPU_LEVEL_MAP(ORR_CPU_LEVEL_ENUM_)
#undef ORR_CPU_LEVEL_ENUM_
        ORR_CPU_LEVELS
} orr_cpu_level_id;

#if defined __x86_64__
#define ORR_X86    1
#define ORR_AVX2   __attribute__((target("avx2,fma,f16c")))
#define ORR_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#define ORR_AVX512_BF16                                                                            \
    __attribute__((                                                                                \
        target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,"           \
               "avx512vbmi")))
#else
#define ORR_X86 0
#endif

/* The highest level that this CPU has and ORRERY_CPU (plain, avx2, avx512, avx512_bf16, amx)
 * allows. The environment is read once. Threads: any. */
orr_cpu_level_id orr_cpu_level(void);
const char *orr_cpu_level_name(orr_cpu_level_id level);
/* Test seam: limits the level from now on; ORR_CPU_LEVELS removes the limit. */
void orr_cpu_level_limit(orr_cpu_level_id level);

#endif /* ORR_BASE_CPU_LEVEL_H */
