/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/vec_dot.h"

#include <string.h>

#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"

/* Dot products for any row format at any CPU level: a block of a few rows is converted to fp32,
 * which stays in L1, and multiplied with the tokens there. Also selects the dot product of a format
 * and level. */

enum { ROWS = ORR_VEC_DOT_ROWS, LANES = 8, TOKENS = 3 };
#define BODY static inline __attribute__((always_inline))

size_t orr_token_bytes_fp32(int64_t k)
{
    return (size_t)((k + 31) / 32 * 32) * sizeof(float);
}

void orr_token_prepare_fp32(const float *x, int64_t k, void *ret)
{
    memset(ret, 0, orr_token_bytes_fp32(k));
    memcpy(ret, x, (size_t)k * sizeof *x);
}

typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef float quads __attribute__((vector_size(16)));

/* The sum of the lanes: halves are added, then what is left of those. */
BODY float sum_of_lanes(const lanes *v)
{
    const quads half =
        __builtin_shufflevector(*v, *v, 0, 1, 2, 3) + __builtin_shufflevector(*v, *v, 4, 5, 6, 7);
    return (half[0] + half[2]) + (half[1] + half[3]);
}

/* Adds the products of up to 8 numbers; missing ones are zeros. */
BODY void add_products(const void *const *rows, int n_rows, const char *tokens, size_t token_bytes,
                       int n_tokens, int64_t i, int64_t n, lanes sums[ROWS][TOKENS])
{
    const size_t bytes = (size_t)n * sizeof(float), at = (size_t)i * sizeof(float);
    lanes x[TOKENS] = {{0}};
#pragma GCC unroll 3
    for (int t = 0; t < n_tokens; t++)
        __builtin_memcpy(&x[t], tokens + (size_t)t * token_bytes + at, bytes);
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
        lanes w = {0};
        __builtin_memcpy(&w, (const char *)rows[r] + at, bytes);
#pragma GCC unroll 3
        for (int t = 0; t < n_tokens; t++)
            sums[r][t] += w * x[t];
    }
}

/* Sums of the products of n numbers of up to 4 rows and 3 tokens. */
BODY void dots_of_block(const void *const *rows, int n_rows, const char *tokens, size_t token_bytes,
                        int n_tokens, int64_t n, bool add, float *ret, int64_t ret_stride)
{
    lanes sums[ROWS][TOKENS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 3
        for (int t = 0; t < n_tokens; t++)
            sums[r][t] = (lanes){0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        add_products(rows, n_rows, tokens, token_bytes, n_tokens, i, LANES, sums);
    if (i < n)
        add_products(rows, n_rows, tokens, token_bytes, n_tokens, i, n - i, sums);
#pragma GCC unroll 3
    for (int t = 0; t < n_tokens; t++)
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            const float sum = sum_of_lanes(&sums[r][t]);
            ret[t * ret_stride + r] = add ? ret[t * ret_stride + r] + sum : sum;
        }
}

/* All rows by all tokens. */
BODY void dots_by_tiles(const void *const *rows, int n_rows, const char *tokens, size_t token_bytes,
                        int n_tokens, int64_t n, bool add, float *ret, int64_t ret_stride)
{
    int t = 0;
    for (; t + TOKENS <= n_tokens && n_rows == ROWS; t += TOKENS)
        dots_of_block(rows, ROWS, tokens + (size_t)t * token_bytes, token_bytes, TOKENS, n, add,
                      ret + t * ret_stride, ret_stride);
    for (; t < n_tokens; t++)
        for (int r = 0; r < n_rows; r++)
            dots_of_block(rows + r, 1, tokens + (size_t)t * token_bytes, token_bytes, 1, n, add,
                          ret + t * ret_stride + r, ret_stride);
}

typedef void dots_fp32(const void *const *rows, int n_rows, const char *tokens, size_t token_bytes,
                       int n_tokens, int64_t n, bool add, float *ret, int64_t ret_stride);

static void dots_plain(const void *const *rows, int n_rows, const char *tokens, size_t token_bytes,
                       int n_tokens, int64_t n, bool add, float *ret, int64_t ret_stride)
{
    dots_by_tiles(rows, n_rows, tokens, token_bytes, n_tokens, n, add, ret, ret_stride);
}

#if ORR_X86
ORR_AVX2 static void dots_avx2(const void *const *rows, int n_rows, const char *tokens,
                               size_t token_bytes, int n_tokens, int64_t n, bool add, float *ret,
                               int64_t ret_stride)
{
    dots_by_tiles(rows, n_rows, tokens, token_bytes, n_tokens, n, add, ret, ret_stride);
}
#endif

static dots_fp32 *dots_fp32_of_cpu(void)
{
#if ORR_X86
    if (orr_cpu_level() >= ORR_CPU_AVX512)
        return orr_dots_fp32_avx512;
    if (orr_cpu_level() >= ORR_CPU_AVX2)
        return dots_avx2;
#endif
    return dots_plain;
}

BODY void dots_of_rows(orr_row_format format, const void *const *rows, int n_rows,
                       const char *tokens, size_t token_bytes, int n_tokens, int64_t k, float *ret,
                       int64_t ret_stride)
{
    float room[ROWS][ORR_DOT_BLOCK];
    const void *wide[ROWS];
    dots_fp32 *dots = dots_fp32_of_cpu();
    for (int64_t from = 0; from < k; from += ORR_DOT_BLOCK) {
        const int64_t n = k - from < ORR_DOT_BLOCK ? k - from : ORR_DOT_BLOCK;
        for (int r = 0; r < n_rows; r++) {
            wide[r] = format == ORR_ROW_FORMAT_FP32 ? (const float *)rows[r] + from : room[r];
            if (format != ORR_ROW_FORMAT_FP32)
                orr_row_range_to_fp32(format, rows[r], from, n, room[r]);
        }
        dots(wide, n_rows, tokens + from * (int64_t)sizeof(float), token_bytes, n_tokens, n,
             from > 0, ret, ret_stride);
    }
}

/* The same sums of packed rows and tokens. */
BODY void tile(dots_fp32 *dots, int64_t units, const char *a, const char *b, float *c,
               int64_t c_stride, int64_t columns, bool add)
{
    const void *rows[ROWS];
    float edge[TOKENS * ROWS];
    for (int r = 0; r < ROWS; r++)
        rows[r] = b + r * units * 4;
    if (columns == ROWS) {
        dots(rows, ROWS, a, (size_t)units * 4, TOKENS, units, add, c, c_stride);
        return;
    }
    dots(rows, ROWS, a, (size_t)units * 4, TOKENS, units, false, edge, ROWS);
    for (int t = 0; t < TOKENS; t++)
        for (int64_t r = 0; r < columns; r++) {
            float *at = &c[t * c_stride + r];
            *at = add ? *at + edge[t * ROWS + r] : edge[t * ROWS + r];
        }
}

#define TILE_(level)                                                                               \
    static void tile_##level(int64_t units, const void *a, const void *b, float *c,                \
                             int64_t c_stride, int64_t columns, bool add)                          \
    {                                                                                              \
        tile(dots_##level, units, a, b, c, c_stride, columns, add);                                \
    }                                                                                              \
    static const orr_gemm_microkernel TILER_##level = {.rows = TOKENS,                             \
                                                       .columns = ROWS,                            \
                                                       .per_unit = 1,                              \
                                                       .k_block = ORR_DOT_BLOCK,                   \
                                                       .by_rows = true,                            \
                                                       .tile = tile_##level};
TILE_(plain)
#if ORR_X86
TILE_(avx2)
#endif
#undef TILE_

/* One instance per format: a vec_dot is called without the format's number. */
#define ANY_(name, text)                                                                           \
    static void dots_##name(const void *const *rows, int n_rows, const char *tokens,               \
                            size_t token_bytes, int n_tokens, int64_t k, float *ret,               \
                            int64_t ret_stride)                                                    \
    {                                                                                              \
        dots_of_rows(ORR_ROW_FORMAT_##name, rows, n_rows, tokens, token_bytes, n_tokens, k, ret,   \
                     ret_stride);                                                                  \
    }
ORR_ROW_FORMAT_MAP(ANY_)
#undef ANY_

#define ANY_(name, text)                                                                           \
    [ORR_ROW_FORMAT_##name] = {orr_token_bytes_fp32, orr_token_prepare_fp32, dots_##name, 8, TILER},
#define TILER &TILER_plain
static const orr_vec_dot ANY_PLAIN[ORR_ROW_FORMATS] = {ORR_ROW_FORMAT_MAP(ANY_)};
#undef TILER
#if ORR_X86
#define TILER &TILER_avx2
static const orr_vec_dot ANY_AVX2[ORR_ROW_FORMATS] = {ORR_ROW_FORMAT_MAP(ANY_)};
#undef TILER
#define TILER &orr_gemm_dots_avx512
static const orr_vec_dot ANY_AVX512[ORR_ROW_FORMATS] = {ORR_ROW_FORMAT_MAP(ANY_)};
#undef TILER
#endif
#undef ANY_

#if ORR_X86
static const orr_vec_dot *const AVX512[ORR_ROW_FORMATS] = {
    [ORR_ROW_FORMAT_FP32] = &orr_vec_dot_fp32_by_fp32,
    [ORR_ROW_FORMAT_FP16] = &orr_vec_dot_fp32_by_fp16,
    [ORR_ROW_FORMAT_BF16] = &orr_vec_dot_fp32_by_bf16,
};
static const orr_vec_dot *const AVX512_BF16[ORR_ROW_FORMATS] = {
    [ORR_ROW_FORMAT_FP32] = &orr_vec_dot_fp32_by_fp32,
    [ORR_ROW_FORMAT_FP16] = &orr_vec_dot_fp32_by_fp16,
    [ORR_ROW_FORMAT_BF16] = &orr_vec_dot_fp32_by_bf16,
    [ORR_ROW_FORMAT_Q8_0] = &orr_vec_dot_int15_by_q8_0,
    [ORR_ROW_FORMAT_Q4_0] = &orr_vec_dot_int8_by_q4_0,
    [ORR_ROW_FORMAT_INT8] = &orr_vec_dot_int16_by_int8,
    [ORR_ROW_FORMAT_INT4] = &orr_vec_dot_int16_by_int4,
};
#endif

const orr_vec_dot *orr_vec_dot_of(orr_row_format format, orr_dtype x)
{
#if ORR_X86
    const orr_cpu_level_id level = orr_cpu_level();
    const orr_vec_dot *const *of = level >= ORR_CPU_AVX512_BF16 ? AVX512_BF16
                                   : level >= ORR_CPU_AVX512    ? AVX512
                                                                : NULL;
    /* CPUs with AMX are faster by fp32 (orr_gemm_microkernel_of()). */
    if (level == ORR_CPU_AVX512_BF16 && format == ORR_ROW_FORMAT_BF16 && x == ORR_DTYPE_BF16)
        return &orr_vec_dot_bf16;
    if (of != NULL && of[format] != NULL)
        return of[format];
    if (level >= ORR_CPU_AVX2)
        return level >= ORR_CPU_AVX512 ? &ANY_AVX512[format] : &ANY_AVX2[format];
#endif
    (void)x;
    return &ANY_PLAIN[format];
}
