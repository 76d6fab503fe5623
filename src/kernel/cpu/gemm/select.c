/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/matmul.h"

#include "kernel/cpu/gemm/vec_dot.h"

/* Selects the algorithm of a batch.
 *
 * The order in which the products of a row are summed, and with it their bits, follows from how b
 * is kept and from K alone, never from how many rows of a come along: stored rows are summed as
 * their format's dot product does (vec_dot.h), tensors in the order of K. Dot products of few rows
 * of a are skinny GEMM; of more, blocked GEMM in the same order, where the format has one. */

enum { GROUPED_TOKENS_MAX = 64 }; /* rows of all experts together: most have one or two */

const orr_vec_dot *orr_gemm_dots(const orr_gemm_batch *products)
{
    const orr_gemm_problem *p = &products->like;
    return p->b.rows != NULL && p->k > 0
               ? orr_vec_dot_of((orr_row_format)p->b.rows->format, (orr_dtype)p->a.dtype)
               : NULL;
}

static bool is_skinny(const orr_gemm_batch *products, const orr_vec_dot *dots)
{
    const int64_t most = products->count > 1 ? GROUPED_TOKENS_MAX : dots->max_tokens;
    return products->column && (dots->tiler == NULL || products->like.m <= most);
}

static const orr_gemm_microkernel *tiler_of(const orr_gemm_problem *p, const orr_vec_dot *dots)
{
    return dots != NULL ? dots->tiler
                        : orr_gemm_microkernel_of(p->a.dtype == ORR_DTYPE_BF16 &&
                                                  p->b.dtype == ORR_DTYPE_BF16);
}

/* Product i as a batch of its own, whose rows are a column. */
static orr_gemm_batch one_of(const orr_gemm_batch *products, int64_t i)
{
    orr_gemm_batch one = {.like = products->like, .count = 1, .column = true};
    if (products->at != NULL)
        products->at(products->ctx, i, &one.like);
    one.like.first_m = 0;
    return one;
}

size_t orr_gemm_batch_workspace(const orr_gemm_batch *products, const orr_workers *workers)
{
    const orr_vec_dot *dots = orr_gemm_dots(products);
    if (dots != NULL && (is_skinny(products, dots) || dots->tiler == NULL))
        return orr_skinny_gemm_workspace(products, workers);
    return orr_blocked_gemm_workspace(products, tiler_of(&products->like, dots), workers);
}

void orr_gemm_batch_run(const orr_gemm_batch *products, void *workspace, orr_workers *workers)
{
    const orr_vec_dot *dots = orr_gemm_dots(products);
    if (dots != NULL && is_skinny(products, dots)) {
        orr_skinny_gemm(products, workspace, workers);
        return;
    }
    if (dots == NULL || dots->tiler != NULL) {
        orr_blocked_gemm(products, tiler_of(&products->like, dots), workspace, workers);
        return;
    }
    for (int64_t i = 0; i < products->count; i++) {
        const orr_gemm_batch one = one_of(products, i);
        orr_skinny_gemm(&one, workspace, workers);
    }
}
