/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/matmul.h"

size_t orr_products_workspace(const orr_products *products, const orr_workers *workers)
{
    return orr_few_applies(products) ? orr_few_workspace(products, workers)
                                     : orr_gemm_workspace(products, workers);
}

void orr_products_run(const orr_products *products, void *workspace, orr_workers *workers)
{
    if (orr_few_applies(products))
        orr_few(products, workspace, workers);
    else
        orr_gemm(products, workspace, workers);
}
