/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Layout operators: the same elements, elsewhere. Those that share bytes cost nothing, since
 * kernels read parts of wider rows by their strides.
 *
 * - VIEW: other dims, `shape`, of the same bytes.
 * - SPLIT: 2 to 4 parts along `dim`, whose sizes are the dims of `shape`; shares bytes.
 * - SLICE: `count` along `dim` from `begin` on; shares bytes.
 * - CONCAT: tensors (..., Nk, ...) joined along `dim`: a copy.
 * - TRANSPOSE: `dim` and `to_dim` exchanged: a copy.
 * - PAD: zeros along `dim`, `begin` before and `count` after: a copy.
 * - EXPAND: a new dim `dim` of size `count`, repeated along it: a copy. */

static void move_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 0, ret);
}

static orr_status view_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *shape = sig->args->shape;
    if (shape == NULL)
        return orr_op_shape_error(sig, err, "`shape` is not said");
    const orr_type y = orr_type_with(shape, (orr_dtype)sig->in[0].dtype);
    char text[ORR_TYPE_TEXT];
    if (y.rank > ORR_TYPE_DIMS || orr_type_elements(&y) != orr_type_elements(&sig->in[0]))
        return orr_op_shape_error(sig, err, "%s does not have as many elements",
                                  orr_type_text(&y, text));
    ret_out[0] = y;
    return ORR_OK;
}

static orr_status view_gradient(orr_gradient *g, orr_error *err)
{
    return orr_gradient_view(g, g->grad_out[0], orr_gradient_type(g, g->in[0]), &g->ret_in[0], err);
}

const orr_op_row orr_row_VIEW = {
    ORR_ROW(VIEW, "view", LAYOUT),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .shares = true,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::view", "aten::reshape", "aten::_unsafe_view", "aten::flatten",
                         "aten::unflatten", "aten::squeeze", "aten::unsqueeze", "ViewBackward0",
                         "ReshapeAliasBackward0", "UnsafeViewBackward0"),
    .chakra = "COMP_NODE",
    .shape = view_shape,
    .gradient = view_gradient,
};

static orr_status transpose_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const int32_t a = sig->args->dim, b = sig->args->to_dim;
    ORR_TRY(orr_op_check_dim(sig, a, err));
    ORR_TRY(orr_op_check_dim(sig, b, err));
    ret_out[0] = sig->in[0];
    ret_out[0].dim[a] = sig->in[0].dim[b];
    ret_out[0].dim[b] = sig->in[0].dim[a];
    return ORR_OK;
}

static orr_status transpose_gradient(orr_gradient *g, orr_error *err)
{
    return orr_gradient_call(g, ORR_OP_TRANSPOSE, g->args, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_TRANSPOSE = {
    ORR_ROW(TRANSPOSE, "transpose", LAYOUT),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::transpose", "aten::t", "aten::permute", "aten::contiguous",
                         "TransposeBackward0", "TBackward0", "PermuteBackward0"),
    .chakra = "COMP_NODE",
    .shape = transpose_shape,
    .work = move_work,
    .gradient = transpose_gradient,
};

static orr_status pad_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_op_args *args = sig->args;
    ORR_TRY(orr_op_check_dim(sig, args->dim, err));
    if (args->begin < 0 || args->count < 0)
        return orr_op_shape_error(sig, err, "fewer than no zeros are asked for");
    ret_out[0] = sig->in[0];
    int64_t *dim = &ret_out[0].dim[args->dim];
    if (__builtin_add_overflow(*dim, args->begin, dim) ||
        __builtin_add_overflow(*dim, args->count, dim))
        return orr_op_shape_error(sig, err, "the padded dim does not fit 63 bits");
    return ORR_OK;
}

static orr_status pad_gradient(orr_gradient *g, orr_error *err)
{
    const orr_op_args args = {.dim = g->args->dim,
                              .begin = g->args->begin,
                              .count = orr_gradient_type(g, g->in[0])->dim[g->args->dim]};
    return orr_gradient_call(g, ORR_OP_SLICE, &args, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_PAD = {
    ORR_ROW(PAD, "pad", LAYOUT),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::pad", "aten::constant_pad_nd", "aten::slice_backward",
                         "ConstantPadNdBackward0", "SliceBackward0"),
    .chakra = "COMP_NODE",
    .shape = pad_shape,
    .work = move_work,
    .gradient = pad_gradient,
};

static orr_status expand_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0];
    const int32_t at = sig->args->dim;
    if (at < 0 || at > x->rank || x->rank >= ORR_TYPE_DIMS || sig->args->count < 0)
        return orr_op_shape_error(sig, err, "no dim %d of %lld can be put in", at,
                                  (long long)sig->args->count);
    orr_type y = {.dtype = x->dtype, .rank = (uint8_t)(x->rank + 1)};
    for (int32_t d = 0; d < y.rank; d++)
        y.dim[d] = d == at ? sig->args->count : x->dim[d < at ? d : d - 1];
    ret_out[0] = y;
    return ORR_OK;
}

static orr_status expand_gradient(orr_gradient *g, orr_error *err)
{
    const orr_op_args args = {.dim = g->args->dim, .count = 1};
    return orr_gradient_call(g, ORR_OP_SUM, &args, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_EXPAND = {
    ORR_ROW(EXPAND, "expand", LAYOUT),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch =
        ORR_NAMES("aten::expand", "aten::repeat", "aten::repeat_interleave", "ExpandBackward0"),
    .chakra = "COMP_NODE",
    .shape = expand_shape,
    .work = move_work,
    .gradient = expand_gradient,
};
