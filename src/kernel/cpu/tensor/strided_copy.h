/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_TENSOR_STRIDED_COPY_H
#define ORR_KERNEL_CPU_TENSOR_STRIDED_COPY_H

#include <orrery/kernel.h>

/* Copies elements by strides, bit for bit, whatever the dtype. Operands of FP4 are contiguous rows
 * of whole bytes. */
void orr_copy_elements(const orr_type *dims, const void *from, const int64_t *from_stride, void *to,
                       const int64_t *to_stride, orr_workers *workers);
/* The same for two operands of the same dims. */
void orr_copy_operand(const orr_operand *from, const orr_operand *to, orr_workers *workers);

/* Address of index `at` of dim `d`. */
void *orr_operand_at(const orr_operand *operand, int32_t d, int64_t at);

#endif /* ORR_KERNEL_CPU_TENSOR_STRIDED_COPY_H */
