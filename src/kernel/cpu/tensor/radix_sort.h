/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_TENSOR_RADIX_SORT_H
#define ORR_KERNEL_CPU_TENSOR_RADIX_SORT_H

#include "kernel/cpu/tensor/iterator.h"

/* Stable radix sort of the positions of `ids` by id, for ids of at least 0. `a` and `b` are scratch
 * of n; returns whichever holds the result. Fewer than 2^32 ids. */
uint32_t *orr_radix_sort_ids(const orr_indices *ids, uint32_t *a, uint32_t *b);

#endif /* ORR_KERNEL_CPU_TENSOR_RADIX_SORT_H */
