/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/embedding/bags.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"

#define LEVEL
#define AT(name) name##_plain
#define NUMBERS  4
#include "kernel/cpu/embedding/row_sums_level.h"

#if ORR_X86
#include <immintrin.h>

#define LEVEL         ORR_AVX2
#define AT(name)      name##_avx2
#define NUMBERS       8
#define BYTES(v)      ((ints_avx2)_mm256_cvtepi8_epi32(_mm_set1_epi64x((int64_t)(v))))
#define NIBBLES_AT(p) four_bytes(p)
typedef uint16_t words_avx2 __attribute__((vector_size(8)));
ORR_AVX2 static inline words_avx2 four_bytes(const char *at)
{
    int32_t packed;
    __builtin_memcpy(&packed, at, sizeof packed);
    return (words_avx2)_mm_cvtsi128_si64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(packed)));
}
#include "kernel/cpu/embedding/row_sums_level.h"

#define LEVEL    ORR_AVX512
#define AT(name) name##_avx512
#define NUMBERS  16
#define BYTES(v) ((ints_avx512)_mm512_cvtepi8_epi32((__m128i)(v)))
#define NIBBLES_AT(p)                                                                              \
    ((words_avx512)_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)(p))))
#define ACROSS(v) _mm512_reduce_add_ps((__m512)(v))
#include "kernel/cpu/embedding/row_sums_level.h"
#endif
