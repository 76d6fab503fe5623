/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_GEMM_MATMUL_H
#define ORR_KERNEL_CPU_GEMM_MATMUL_H

#include "kernel/cpu/gemm/gemm.h"

/* Checks that the operands of a call can be multiplied: UNSUPPORTED unless elements have 2 or 4
 * bytes and no scales (`scaled`: there are some); INVALID unless stored rows are as many and as
 * long as the operand's shape says. */
orr_status orr_matmul_check(const orr_kernel_call *call, bool scaled,
                            orr_error *err) ORR_MUST_CHECK;
orr_status orr_matmul_check_rows(const orr_operand *w, int64_t rows, int64_t columns,
                                 orr_error *err) ORR_MUST_CHECK;

/* The matrix of an operand's last two dims, with `i` the row index; `turned`: the transpose, with
 * `i` the column index. */
orr_matrix orr_matrix_of(const orr_operand *operand, bool turned);
/* Address of the element `elements` after `data`. */
void *orr_element_at(orr_dtype dtype, const void *data, int64_t elements);

/* Runs a batch by skinny or blocked GEMM, whichever is faster for its shape. */
size_t orr_gemm_batch_workspace(const orr_gemm_batch *products, const orr_workers *workers);
void orr_gemm_batch_run(const orr_gemm_batch *products, void *workspace, orr_workers *workers);

#endif /* ORR_KERNEL_CPU_GEMM_MATMUL_H */
