/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_FORMAT_ROW_H
#define ORR_KERNEL_FORMAT_ROW_H

#include <orrery/kernel.h>

/* Rows of weights in every format of orr_row_format to and from fp32. `n`: numbers of the row, a
 * whole number of blocks. Results are the same at every CPU level. */
void orr_row_to_fp32(orr_row_format format, const void *row, int64_t n, float *ret);
/* Numbers from .. from + n - 1 of the row; `from` is a multiple of 32. */
void orr_row_range_to_fp32(orr_row_format format, const void *row, int64_t from, int64_t n,
                           float *ret);
/* `ret` has orr_row_format_bytes() bytes. Only FP32, FP16 and BF16 keep NaN and infinity. */
void orr_row_from_fp32(orr_row_format format, const float *values, int64_t n, void *ret);

/* Address of row `i` of weights in segments; `i` is not checked. */
const void *orr_row_at(const orr_weight_rows *rows, int64_t i);

/* Contiguous FP32, FP16, BF16 and FP64. */
void orr_dtype_to_fp32(orr_dtype dtype, const void *from, int64_t n, float *ret);
void orr_dtype_from_fp32(orr_dtype dtype, const float *from, int64_t n, void *ret);

static inline float orr_bf16_to_fp32(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    __builtin_memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
static inline uint16_t orr_fp32_to_bf16(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float orr_fp16_to_fp32(uint16_t bits);
uint16_t orr_fp32_to_fp16(float value);

#endif /* ORR_KERNEL_FORMAT_ROW_H */
