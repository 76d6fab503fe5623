/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/matmul.h"

#include "kernel/cpu/gemm/vec_dot.h"

/* Selects the algorithm of a batch.
 *
 * The order in which the products of a row are summed, and with it their bits, follows from how b
 * is kept and from K alone, never from how many rows of a come along: stored rows are summed as
 * their format's dot product does (vec_dot.h), tensors in the order of K. Dot products of few rows
 * of a are skinny GEMM; of more, blocked GEMM in the same order, where the format has one. Of a
 * group, each product is computed by its own number of rows: beyond one pass of dot products,
 * packing is faster. */

const orr_vec_dot *orr_gemm_dots(const orr_gemm_batch *products)
{
    const orr_gemm_problem *p = &products->like;
    return p->b.rows != NULL && p->k > 0
               ? orr_vec_dot_of((orr_row_format)p->b.rows->format, (orr_dtype)p->a.dtype)
               : NULL;
}

static bool is_skinny(const orr_gemm_batch *products, const orr_vec_dot *dots)
{
    return products->column && (dots->tiler == NULL || products->like.m <= dots->max_tokens);
}

/* Whether products may differ in how they are computed. */
static bool is_mixed(const orr_gemm_batch *products, const orr_vec_dot *dots)
{
    return products->column && products->at != NULL && products->count > 1 && dots->tiler != NULL;
}

/* The products of a group with few rows, or the others: those of the other kind have no rows. */
typedef struct group_part {
    const orr_gemm_batch *of;
    bool few;
} group_part;

static void at_part(const void *ctx, int64_t i, orr_gemm_problem *p)
{
    const group_part *part = ctx;
    part->of->at(part->of->ctx, i, p);
    if ((p->m <= ORR_VEC_DOT_TOKENS) != part->few)
        p->m = 0;
}

static bool has_rows(const orr_gemm_batch *products)
{
    orr_gemm_problem p = products->like;
    p.m = 0;
    for (int64_t i = 0; i < products->count && p.m == 0; i++)
        products->at(products->ctx, i, &p);
    return p.m > 0;
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
    const bool mixed = dots != NULL && is_mixed(products, dots);
    size_t few = 0, many = 0;
    if (dots != NULL && (mixed || is_skinny(products, dots) || dots->tiler == NULL))
        few = orr_skinny_gemm_workspace(products, workers);
    if (few == 0 || mixed)
        many = orr_blocked_gemm_workspace(products, tiler_of(&products->like, dots), workers);
    return few > many ? few : many;
}

static void run_mixed(const orr_gemm_batch *products, const orr_gemm_microkernel *tiler,
                      void *workspace, orr_workers *workers)
{
    for (int few = 0; few < 2; few++) {
        const group_part which = {products, few != 0};
        orr_gemm_batch part = *products;
        part.at = at_part;
        part.ctx = &which;
        if (!has_rows(&part))
            continue;
        if (few != 0)
            orr_skinny_gemm(&part, workspace, workers);
        else
            orr_blocked_gemm(&part, tiler, workspace, workers);
    }
}

void orr_gemm_batch_run(const orr_gemm_batch *products, void *workspace, orr_workers *workers)
{
    const orr_vec_dot *dots = orr_gemm_dots(products);
    if (dots != NULL && is_mixed(products, dots)) {
        run_mixed(products, dots->tiler, workspace, workers);
        return;
    }
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
