/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/vector_math.h"

#include <math.h>
#include <stddef.h>

#include "kernel/cpu/simd/cpu_level.h"

#if ORR_X86
#include <immintrin.h>
#define ROOT_PLAIN(v)       ((vec_plain)_mm_sqrt_ps((__m128)(v)))
#define LARGER_PLAIN(a, b)  ((vec_plain)_mm_max_ps((__m128)(a), (__m128)(b)))
#define SMALLER_PLAIN(a, b) ((vec_plain)_mm_min_ps((__m128)(a), (__m128)(b)))
#else
#define ROOT_PLAIN(v)       ((vec_plain){sqrtf((v)[0]), sqrtf((v)[1]), sqrtf((v)[2]), sqrtf((v)[3])})
#define LARGER_PLAIN(a, b)  choose_plain((a) > (b), (a), (b))
#define SMALLER_PLAIN(a, b) choose_plain((a) < (b), (a), (b))
#endif

/* Vectors are passed only between inlined functions, so the vector ABI does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define LEVEL
#define AT(name) name##_plain
#define LANES    4
#define ROOT     ROOT_PLAIN
#define LARGER   LARGER_PLAIN
#define SMALLER  SMALLER_PLAIN
#include "kernel/cpu/simd/vector_math_level.h"
#undef LEVEL
#undef AT
#undef LANES
#undef ROOT
#undef LARGER
#undef SMALLER

#if ORR_X86
#define LEVEL         ORR_AVX2
#define AT(name)      name##_avx2
#define LANES         8
#define ROOT(v)       ((vec_avx2)_mm256_sqrt_ps((__m256)(v)))
#define LARGER(a, b)  ((vec_avx2)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SMALLER(a, b) ((vec_avx2)_mm256_min_ps((__m256)(a), (__m256)(b)))
#include "kernel/cpu/simd/vector_math_level.h"
#undef LEVEL
#undef AT
#undef LANES
#undef ROOT
#undef LARGER
#undef SMALLER

#define LEVEL         ORR_AVX512
#define AT(name)      name##_avx512
#define LANES         16
#define ROOT(v)       ((vec_avx512)_mm512_sqrt_ps((__m512)(v)))
#define LARGER(a, b)  ((vec_avx512)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define SMALLER(a, b) ((vec_avx512)_mm512_min_ps((__m512)(a), (__m512)(b)))
#include "kernel/cpu/simd/vector_math_level.h"
#undef LEVEL
#undef AT
#undef LANES
#undef ROOT
#undef LARGER
#undef SMALLER
#endif

const orr_vector_math *orr_vector_math_of_cpu(void)
{
#if ORR_X86
    const orr_cpu_level_id level = orr_cpu_level();
    if (level >= ORR_CPU_AVX512)
        return &math_avx512;
    if (level >= ORR_CPU_AVX2)
        return &math_avx2;
#endif
    return &math_plain;
}
