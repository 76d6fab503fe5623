/* SPDX-License-Identifier: Apache-2.0 */
#include "op/families/matmul.h"

/* Matrix product: y = a b, with a = x or its transpose (transpose_a), b = w or its transpose.
 *
 * x (..., M, K) [transposed (..., K, M)], w (K, N) [(N, K)], one for all leading dims, or
 * w (..., K, N) [(..., N, K)] with those of x; y (..., M, N).
 * A transposed x with leading dims needs a w that has them too.
 *
 * Quantised operands (8 bits or fewer) may come with the scales that QUANTIZE gave, both or none;
 * `size` is the block that shares one. y is bf16 then, and the arithmetic is made in the operands'
 * dtype. Otherwise y is of the wider dtype of both.
 *
 * Gradient: two products, dx and dw; of quantised operands the gradient that comes in is quantised
 * likewise first, as training in 8 bits does (Micikevicius et al., arXiv 2209.05433). */

typedef struct product {
    int64_t batch, m, k, k_of_w, n;
} product;

static product product_of(const orr_op_signature *sig)
{
    const orr_type *x = &sig->in[0], *w = &sig->in[1];
    const uint32_t x_end = x->rank - 1u, w_end = w->rank - 1u;
    const bool ta = sig->args->transpose_a, tb = sig->args->transpose_b;
    return (product){.batch = orr_type_span(x, 0, x_end - 1),
                     .m = x->dim[ta ? x_end : x_end - 1],
                     .k = x->dim[ta ? x_end - 1 : x_end],
                     .k_of_w = w->dim[tb ? w_end : w_end - 1],
                     .n = w->dim[tb ? w_end - 1 : w_end]};
}

static orr_status check_leading(const orr_op_signature *sig, orr_error *err)
{
    const orr_type *x = &sig->in[0], *w = &sig->in[1];
    if (w->rank == 2 && (x->rank == 2 || !sig->args->transpose_a))
        return ORR_OK;
    if (w->rank == 2)
        return orr_op_shape_error(sig, err,
                                  "a transposed x of more than two dims needs a w with "
                                  "the same leading dims");
    if (w->rank != x->rank)
        return orr_op_shape_error(sig, err, "w has two dims, or as many as x");
    for (uint32_t d = 0; d + 2 < x->rank; d++)
        if (x->dim[d] != w->dim[d])
            return orr_op_shape_error(sig, err, "the leading dims %lld and %lld differ",
                                      (long long)x->dim[d], (long long)w->dim[d]);
    return ORR_OK;
}

orr_dtype orr_matmul_dtype(orr_dtype x, orr_dtype w)
{
    const orr_dtype wider = orr_dtype_wider(x, w);
    return orr_dtype_bytes(wider) <= 1 ? ORR_DTYPE_BF16 : wider;
}

static orr_status matmul_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0], *w = &sig->in[1];
    if (sig->n_in == 3)
        return orr_op_shape_error(sig, err, "scales come of both operands or of none");
    if (x->rank < 2 || w->rank < 2)
        return orr_op_shape_error(sig, err, "a product is of matrices, of two dims or more");
    ORR_TRY(check_leading(sig, err));
    const product p = product_of(sig);
    if (p.k != p.k_of_w)
        return orr_op_shape_error(sig, err, "the inner dims %lld and %lld differ", (long long)p.k,
                                  (long long)p.k_of_w);
    ret_out[0] = orr_type_with(x, orr_matmul_dtype((orr_dtype)x->dtype, (orr_dtype)w->dtype));
    ret_out[0].dim[x->rank - 2] = p.m;
    ret_out[0].dim[x->rank - 1] = p.n;
    return ORR_OK;
}

static void matmul_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const product p = product_of(sig);
    orr_op_work_stream(sig, 2.0 * (double)p.batch * (double)p.m * (double)p.k * (double)p.n, ret);
    ret->dtype = (uint8_t)orr_dtype_wider((orr_dtype)sig->in[0].dtype, (orr_dtype)sig->in[1].dtype);
}

orr_status orr_quantized_gradient(orr_gradient *g, uint32_t first_scale, orr_quantized_value *ret,
                                  orr_error *err)
{
    const orr_dtype dtype = (orr_dtype)orr_gradient_type(g, g->in[0])->dtype;
    const orr_quantized_value dy = {.value = g->grad_out[0], .scale = ORR_NONE};
    const orr_op_args args = {.dtype = (uint8_t)dtype, .size = g->args->size};
    orr_value made[2] = {ORR_NONE, ORR_NONE};
    *ret = dy;
    if (orr_dtype_bytes(dtype) > 1)
        return ORR_OK;
    const orr_op op = g->n_in > first_scale ? ORR_OP_QUANTIZE : ORR_OP_CAST;
    ORR_TRY(orr_gradient_call(g, op, &args, &dy.value, 1, made, err));
    *ret = (orr_quantized_value){.value = made[0], .scale = made[1]};
    return ORR_OK;
}

/* Records the product a b, whose operands may have scales. */
static orr_status record(orr_gradient *g, const orr_quantized_value *a, bool transpose_a,
                         const orr_quantized_value *b, bool transpose_b, orr_value *ret,
                         orr_error *err)
{
    const orr_op_args args = {
        .transpose_a = transpose_a, .transpose_b = transpose_b, .size = g->args->size};
    const orr_value in[4] = {a->value, b->value, a->scale, b->scale};
    return orr_gradient_call(g, ORR_OP_MATMUL, &args, in, a->scale == ORR_NONE ? 2 : 4, ret, err);
}

/* y = a b: da = dy b', db = a' dy, each transposed where the operand is. */
static orr_status record_x(orr_gradient *g, const orr_quantized_value *dy, orr_error *err)
{
    const orr_quantized_value w = {g->in[1], g->n_in > 2 ? g->in[3] : ORR_NONE};
    const bool ta = g->args->transpose_a, tb = g->args->transpose_b;
    return ta ? record(g, &w, tb, dy, true, &g->ret_in[0], err)
              : record(g, dy, false, &w, !tb, &g->ret_in[0], err);
}

static orr_status flattened(orr_gradient *g, orr_quantized_value *operand, orr_error *err)
{
    const orr_type *type = orr_gradient_type(g, operand->value);
    const uint32_t last = type->rank - 1u;
    const int64_t dims[2] = {orr_type_span(type, 0, last), type->dim[last]};
    const orr_type flat = orr_type_of((orr_dtype)type->dtype, 2, dims);
    return orr_gradient_view(g, operand->value, &flat, &operand->value, err);
}

static orr_status record_w(orr_gradient *g, orr_quantized_value dy, orr_error *err)
{
    orr_quantized_value x = {g->in[0], g->n_in > 2 ? g->in[2] : ORR_NONE};
    const bool ta = g->args->transpose_a, tb = g->args->transpose_b;
    /* One w for all leading dims: its gradient is summed over them within one product. */
    if (orr_gradient_type(g, g->in[1])->rank == 2) {
        ORR_TRY(flattened(g, &x, err));
        ORR_TRY(flattened(g, &dy, err));
    }
    return tb ? record(g, &dy, true, &x, ta, &g->ret_in[1], err)
              : record(g, &x, !ta, &dy, false, &g->ret_in[1], err);
}

static orr_status matmul_gradient(orr_gradient *g, orr_error *err)
{
    orr_quantized_value dy;
    if (!g->wanted[0] && !g->wanted[1])
        return ORR_OK;
    ORR_TRY(orr_quantized_gradient(g, 2, &dy, err));
    if (g->wanted[0])
        ORR_TRY(record_x(g, &dy, err));
    return g->wanted[1] ? record_w(g, dy, err) : ORR_OK;
}

const orr_op_row orr_row_MATMUL = {
    ORR_ROW(MATMUL, "matmul", MATMUL),
    .min_in = 2,
    .max_in = 4,
    .n_out = 1,
    .takes = "x (..., M, K), w ([...,] K, N) [, scale_x, scale_w]",
    .gives = "y (..., M, N)",
    .pytorch = ORR_NAMES("aten::mm", "aten::bmm", "aten::matmul", "aten::linear", "aten::addmm",
                         "aten::baddbmm", "aten::_scaled_mm", "MmBackward0", "BmmBackward0",
                         "AddmmBackward0"),
    .chakra = "COMP_NODE",
    .shape = matmul_shape,
    .work = matmul_work,
    .gradient = matmul_gradient,
};
