/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/vec_dot.h"

#include <string.h>

#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"

/* Portable dot product for any row format at any CPU level: a run of 256 numbers of the row is
 * converted to fp32, which stays in L1, and multiplied with the tokens there. Also selects the dot
 * product of a format and level. */

enum { RUN = 256, LANES = 16 };
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

/* 16 partial sums, so that compilers may vectorize without reordering the additions. */
BODY void add_products(const float *row, const float *x, int64_t n, float sums[LANES])
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            sums[l] += row[i + l] * x[i + l];
    for (int l = 0; i + l < n; l++)
        sums[l] += row[i + l] * x[i + l];
}

#if ORR_X86
ORR_AVX2 static void add_products_avx2(const float *row, const float *x, int64_t n, float *sums)
{
    add_products(row, x, n, sums);
}
#endif

static void add_products_plain(const float *row, const float *x, int64_t n, float *sums)
{
    add_products(row, x, n, sums);
}

static void dots_of_row(orr_row_format format, const void *row, const char *tokens,
                        size_t token_bytes, int n_tokens, int64_t k, float *ret, int64_t ret_stride)
{
    float run[RUN], sums[ORR_VEC_DOT_TOKENS][LANES] = {{0}};
    for (int64_t from = 0; from < k; from += RUN) {
        const int64_t n = k - from < RUN ? k - from : RUN;
        orr_row_range_to_fp32(format, row, from, n, run);
        for (int t = 0; t < n_tokens; t++) {
            const float *x = (const float *)(const void *)(tokens + (size_t)t * token_bytes) + from;
#if ORR_X86
            if (orr_cpu_level() >= ORR_CPU_AVX2) {
                add_products_avx2(run, x, n, sums[t]);
                continue;
            }
#endif
            add_products_plain(run, x, n, sums[t]);
        }
    }
    for (int t = 0; t < n_tokens; t++) {
        float sum = 0;
        for (int l = 0; l < LANES; l++)
            sum += sums[t][l];
        ret[t * ret_stride] = sum;
    }
}

/* One instance per format: a vec_dot is called without the format's number. */
#define ANY_(name, text)                                                                           \
    static void dots_##name(const void *const *rows, int n_rows, const char *tokens,               \
                            size_t token_bytes, int n_tokens, int64_t k, float *ret,               \
                            int64_t ret_stride)                                                    \
    {                                                                                              \
        for (int r = 0; r < n_rows; r++)                                                           \
            dots_of_row(ORR_ROW_FORMAT_##name, rows[r], tokens, token_bytes, n_tokens, k, ret + r, \
                        ret_stride);                                                               \
    }
ORR_ROW_FORMAT_MAP(ANY_)
#undef ANY_

static const orr_vec_dot ANY[ORR_ROW_FORMATS] = {
#define ANY_(name, text)                                                                           \
    [ORR_ROW_FORMAT_##name] = {orr_token_bytes_fp32, orr_token_prepare_fp32, dots_##name, 8},
    ORR_ROW_FORMAT_MAP(ANY_)
#undef ANY_
};

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
    if (level >= ORR_CPU_AVX512_BF16 && format == ORR_ROW_FORMAT_BF16 && x == ORR_DTYPE_BF16)
        return &orr_vec_dot_bf16;
    if (of != NULL && of[format] != NULL)
        return of[format];
#endif
    (void)x;
    return &ANY[format];
}
