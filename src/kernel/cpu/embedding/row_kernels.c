/* SPDX-License-Identifier: Apache-2.0 */
/* Products and sums are not contracted to FMA, so that all CPU levels give the same bits. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif
#include "kernel/cpu/embedding/row_kernels.h"
#include "kernel/cpu/embedding/sharded_table.h"

#include <math.h>

#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"

#if ORR_X86
#include <immintrin.h>
#endif

/* Vectors are passed only between inlined functions, so the vector ABI does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"

/* Sums of squares, in vectors of four numbers at every level. */
typedef float quad __attribute__((vector_size(16)));
#define INLINE static inline __attribute__((always_inline))

INLINE quad square_of_quad(const float *at)
{
    quad v;
    __builtin_memcpy(&v, at, sizeof v);
    return v * v;
}
INLINE void put_quad(float *at, quad v)
{
    __builtin_memcpy(at, &v, sizeof v);
}
/* Squares of the 16 numbers of a block: i + 8 added to i, then i + 4. */
INLINE quad squares_of_block(const float *g)
{
    return (square_of_quad(g) + square_of_quad(g + 8)) +
           (square_of_quad(g + 4) + square_of_quad(g + 12));
}
/* The sum of each of four quads: i + 2 added to i, then i + 1. */
INLINE quad sum_of_quads(quad a, quad b, quad c, quad d)
{
    const quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) +
                    __builtin_shufflevector(a, b, 2, 6, 3, 7),
               cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) +
                    __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
           __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
/* orr_sum_blocks(); the usual four without its stack. */
INLINE float sum_blocks(const float *squares, uint32_t blocks)
{
    return blocks == 4 ? (squares[0] + squares[1]) + (squares[2] + squares[3])
                       : orr_sum_blocks(squares, blocks);
}

#define LEVEL
#define AT(name) name##_plain
#define NUMBERS  4
#if ORR_X86
#define ROOT(v) ((vec_plain)_mm_sqrt_ps((__m128)(v)))
#else
#define ROOT(v) ((vec_plain){sqrtf((v)[0]), sqrtf((v)[1]), sqrtf((v)[2]), sqrtf((v)[3])})
#endif
#include "kernel/cpu/embedding/row_vectors_level.h"
#include "kernel/cpu/embedding/row_sums_level.h"
#include "kernel/cpu/embedding/row_steps_level.h"

#if ORR_X86
#define LEVEL    ORR_AVX2
#define AT(name) name##_avx2
#define NUMBERS  8
#define ROOT(v)  ((vec_avx2)_mm256_sqrt_ps((__m256)(v)))
#define HALVES_AT(p)                                                                               \
    ((vec_avx2)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define BYTES(v)      ((ints_avx2)_mm256_cvtepi8_epi32(_mm_set1_epi64x((int64_t)(v))))
#define NIBBLES_AT(p) four_bytes(p)
typedef uint16_t words_avx2 __attribute__((vector_size(8)));
ORR_AVX2 static inline words_avx2 four_bytes(const char *at)
{
    int32_t packed;
    __builtin_memcpy(&packed, at, sizeof packed);
    return (words_avx2)_mm_cvtsi128_si64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(packed)));
}
#include "kernel/cpu/embedding/row_vectors_level.h"
#include "kernel/cpu/embedding/row_sums_level.h"
#include "kernel/cpu/embedding/row_steps_level.h"

#define LEVEL    ORR_AVX512
#define AT(name) name##_avx512
#define NUMBERS  16
#define ROOT(v)  ((vec_avx512)_mm512_sqrt_ps((__m512)(v)))
#define HALVES_AT(p)                                                                               \
    ((vec_avx512)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p))))
#define BYTES(v) ((ints_avx512)_mm512_cvtepi8_epi32((__m128i)(v)))
#define NIBBLES_AT(p)                                                                              \
    ((words_avx512)_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)(p))))
#include "kernel/cpu/embedding/row_vectors_level.h"
#include "kernel/cpu/embedding/row_sums_level.h"
#include "kernel/cpu/embedding/row_steps_level.h"
#endif

const orr_row_kernels *orr_row_kernels_of_cpu(void)
{
#if ORR_X86
    if (orr_cpu_level() >= ORR_CPU_AVX512)
        return &row_kernels_avx512;
    if (orr_cpu_level() >= ORR_CPU_AVX2)
        return &row_kernels_avx2;
#endif
    return &row_kernels_plain;
}

/* Portable row sum, for formats without a kernel of their own. */
enum { WIDE = 1024 };
static void sum_read(orr_row_format format, const char *const *row, int64_t n, int64_t columns,
                     float *sum)
{
    float numbers[WIDE];
    for (int64_t i = 0; i < n; i++)
        for (int64_t at = 0; at < columns; at += WIDE) {
            const int64_t some = columns - at < WIDE ? columns - at : WIDE;
            orr_row_range_to_fp32(format, row[i], at, some, numbers);
            for (int64_t j = 0; j < some; j++)
                sum[at + j] += numbers[j];
        }
}
#define SUM_READ_(name)                                                                            \
    static void sum_##name(const char *const *row, int64_t n, int64_t more, int64_t columns,       \
                           float *sum)                                                             \
    {                                                                                              \
        (void)more;                                                                                \
        sum_read(ORR_ROW_FORMAT_##name, row, n, columns, sum);                                     \
    }
SUM_READ_(Q8_0)
SUM_READ_(Q4_0)
#undef SUM_READ_

orr_row_sum *orr_row_sum_of(orr_row_format format)
{
    if (format == ORR_ROW_FORMAT_Q8_0)
        return sum_Q8_0;
    return format == ORR_ROW_FORMAT_Q4_0 ? sum_Q4_0 : orr_row_kernels_of_cpu()->sum[format];
}
