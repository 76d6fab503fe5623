/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Arithmetic on elements, in the wider dtype of the inputs.
 *
 * - ADD: a (...), b (...).
 * - MUL: a (...), b of as many dims, each as in a or 1.
 * - SCALE: x (...) times `value`.
 * - BIAS: x (..., D) plus bias, whose dims are the last ones of x.
 * - SUM: x over `count` dims (0: one) from `dim` on, which are gone in y.
 * - FILL: `value` everywhere in a tensor of `shape`.
 *
 * FLOPs: one an element of what is computed on. */

static orr_status add_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(orr_op_check_same(sig, 1, err));
    ret_out[0] = orr_type_with(
        &sig->in[0], orr_dtype_wider((orr_dtype)sig->in[0].dtype, (orr_dtype)sig->in[1].dtype));
    return ORR_OK;
}

static void each_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, (double)orr_type_elements(&sig->in[0]), ret);
}

static orr_status add_gradient(orr_gradient *g, orr_error *err)
{
    (void)err;
    g->ret_in[0] = g->ret_in[1] = g->grad_out[0];
    return ORR_OK;
}

const orr_op_row orr_row_ADD = {
    ORR_ROW(ADD, "add", ELEMENTWISE),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "a (...), b (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::add", "aten::add_"),
    .chakra = "COMP_NODE",
    .shape = add_shape,
    .work = each_work,
    .gradient = add_gradient,
};

static orr_status mul_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *a = &sig->in[0], *b = &sig->in[1];
    bool fits = a->rank == b->rank;
    for (uint32_t d = 0; fits && d < a->rank; d++)
        fits = b->dim[d] == a->dim[d] || b->dim[d] == 1;
    if (!fits)
        return orr_op_shape_error(sig, err, "each dim of b is that of a, or 1");
    ret_out[0] = orr_type_with(a, orr_dtype_wider((orr_dtype)a->dtype, (orr_dtype)b->dtype));
    return ORR_OK;
}

/* The gradient of a broadcast operand is summed over the dims along which it was repeated. */
static orr_status sum_repeated(orr_gradient *g, orr_value *grad, orr_error *err)
{
    const orr_type a = *orr_gradient_type(g, g->in[0]), b = *orr_gradient_type(g, g->in[1]);
    for (uint32_t d = a.rank; d-- > 0;) {
        if (a.dim[d] == b.dim[d])
            continue;
        const orr_op_args args = {.dim = (int32_t)d};
        ORR_TRY(orr_gradient_call(g, ORR_OP_SUM, &args, grad, 1, grad, err));
    }
    return orr_gradient_view(g, *grad, &b, grad, err);
}

static orr_status mul_gradient(orr_gradient *g, orr_error *err)
{
    for (uint32_t k = 0; k < 2; k++) {
        const orr_value in[2] = {g->grad_out[0], g->in[1 - k]};
        if (g->wanted[k])
            ORR_TRY(orr_gradient_call(g, ORR_OP_MUL, NULL, in, 2, &g->ret_in[k], err));
    }
    return g->wanted[1] ? sum_repeated(g, &g->ret_in[1], err) : ORR_OK;
}

const orr_op_row orr_row_MUL = {
    ORR_ROW(MUL, "mul", ELEMENTWISE),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "a (...), b (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::mul", "aten::mul_", "MulBackward0"),
    .chakra = "COMP_NODE",
    .shape = mul_shape,
    .work = each_work,
    .gradient = mul_gradient,
};

static orr_status scale_gradient(orr_gradient *g, orr_error *err)
{
    return orr_gradient_call(g, ORR_OP_SCALE, g->args, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_SCALE = {
    ORR_ROW(SCALE, "scale", ELEMENTWISE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::div", "aten::div_", "DivBackward0"),
    .chakra = "COMP_NODE",
    .shape = orr_op_shape_same,
    .work = each_work,
    .gradient = scale_gradient,
};

static orr_status bias_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0], *bias = &sig->in[1];
    bool fits = bias->rank <= x->rank;
    for (uint32_t d = 0; fits && d < bias->rank; d++)
        fits = bias->dim[d] == x->dim[x->rank - bias->rank + d];
    if (!fits)
        return orr_op_shape_error(sig, err, "the dims of the bias are not the last ones of x");
    return orr_op_shape_same(sig, ret_out, err);
}

static orr_status bias_gradient(orr_gradient *g, orr_error *err)
{
    g->ret_in[0] = g->grad_out[0];
    const uint32_t rank = orr_gradient_type(g, g->in[1])->rank;
    return g->wanted[1] ? orr_gradient_sum(g, g->grad_out[0], rank, &g->ret_in[1], err) : ORR_OK;
}

const orr_op_row orr_row_BIAS = {
    ORR_ROW(BIAS, "bias", ELEMENTWISE),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "x (..., D), bias (D)",
    .gives = "y (..., D)",
    .pytorch = NULL,
    .chakra = "COMP_NODE",
    .shape = bias_shape,
    .work = each_work,
    .gradient = bias_gradient,
};

static uint32_t summed_dims(const orr_op_args *args)
{
    return args->count > 0 ? (uint32_t)args->count : 1;
}

static orr_status sum_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0];
    ORR_TRY(orr_op_check_dim(sig, sig->args->dim, err));
    const uint32_t first = (uint32_t)sig->args->dim;
    if (sig->args->count < 0 || sig->args->count > x->rank - (int64_t)first)
        return orr_op_shape_error(sig, err, "there are no %lld dims from dim %u on",
                                  (long long)sig->args->count, first);
    const uint32_t end = first + summed_dims(sig->args);
    orr_type y = {.dtype = x->dtype, .rank = (uint8_t)(x->rank - (end - first))};
    for (uint32_t d = 0; d < y.rank; d++)
        y.dim[d] = x->dim[d < first ? d : d + (end - first)];
    ret_out[0] = y;
    return ORR_OK;
}

/* All elements along the summed dims get the same gradient: a new dim by EXPAND, then a view. */
static orr_status sum_gradient(orr_gradient *g, orr_error *err)
{
    const orr_type x = *orr_gradient_type(g, g->in[0]);
    const uint32_t first = (uint32_t)g->args->dim, end = first + summed_dims(g->args);
    const orr_op_args args = {.dim = g->args->dim, .count = orr_type_span(&x, first, end)};
    orr_value grad;
    ORR_TRY(orr_gradient_call(g, ORR_OP_EXPAND, &args, &g->grad_out[0], 1, &grad, err));
    return orr_gradient_view(g, grad, &x, &g->ret_in[0], err);
}

const orr_op_row orr_row_SUM = {
    ORR_ROW(SUM, "sum", ELEMENTWISE),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::sum", "SumBackward0", "SumBackward1"),
    .chakra = "COMP_NODE",
    .shape = sum_shape,
    .work = each_work,
    .gradient = sum_gradient,
};

static orr_status fill_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    if (sig->args->shape == NULL)
        return orr_op_shape_error(sig, err, "`shape` is not said");
    ret_out[0] = *sig->args->shape;
    return ORR_OK;
}

static void fill_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 0, ret);
}

const orr_op_row orr_row_FILL = {
    ORR_ROW(FILL, "fill", ELEMENTWISE),
    .min_in = 0,
    .max_in = 0,
    .n_out = 1,
    .takes = "",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::fill_", "aten::zero_", "aten::zeros", "aten::ones",
                         "aten::zeros_like", "aten::ones_like", "aten::full"),
    .chakra = "COMP_NODE",
    .shape = fill_shape,
    .work = fill_work,
};
