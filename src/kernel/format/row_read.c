/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/format/row.h"

#include <math.h>
#include <string.h>

#include "kernel/cpu/simd/cpu_level.h"

/* Rows of every format to fp32. Each loop is written once and compiled for each CPU level; products
 * and sums are not contracted to FMA, so that all levels give the same bits. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif
#define BODY static inline __attribute__((always_inline))

enum { BLOCK = 32, Q8_BYTES = 2 + BLOCK, Q4_BYTES = 2 + BLOCK / 2 };

/* IEEE 754 binary16. */
float orr_fp16_to_fp32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31,
                   fraction = bits & 0x3ffu;
    uint32_t wide;
    float value;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    wide = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t orr_fp32_to_fp16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000u) { /* below 2^-14: steps of 2^-24; adding rounds ties to even */
        float small;
        memcpy(&small, &bits, sizeof small);
        return (uint16_t)(sign | (uint16_t)lrintf(small * 0x1p24f));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits - 0x38000000u) >> 13));
}

BODY float float_at(const void *at)
{
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

BODY float half_at(const void *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return orr_fp16_to_fp32(bits);
}

BODY void read_bf16(const uint16_t *from, int64_t n, float *ret)
{
    for (int64_t i = 0; i < n; i++)
        ret[i] = orr_bf16_to_fp32(from[i]);
}

BODY void read_q8_0(const uint8_t *row, int64_t n, float *ret)
{
    for (int64_t b = 0; b < n / BLOCK; b++, row += Q8_BYTES) {
        const float scale = half_at(row);
        const int8_t *q = (const int8_t *)row + 2;
        for (int j = 0; j < BLOCK; j++)
            ret[b * BLOCK + j] = scale * (float)q[j];
    }
}

BODY void read_q4_0(const uint8_t *row, int64_t n, float *ret)
{
    for (int64_t b = 0; b < n / BLOCK; b++, row += Q4_BYTES) {
        const float scale = half_at(row);
        for (int j = 0; j < BLOCK / 2; j++) {
            ret[b * BLOCK + j] = scale * (float)((row[2 + j] & 15) - 8);
            ret[b * BLOCK + BLOCK / 2 + j] = scale * (float)((row[2 + j] >> 4) - 8);
        }
    }
}

BODY void read_int8(const uint8_t *row, int64_t from, int64_t n, float *ret)
{
    const float scale = float_at(row);
    const int8_t *q = (const int8_t *)row + 4 + from;
    for (int64_t i = 0; i < n; i++)
        ret[i] = scale * (float)q[i];
}

BODY void read_int4(const uint8_t *row, int64_t from, int64_t n, float *ret)
{
    const float scale = float_at(row), least = float_at(row + 4);
    const uint8_t *q = row + 8 + from / 2;
    for (int64_t i = 0; i < n / 2; i++) {
        ret[2 * i] = scale * (float)(q[i] & 15) + least;
        ret[2 * i + 1] = scale * (float)(q[i] >> 4) + least;
    }
    if (n % 2 != 0)
        ret[n - 1] = scale * (float)(q[n / 2] & 15) + least;
}

BODY void read_row(orr_row_format format, const uint8_t *row, int64_t from, int64_t n, float *ret)
{
    switch (format) {
    case ORR_ROW_FORMAT_BF16:
        read_bf16((const uint16_t *)(const void *)row + from, n, ret);
        return;
    case ORR_ROW_FORMAT_Q8_0:
        read_q8_0(row + from / BLOCK * Q8_BYTES, n, ret);
        return;
    case ORR_ROW_FORMAT_Q4_0:
        read_q4_0(row + from / BLOCK * Q4_BYTES, n, ret);
        return;
    case ORR_ROW_FORMAT_INT8:
        read_int8(row, from, n, ret);
        return;
    case ORR_ROW_FORMAT_INT4:
        read_int4(row, from, n, ret);
        return;
    case ORR_ROW_FORMAT_FP32:
        memcpy(ret, row + 4 * from, (size_t)n * sizeof *ret);
        return;
    case ORR_ROW_FORMAT_FP16:
        for (int64_t i = 0; i < n; i++)
            ret[i] = half_at(row + 2 * (from + i));
        return;
    case ORR_ROW_FORMATS:
        return;
    }
}

BODY void write_bf16(const float *from, int64_t n, uint16_t *ret)
{
    for (int64_t i = 0; i < n; i++)
        ret[i] = orr_fp32_to_bf16(from[i]);
}

static void read_plain(orr_row_format format, const uint8_t *row, int64_t from, int64_t n,
                       float *ret)
{
    read_row(format, row, from, n, ret);
}

static void write_bf16_plain(const float *from, int64_t n, uint16_t *ret)
{
    write_bf16(from, n, ret);
}

#if ORR_X86
#include <immintrin.h>

ORR_AVX2 static void read_fp16_avx2(const uint8_t *row, int64_t n, float *ret)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(ret + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(row + 2 * i))));
    for (; i < n; i++)
        ret[i] = half_at(row + 2 * i);
}

ORR_AVX2 static void read_avx2(orr_row_format format, const uint8_t *row, int64_t from, int64_t n,
                               float *ret)
{
    if (format == ORR_ROW_FORMAT_FP16)
        read_fp16_avx2(row + 2 * from, n, ret);
    else
        read_row(format, row, from, n, ret);
}

ORR_AVX512 static void read_avx512(orr_row_format format, const uint8_t *row, int64_t from,
                                   int64_t n, float *ret)
{
    if (format == ORR_ROW_FORMAT_FP16)
        read_fp16_avx2(row + 2 * from, n, ret);
    else
        read_row(format, row, from, n, ret);
}

ORR_AVX2 static void write_fp16_avx2(const float *from, int64_t n, uint16_t *ret)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(ret + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        ret[i] = orr_fp32_to_fp16(from[i]);
}

ORR_AVX2 static void write_bf16_avx2(const float *from, int64_t n, uint16_t *ret)
{
    write_bf16(from, n, ret);
}

ORR_AVX512 static void write_bf16_avx512(const float *from, int64_t n, uint16_t *ret)
{
    write_bf16(from, n, ret);
}
#endif

static void write_fp16(const float *from, int64_t n, uint16_t *ret)
{
#if ORR_X86
    if (orr_cpu_level() >= ORR_CPU_AVX2) {
        write_fp16_avx2(from, n, ret);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        ret[i] = orr_fp32_to_fp16(from[i]);
}

static void write_as_bf16(const float *from, int64_t n, uint16_t *ret)
{
#if ORR_X86
    if (orr_cpu_level() >= ORR_CPU_AVX512) {
        write_bf16_avx512(from, n, ret);
        return;
    }
    if (orr_cpu_level() >= ORR_CPU_AVX2) {
        write_bf16_avx2(from, n, ret);
        return;
    }
#endif
    write_bf16_plain(from, n, ret);
}

void orr_row_range_to_fp32(orr_row_format format, const void *row, int64_t from, int64_t n,
                           float *ret)
{
#if ORR_X86
    if (orr_cpu_level() >= ORR_CPU_AVX512) {
        read_avx512(format, row, from, n, ret);
        return;
    }
    if (orr_cpu_level() >= ORR_CPU_AVX2) {
        read_avx2(format, row, from, n, ret);
        return;
    }
#endif
    read_plain(format, row, from, n, ret);
}

void orr_row_to_fp32(orr_row_format format, const void *row, int64_t n, float *ret)
{
    orr_row_range_to_fp32(format, row, 0, n, ret);
}

void orr_dtype_to_fp32(orr_dtype dtype, const void *from, int64_t n, float *ret)
{
    if (dtype == ORR_DTYPE_BF16)
        orr_row_to_fp32(ORR_ROW_FORMAT_BF16, from, n, ret);
    else if (dtype == ORR_DTYPE_FP16)
        orr_row_to_fp32(ORR_ROW_FORMAT_FP16, from, n, ret);
    else if (dtype == ORR_DTYPE_FP64)
        for (int64_t i = 0; i < n; i++)
            ret[i] = (float)((const double *)from)[i];
    else
        memcpy(ret, from, (size_t)n * sizeof *ret);
}

void orr_dtype_from_fp32(orr_dtype dtype, const float *from, int64_t n, void *ret)
{
    if (dtype == ORR_DTYPE_BF16)
        write_as_bf16(from, n, ret);
    else if (dtype == ORR_DTYPE_FP16)
        write_fp16(from, n, ret);
    else if (dtype == ORR_DTYPE_FP64)
        for (int64_t i = 0; i < n; i++)
            ((double *)ret)[i] = (double)from[i];
    else
        memcpy(ret, from, (size_t)n * sizeof *from);
}

const void *orr_row_at(const orr_weight_rows *rows, int64_t i)
{
    uint32_t low = 0, high = rows->n_segments;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (rows->segments[middle].first <= i)
            low = middle;
        else
            high = middle;
    }
    const orr_row_segment *piece = &rows->segments[low];
    return (const char *)piece->data + (i - piece->first) * rows->row_bytes;
}
