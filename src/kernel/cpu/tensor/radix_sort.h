/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_TENSOR_RADIX_SORT_H
#define ORR_KERNEL_CPU_TENSOR_RADIX_SORT_H

#include "kernel/cpu/tensor/iterator.h"

/* Positions of `ids`, none of which is below 0, by id, equal ones in order. `a` and `b`: shape (n);
 * the sorted ones stand in the one that is returned. Fewer than 2^32 of them. */
uint32_t *orr_radix_sort_ids(const orr_indices *ids, uint32_t *a, uint32_t *b);

#endif /* ORR_KERNEL_CPU_TENSOR_RADIX_SORT_H */
