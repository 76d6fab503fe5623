/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/matmul.h"

#include <string.h>

#include "kernel/format/row.h"
#include "kernel/cpu/entries.h"

/* Grouped GEMM (GROUPED_MATMUL of op/families/matmul_grouped.c): one product per expert, with as
 * many tokens as `counts` says. Rows of y after the last expert's tokens are set to zero. */

typedef struct grouped {
    const orr_kernel_call *call;
    const int32_t *counts;   /* of the part; NULL: every expert has as many */
    int64_t experts, tokens; /* tokens: rows of a part */
    int64_t parts, part;
} grouped;

static bool is_weight_gradient(const orr_kernel_call *call)
{
    return call->args->transpose_a;
}

/* Rows may consist of several parts (one per sending rank), each with its own counts. */
static grouped grouped_of(const orr_kernel_call *call, int64_t part)
{
    const bool counted = call->n_in == 3 || call->n_in == 5;
    const int64_t parts = counted && call->in[2].type.rank == 2 ? call->in[2].type.dim[0] : 1;
    const int64_t experts =
        is_weight_gradient(call) ? call->args->experts : call->in[1].type.dim[0];
    const int32_t *counts = counted ? call->in[2].data : NULL;
    return (grouped){
        .call = call,
        .counts = counts != NULL ? counts + part * experts : NULL,
        .experts = experts,
        .tokens = call->in[0].type.dim[0] / parts,
        .parts = parts,
        .part = part,
    };
}

/* Number of tokens of expert e, and its first one. */
static int64_t tokens_of(const grouped *g, int64_t e, int64_t *ret_first)
{
    int64_t first = g->part * g->tokens;
    if (g->counts == NULL) {
        *ret_first = e * (g->tokens / g->experts);
        return g->tokens / g->experts;
    }
    for (int64_t i = 0; i < e; i++)
        first += g->counts[i];
    *ret_first = first;
    return g->counts[e];
}

static const void *further(const orr_operand *operand, int64_t i)
{
    return orr_element_at((orr_dtype)operand->type.dtype, operand->data, i * operand->stride[0]);
}

static void at_expert(const void *ctx, int64_t e, orr_gemm_problem *p)
{
    const grouped *g = ctx;
    const orr_kernel_call *call = g->call;
    const orr_operand *w = &call->in[1];
    int64_t first;
    p->m = tokens_of(g, e, &first);
    p->first_m = first - g->part * g->tokens;
    p->a.data = further(&call->in[0], first);
    p->c = (void *)further(&call->out[0], first);
    if (w->rows != NULL)
        p->b.first_row = e * p->n;
    else
        p->b.data = further(w, e);
}

static void at_gradient(const void *ctx, int64_t e, orr_gemm_problem *p)
{
    const grouped *g = ctx;
    const orr_kernel_call *call = g->call;
    int64_t first;
    p->k = tokens_of(g, e, &first);
    p->a.data = further(&call->in[0], first);
    p->b.data = further(&call->in[1], first);
    p->c = (void *)further(&call->out[0], e);
}

static orr_gemm_batch products_of(const orr_kernel_call *call, const grouped *g)
{
    const orr_operand *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
    const bool gradient = is_weight_gradient(call);
    const uint32_t last = y->type.rank - 1u;
    orr_gemm_batch products = {
        .like = {.m = gradient ? y->type.dim[1] : g->tokens,
                 .n = y->type.dim[last],
                 .k = gradient ? g->tokens : x->type.dim[1],
                 .a = orr_matrix_of(x, gradient),
                 .b = orr_matrix_of(w, !call->args->transpose_b),
                 .c_dtype = y->type.dtype,
                 .accumulate = call->accumulate || (gradient && g->part > 0),
                 .c = y->data,
                 .c_stride_m = y->stride[last - 1],
                 .c_stride_n = y->stride[last]},
        .count = g->experts,
        .column = !gradient,
        .at = gradient ? at_gradient : at_expert,
        .ctx = g,
    };
    if (!gradient) /* rows are counted from the beginning of the part */
        products.like.a.data = further(x, g->part * g->tokens);
    return products;
}

static orr_status check_counts(const grouped *g, orr_error *err)
{
    int64_t sum = 0;
    if (g->experts < 1)
        return orr_fail(err, ORR_INVALID, "grouped_matmul: no experts");
    for (int64_t e = 0; e < g->experts && g->counts != NULL; e++) {
        if (g->counts[e] < 0)
            return orr_fail(err, ORR_INVALID, "grouped_matmul: expert %lld has %d tokens",
                            (long long)e, g->counts[e]);
        sum += g->counts[e];
    }
    if (sum > g->tokens)
        return orr_fail(err, ORR_INVALID, "grouped_matmul: experts have %lld tokens of %lld",
                        (long long)sum, (long long)g->tokens);
    return ORR_OK;
}

/* Zeros the rows that no expert writes. */
static void clear_rest(const grouped *g)
{
    const orr_operand *y = &g->call->out[0];
    const orr_dtype dtype = (orr_dtype)y->type.dtype;
    const double bytes = orr_dtype_bytes(dtype) * (double)y->type.dim[1];
    const bool together = y->stride[1] == 1 && bytes == (double)(size_t)bytes;
    const float zero = 0;
    int64_t first = g->part * g->tokens;
    if (g->counts == NULL || g->call->accumulate || is_weight_gradient(g->call))
        return;
    for (int64_t e = 0; e < g->experts; e++)
        first += g->counts[e];
    for (int64_t i = first; i < (g->part + 1) * g->tokens; i++) {
        if (together) { /* 0 is all bits 0 in each dtype */
            memset(orr_element_at(dtype, y->data, i * y->stride[0]), 0, (size_t)bytes);
            continue;
        }
        for (int64_t j = 0; j < y->type.dim[1]; j++)
            orr_dtype_from_fp32(
                dtype, &zero, 1,
                orr_element_at(dtype, y->data, i * y->stride[0] + j * y->stride[1]));
    }
}

static size_t workspace(const orr_kernel_call *call)
{
    const grouped g = grouped_of(call, 0);
    const orr_gemm_batch products = products_of(call, &g);
    return orr_gemm_batch_workspace(&products, call->workers);
}

static orr_status run_part(const orr_kernel_call *call, int64_t part, orr_error *err)
{
    const grouped g = grouped_of(call, part);
    ORR_TRY(check_counts(&g, err));
    const orr_gemm_batch products = products_of(call, &g);
    ORR_TRY(orr_matmul_check_rows(&call->in[1], g.experts * products.like.n, products.like.k, err));
    clear_rest(&g);
    orr_gemm_batch_run(&products, call->workspace, call->workers);
    return ORR_OK;
}

static orr_status run(const orr_kernel_call *call, orr_error *err)
{
    const int64_t parts = grouped_of(call, 0).parts;
    ORR_TRY(orr_matmul_check(call, call->n_in > 3, err));
    if (call->out[0].data == NULL)
        return ORR_OK;
    for (int64_t part = 0; part < parts; part++)
        ORR_TRY(run_part(call, part, err));
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_GROUPED_MATMUL = {
    .run = run, .workspace = workspace, .accumulates = true};
