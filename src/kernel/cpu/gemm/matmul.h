/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_GEMM_MATMUL_H
#define ORR_KERNEL_CPU_GEMM_MATMUL_H

#include "kernel/cpu/gemm/gemm.h"

/* UNSUPPORTED or INVALID unless products of what is given can be made: numbers of 2 or 4 bytes,
 * without scales (`scaled`: there are some); rows as many and as long as the operands say. */
orr_status orr_matmul_check(const orr_kernel_call *call, bool scaled,
                            orr_error *err) ORR_MUST_CHECK;
orr_status orr_matmul_check_rows(const orr_operand *w, int64_t rows, int64_t columns,
                                 orr_error *err) ORR_MUST_CHECK;

/* Matrices of an operand's last two dims, index (row, column) with `row` counted by i; turned:
 * (column, row). */
orr_matrix orr_matrix_of(const orr_operand *operand, bool turned);
/* The place `elements` further on. */
void *orr_element_at(orr_dtype dtype, const void *data, int64_t elements);

/* By whatever is fastest for the shape. */
size_t orr_gemm_batch_workspace(const orr_gemm_batch *products, const orr_workers *workers);
void orr_gemm_batch_run(const orr_gemm_batch *products, void *workspace, orr_workers *workers);

#endif /* ORR_KERNEL_CPU_GEMM_MATMUL_H */
