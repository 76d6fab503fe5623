/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/matmul.h"

#include "kernel/cpu/entries.h"

/* MATMUL of op/families/matmul.c: one product for each index of the leading dims, or a single tall
 * one where these are contiguous. */

orr_matrix orr_matrix_of(const orr_operand *operand, bool turned)
{
    const uint32_t last = operand->type.rank - 1u;
    return (orr_matrix){
        .dtype = operand->type.dtype,
        .data = operand->data,
        .stride_i = operand->stride[turned ? last : last - 1],
        .stride_k = operand->stride[turned ? last - 1 : last],
        .rows = operand->rows,
    };
}

/* Workspaces are sized before there are data, so `data` may be NULL. */
void *orr_element_at(orr_dtype dtype, const void *data, int64_t elements)
{
    return data == NULL ? NULL : (char *)data + elements * (int64_t)orr_dtype_bytes(dtype);
}

static bool is_number(uint8_t dtype)
{
    return dtype == ORR_DTYPE_FP32 || dtype == ORR_DTYPE_TF32 || dtype == ORR_DTYPE_BF16 ||
           dtype == ORR_DTYPE_FP16 || dtype == ORR_DTYPE_FP64;
}

orr_status orr_matmul_check(const orr_kernel_call *call, bool scaled, orr_error *err)
{
    if (scaled)
        return orr_fail(err, ORR_UNSUPPORTED, "%s: operands with scales have no kernel here",
                        orr_op_of((orr_op)call->op)->name);
    for (uint32_t i = 0; i < 3; i++) {
        const orr_operand *operand = i < 2 ? &call->in[i] : &call->out[0];
        if (!is_number(operand->type.dtype))
            return orr_fail(err, ORR_UNSUPPORTED, "%s: there is no kernel here for %s",
                            orr_op_of((orr_op)call->op)->name,
                            orr_dtype_name((orr_dtype)operand->type.dtype));
    }
    return ORR_OK;
}

orr_status orr_matmul_check_rows(const orr_operand *w, int64_t rows, int64_t columns,
                                 orr_error *err)
{
    const orr_weight_rows *r = w->rows;
    if (r == NULL)
        return ORR_OK;
    const orr_row_segment *last = &r->segments[r->n_segments - 1];
    if (r->columns != columns || last->first + last->count != rows)
        return orr_fail(err, ORR_INVALID,
                        "matmul: weights of %lld rows of %lld numbers, where the product takes "
                        "%lld of %lld",
                        (long long)(last->first + last->count), (long long)r->columns,
                        (long long)rows, (long long)columns);
    if (orr_row_format_bytes((orr_row_format)r->format, columns) < 0)
        return orr_fail(err, ORR_INVALID, "matmul: rows of %lld numbers are no whole blocks of %s",
                        (long long)columns, orr_row_format_name((orr_row_format)r->format));
    return ORR_OK;
}

typedef struct batch {
    const orr_operand *x, *w, *y;
    uint32_t dims; /* leading dims that count products; the others are rows of one product */
} batch;

/* Whether the leading dims and the row dim form one evenly strided column of rows, and its stride.
 * Dims of size 1 do not matter. */
static bool is_column(const orr_operand *operand, int64_t *ret_stride)
{
    const orr_type *type = &operand->type;
    int64_t next = 0;
    bool any = false;
    *ret_stride = 0;
    for (uint32_t d = type->rank - 1u; d-- > 0;) {
        if (type->dim[d] == 1)
            continue;
        if (!any)
            *ret_stride = operand->stride[d];
        else if (operand->stride[d] != next)
            return false;
        any = true;
        next = operand->stride[d] * type->dim[d];
    }
    return true;
}

/* Offset of product `i` in an operand with the leading dims. */
static int64_t offset_of(const orr_operand *operand, int64_t i)
{
    int64_t offset = 0;
    for (uint32_t d = operand->type.rank - 2u; d-- > 0;) {
        offset += i % operand->type.dim[d] * operand->stride[d];
        i /= operand->type.dim[d];
    }
    return offset;
}

static const void *moved(const orr_operand *operand, const void *data, int64_t i)
{
    return orr_element_at((orr_dtype)operand->type.dtype, data, offset_of(operand, i));
}

static void at(const void *ctx, int64_t i, orr_gemm_problem *p)
{
    const batch *b = ctx;
    if (b->dims == 0)
        return;
    p->a.data = moved(b->x, p->a.data, i);
    p->c = (void *)moved(b->y, p->c, i);
    if (b->w->type.rank > 2)
        p->b.data = moved(b->w, p->b.data, i);
}

static orr_gemm_batch products_of(const orr_kernel_call *call, batch *b)
{
    const bool ta = call->args->transpose_a, tb = call->args->transpose_b;
    const orr_operand *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
    const uint32_t last = x->type.rank - 1u;
    int64_t x_stride, y_stride;
    const bool one = w->type.rank == 2 && !ta && is_column(x, &x_stride) && is_column(y, &y_stride);
    *b = (batch){.x = x, .w = w, .y = y, .dims = one ? 0 : last - 1};
    orr_gemm_batch products = {
        .like = {.m = y->type.dim[last - 1],
                 .n = y->type.dim[last],
                 .k = x->type.dim[ta ? last - 1 : last],
                 .a = orr_matrix_of(x, ta),
                 .b = orr_matrix_of(w, !tb),
                 .c_dtype = y->type.dtype,
                 .accumulate = call->accumulate,
                 .c = y->data,
                 .c_stride_m = y->stride[last - 1],
                 .c_stride_n = y->stride[last]},
        .count = 1,
        .column = one,
        .at = at,
        .ctx = b,
    };
    for (uint32_t d = 0; d + 2 < x->type.rank; d++)
        *(one ? &products.like.m : &products.count) *= y->type.dim[d];
    if (one) {
        products.like.a.stride_i = x_stride;
        products.like.c_stride_m = y_stride;
    }
    return products;
}

static size_t workspace(const orr_kernel_call *call)
{
    batch b;
    const orr_gemm_batch products = products_of(call, &b);
    return orr_gemm_batch_workspace(&products, call->workers);
}

static orr_status run(const orr_kernel_call *call, orr_error *err)
{
    batch b;
    ORR_TRY(orr_matmul_check(call, call->n_in > 2, err));
    if (call->out[0].data == NULL)
        return ORR_OK;
    const orr_gemm_batch products = products_of(call, &b);
    ORR_TRY(orr_matmul_check_rows(&call->in[1], products.like.n, products.like.k, err));
    orr_gemm_batch_run(&products, call->workspace, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_MATMUL = {.run = run, .workspace = workspace, .accumulates = true};
