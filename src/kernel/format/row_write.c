/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/format/row.h"

#include <math.h>
#include <string.h>

#include "kernel/cpu/simd/cpu_level.h"

/* fp32 to rows of every format. Q8_0 and Q4_0 are quantized as GGUF's reference does (gguf-py's
 * quants.py), bit for bit: divided by the scale before it is rounded to fp16, halves away from zero
 * in Q8_0, up in Q4_0. Each loop is written once and compiled for each CPU level. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif
#define BODY static inline __attribute__((always_inline))

enum { BLOCK = 32, Q8_BYTES = 2 + BLOCK, Q4_BYTES = 2 + BLOCK / 2 };

/* The number of largest magnitude, with its sign; of two equal ones the positive. */
BODY float extreme(const float *values, int64_t n)
{
    float most = 0, least = 0;
    for (int64_t i = 0; i < n; i++) {
        most = values[i] > most ? values[i] : most;
        least = values[i] < least ? values[i] : least;
    }
    return most >= -least ? most : least;
}

BODY void put_half(float value, uint8_t *ret)
{
    const uint16_t bits = orr_fp32_to_fp16(value);
    memcpy(ret, &bits, sizeof bits);
}

/* Clamps; NaN too. */
BODY float bound(float value, float low, float high)
{
    return value > low ? value < high ? value : high : low;
}

BODY float inverse(float scale)
{
    return scale != 0 ? 1 / scale : 0;
}

/* To the nearest, halves away from zero. */
BODY int32_t rounded_away(float value)
{
    const int32_t whole = (int32_t)value;
    const float rest = value - (float)whole;
    return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

BODY void write_q8_0(const float *values, int64_t n, uint8_t *ret)
{
    for (int64_t b = 0; b < n / BLOCK; b++, values += BLOCK, ret += Q8_BYTES) {
        const float scale = fabsf(extreme(values, BLOCK)) / 127, by = inverse(scale);
        put_half(scale, ret);
        for (int j = 0; j < BLOCK; j++)
            ret[2 + j] = (uint8_t)(int8_t)rounded_away(bound(values[j] * by, -127, 127));
    }
}

BODY uint8_t nibble(float value)
{
    return (uint8_t)(int32_t)bound(value, 0, 15);
}

BODY void write_q4_0(const float *values, int64_t n, uint8_t *ret)
{
    for (int64_t b = 0; b < n / BLOCK; b++, values += BLOCK, ret += Q4_BYTES) {
        const float scale = extreme(values, BLOCK) / -8, by = inverse(scale);
        put_half(scale, ret);
        for (int j = 0; j < BLOCK / 2; j++) {
            const uint8_t low = nibble(values[j] * by + 8.5f);
            const uint8_t high = nibble(values[j + BLOCK / 2] * by + 8.5f);
            ret[2 + j] = (uint8_t)(low | high << 4);
        }
    }
}

/* The largest magnitude that is no NaN. Magnitudes compare as their bits do, in whole vectors. */
BODY float magnitude(const float *values, int64_t n)
{
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7fffffff;
        bits = bits <= 0x7f800000 ? bits : 0;
        most = bits > most ? bits : most;
    }
    float value;
    memcpy(&value, &most, sizeof value);
    return value;
}

BODY void write_int8(const float *values, int64_t n, uint8_t *ret)
{
    const float scale = magnitude(values, n) / 127, by = inverse(scale);
    memcpy(ret, &scale, sizeof scale);
    for (int64_t i = 0; i < n; i++)
        ret[4 + i] = (uint8_t)(int8_t)(int32_t)rintf(bound(values[i] * by, -127, 127));
}

BODY void write_int4(const float *values, int64_t n, uint8_t *ret)
{
    float least = n > 0 ? values[0] : 0, most = least;
    for (int64_t i = 1; i < n; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
    }
    const float scale = (most - least) / 15, by = inverse(scale);
    memcpy(ret, &scale, sizeof scale);
    memcpy(ret + 4, &least, sizeof least);
    for (int64_t i = 0; i < n; i += 2) {
        const uint8_t low = nibble(rintf((values[i] - least) * by));
        const uint8_t high = i + 1 < n ? nibble(rintf((values[i + 1] - least) * by)) : 0;
        ret[8 + i / 2] = (uint8_t)(low | high << 4);
    }
}

BODY void write_blocks(orr_row_format format, const float *values, int64_t n, void *ret)
{
    switch (format) {
    case ORR_ROW_FORMAT_Q8_0:
        write_q8_0(values, n, ret);
        return;
    case ORR_ROW_FORMAT_Q4_0:
        write_q4_0(values, n, ret);
        return;
    case ORR_ROW_FORMAT_INT8:
        write_int8(values, n, ret);
        return;
    case ORR_ROW_FORMAT_INT4:
        write_int4(values, n, ret);
        return;
    default:
        return;
    }
}

#if ORR_X86
ORR_AVX2 static void write_avx2(orr_row_format format, const float *values, int64_t n, void *ret)
{
    write_blocks(format, values, n, ret);
}

ORR_AVX512 static void write_avx512(orr_row_format format, const float *values, int64_t n,
                                    void *ret)
{
    write_blocks(format, values, n, ret);
}
#endif

void orr_row_from_fp32(orr_row_format format, const float *values, int64_t n, void *ret)
{
    if (format == ORR_ROW_FORMAT_FP32 || format == ORR_ROW_FORMAT_FP16 ||
        format == ORR_ROW_FORMAT_BF16) {
        orr_dtype_from_fp32(format == ORR_ROW_FORMAT_FP32   ? ORR_DTYPE_FP32
                            : format == ORR_ROW_FORMAT_FP16 ? ORR_DTYPE_FP16
                                                            : ORR_DTYPE_BF16,
                            values, n, ret);
        return;
    }
#if ORR_X86
    if (orr_cpu_level() >= ORR_CPU_AVX512) {
        write_avx512(format, values, n, ret);
        return;
    }
    if (orr_cpu_level() >= ORR_CPU_AVX2) {
        write_avx2(format, values, n, ret);
        return;
    }
#endif
    write_blocks(format, values, n, ret);
}
