/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_FORMAT_DTYPE_CONVERT_H
#define ORR_KERNEL_FORMAT_DTYPE_CONVERT_H

#include <orrery/kernel.h>

/* Numbers of every dtype to and from fp32. Integers round to nearest and saturate. FP4 packs two
 * numbers in a byte and is read and written one number at a time. */

/* Bytes of a number; FP4 counts as 1 and must not be used to count bytes. */
static inline int64_t orr_dtype_stride_bytes(orr_dtype dtype)
{
    return dtype == ORR_DTYPE_FP4 ? 1 : (int64_t)orr_dtype_bytes(dtype);
}

/* Converts `n` numbers `stride` bytes apart (0: the same one). */
void orr_strided_to_fp32(orr_dtype dtype, const void *from, int64_t stride, int64_t n, float *ret);
void orr_strided_from_fp32(orr_dtype dtype, const float *from, int64_t n, int64_t stride, void *to);

/* E4M3 (OCP 8-bit floating point specification 1.0): to nearest, ties to even; saturates at 448. */
float orr_fp8_e4m3_to_fp32(uint8_t bits);
uint8_t orr_fp32_to_fp8_e4m3(float value);
/* E2M1 (OCP Microscaling 1.0), in the low nibble; saturates at 6. */
float orr_fp4_e2m1_to_fp32(uint8_t bits);
uint8_t orr_fp32_to_fp4_e2m1(float value);

#endif /* ORR_KERNEL_FORMAT_DTYPE_CONVERT_H */
