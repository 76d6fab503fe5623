/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_SIMD_CPU_LEVEL_H
#define ORR_KERNEL_CPU_SIMD_CPU_LEVEL_H

#include <orrery/kernel.h>

#include "base/cpu_level.h"

#if ORR_X86
/* Mask of the first n of 16 lanes. */
static inline uint16_t orr_first_lanes_mask(int64_t n)
{
    return (uint16_t)(n >= 16 ? 0xffff : n > 0 ? (1 << n) - 1 : 0);
}
#endif

/* The CPU's model name, such as "AMD EPYC 9354", cut to `size`. */
void orr_cpu_model(char *ret, size_t size);

#endif /* ORR_KERNEL_CPU_SIMD_CPU_LEVEL_H */
