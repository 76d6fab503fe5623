/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/format/dtype_convert.h"

#include <math.h>

#include "kernel/format/row.h"

/* Numbers of every dtype to and from fp32, including FP8 and FP4. */

static float read_one(orr_dtype dtype, const char *at)
{
    float value = 0;
    int32_t narrow;
    int64_t wide;
    switch (dtype) {
    case ORR_DTYPE_FP8:
        return orr_fp8_e4m3_to_fp32((uint8_t)*at);
    case ORR_DTYPE_INT8:
        return (float)(int8_t)*at;
    case ORR_DTYPE_INT32:
        __builtin_memcpy(&narrow, at, sizeof narrow);
        return (float)narrow;
    case ORR_DTYPE_INT64:
        __builtin_memcpy(&wide, at, sizeof wide);
        return (float)wide;
    case ORR_DTYPE_TF32:
        __builtin_memcpy(&value, at, sizeof value);
        return value;
    default:
        orr_dtype_to_fp32(dtype, at, 1, &value);
        return value;
    }
}

/* NaN becomes 0. */
static int64_t to_integer(float value, float least, float most)
{
    if (!(value > least))
        return value <= least ? (int64_t)least : 0;
    return value < most ? (int64_t)rintf(value) : (int64_t)most;
}

static void write_one(orr_dtype dtype, float value, char *at)
{
    int32_t narrow;
    int64_t wide;
    switch (dtype) {
    case ORR_DTYPE_FP8:
        *at = (char)orr_fp32_to_fp8_e4m3(value);
        return;
    case ORR_DTYPE_INT8:
        *at = (char)to_integer(value, -128, 127);
        return;
    case ORR_DTYPE_INT32: /* the largest floats in range */
        narrow = (int32_t)to_integer(value, -0x1p31f, 0x1.fffffep30f);
        __builtin_memcpy(at, &narrow, sizeof narrow);
        return;
    case ORR_DTYPE_INT64:
        wide = to_integer(value, -0x1p63f, 0x1.fffffep62f);
        __builtin_memcpy(at, &wide, sizeof wide);
        return;
    case ORR_DTYPE_TF32:
        __builtin_memcpy(at, &value, sizeof value);
        return;
    default:
        orr_dtype_from_fp32(dtype, &value, 1, at);
    }
}

static bool in_rows(orr_dtype dtype)
{
    return dtype == ORR_DTYPE_FP32 || dtype == ORR_DTYPE_BF16 || dtype == ORR_DTYPE_FP16 ||
           dtype == ORR_DTYPE_FP64;
}

void orr_strided_to_fp32(orr_dtype dtype, const void *from, int64_t stride, int64_t n, float *ret)
{
    if (stride == orr_dtype_stride_bytes(dtype) && in_rows(dtype)) {
        orr_dtype_to_fp32(dtype, from, n, ret);
        return;
    }
    const float first = n > 0 ? read_one(dtype, from) : 0;
    for (int64_t i = 0; i < n; i++)
        ret[i] = stride == 0 ? first : read_one(dtype, (const char *)from + i * stride);
}

void orr_strided_from_fp32(orr_dtype dtype, const float *from, int64_t n, int64_t stride, void *to)
{
    if (stride == orr_dtype_stride_bytes(dtype) && in_rows(dtype)) {
        orr_dtype_from_fp32(dtype, from, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        write_one(dtype, from[i], (char *)to + i * stride);
}

/* A small float: sign, `exponent` bits, `fraction` bits. */
static float widen(uint8_t bits, int exponent, int fraction)
{
    const int e = bits >> fraction & ((1 << exponent) - 1), f = bits & ((1 << fraction) - 1);
    const int bias = (1 << (exponent - 1)) - 1;
    const float size = e == 0 ? ldexpf((float)f, 1 - bias - fraction)
                              : ldexpf((float)(f + (1 << fraction)), e - bias - fraction);
    return bits >> (exponent + fraction) & 1 ? -size : size;
}

static uint8_t narrow_to(float value, int exponent, int fraction, float most)
{
    const int bias = (1 << (exponent - 1)) - 1;
    const uint8_t sign = (uint8_t)(signbit(value) ? 1 << (exponent + fraction) : 0);
    float size = fabsf(value);
    size = size < most ? size : most;
    int power;
    frexpf(size, &power); /* size in [2^(power - 1), 2^power) */
    const int e = size > 0 && power - 1 > 1 - bias ? power - 1 : 1 - bias;
    /* In units of the last place; a carry into the exponent gives the right bits. */
    const int units = (int)rintf(ldexpf(size, fraction - e));
    return (uint8_t)(sign | (units + ((e + bias - 1) << fraction)));
}

float orr_fp8_e4m3_to_fp32(uint8_t bits)
{
    return (bits & 0x7f) == 0x7f ? NAN : widen(bits, 4, 3);
}
uint8_t orr_fp32_to_fp8_e4m3(float value)
{
    return isnan(value) ? 0x7f : narrow_to(value, 4, 3, 448);
}
float orr_fp4_e2m1_to_fp32(uint8_t bits)
{
    return widen(bits & 0xf, 2, 1);
}
uint8_t orr_fp32_to_fp4_e2m1(float value)
{
    return isnan(value) ? 0 : narrow_to(value, 2, 1, 6);
}
