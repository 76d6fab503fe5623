/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/matmul.h"

/* Selects the algorithm of a batch: skinny GEMM where few rows of a make it bound by reading b,
 * else blocked GEMM. */

size_t orr_gemm_batch_workspace(const orr_gemm_batch *products, const orr_workers *workers)
{
    return orr_skinny_gemm_applies(products) ? orr_skinny_gemm_workspace(products, workers)
                                             : orr_blocked_gemm_workspace(products, workers);
}

void orr_gemm_batch_run(const orr_gemm_batch *products, void *workspace, orr_workers *workers)
{
    if (orr_skinny_gemm_applies(products))
        orr_skinny_gemm(products, workspace, workers);
    else
        orr_blocked_gemm(products, workspace, workers);
}
