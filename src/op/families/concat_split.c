/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* CONCAT, SPLIT and SLICE: see the head of layout.c. */

static orr_status concat_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const int32_t along = sig->args->dim;
    ORR_TRY(orr_op_check_dim(sig, along, err));
    orr_type y = sig->in[0];
    for (uint32_t k = 1; k < sig->n_in; k++) {
        const orr_type *x = &sig->in[k];
        bool fits = x->rank == y.rank && x->dtype == y.dtype;
        for (int32_t d = 0; fits && d < y.rank; d++)
            fits = d == along || x->dim[d] == y.dim[d];
        if (!fits || __builtin_add_overflow(y.dim[along], x->dim[along], &y.dim[along]))
            return orr_op_shape_error(sig, err, "dtypes and all dims but dim %d are to be alike",
                                      along);
    }
    ret_out[0] = y;
    return ORR_OK;
}

static void concat_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 0, ret);
}

static orr_status concat_gradient(orr_gradient *g, orr_error *err)
{
    orr_op_args args = {.dim = g->args->dim};
    for (uint32_t k = 0; k < g->n_in; k++) {
        args.count = orr_gradient_type(g, g->in[k])->dim[args.dim];
        if (g->wanted[k])
            ORR_TRY(
                orr_gradient_call(g, ORR_OP_SLICE, &args, &g->grad_out[0], 1, &g->ret_in[k], err));
        args.begin += args.count;
    }
    return ORR_OK;
}

const orr_op_row orr_row_CONCAT = {
    ORR_ROW(CONCAT, "concat", LAYOUT),
    .min_in = 1,
    .max_in = ORR_CALL_IN,
    .n_out = 1,
    .takes = "a (..., N, ...) [, b (..., N, ...), ...]",
    .gives = "y (..., N, ...)",
    .pytorch = ORR_NAMES("aten::cat", "aten::concat", "aten::stack", "CatBackward0"),
    .chakra = "COMP_NODE",
    .shape = concat_shape,
    .work = concat_work,
    .gradient = concat_gradient,
};

static orr_status split_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *parts = sig->args->shape;
    ORR_TRY(orr_op_check_dim(sig, sig->args->dim, err));
    if (parts == NULL || parts->rank < 2 || parts->rank > ORR_CALL_OUT)
        return orr_op_shape_error(sig, err, "`shape` says the sizes of two to four parts");
    const int64_t whole = sig->in[0].dim[sig->args->dim];
    int64_t left = whole;
    for (uint32_t k = 0; k < ORR_CALL_OUT; k++) {
        ret_out[k] = k < parts->rank ? sig->in[0] : orr_type_absent();
        if (k >= parts->rank)
            continue;
        ret_out[k].dim[sig->args->dim] = parts->dim[k];
        left = parts->dim[k] >= 0 && parts->dim[k] <= left ? left - parts->dim[k] : -1;
    }
    char text[ORR_TYPE_TEXT];
    if (left != 0)
        return orr_op_shape_error(sig, err, "parts %s do not make up %lld",
                                  orr_type_text(parts, text), (long long)whole);
    return ORR_OK;
}

/* The gradient of a part; zeros where none flows. */
static orr_status part_gradient(orr_gradient *g, uint32_t k, orr_value *ret, orr_error *err)
{
    *ret = g->grad_out[k];
    if (*ret != ORR_NONE)
        return ORR_OK;
    const orr_op_args zeros = {.shape = orr_gradient_type(g, g->out[k])};
    return orr_gradient_call(g, ORR_OP_FILL, &zeros, NULL, 0, ret, err);
}

static orr_status split_gradient(orr_gradient *g, orr_error *err)
{
    orr_value parts[ORR_CALL_OUT];
    for (uint32_t k = 0; k < g->n_out; k++)
        ORR_TRY(part_gradient(g, k, &parts[k], err));
    const orr_op_args args = {.dim = g->args->dim};
    return orr_gradient_call(g, ORR_OP_CONCAT, &args, parts, g->n_out, &g->ret_in[0], err);
}

const orr_op_row orr_row_SPLIT = {
    ORR_ROW(SPLIT, "split", LAYOUT),
    .min_in = 1,
    .max_in = 1,
    .n_out = ORR_CALL_OUT,
    .shares = true,
    .takes = "x (..., N, ...)",
    .gives = "a (..., N, ...), b (..., N, ...) [, c (..., N, ...)] [, d (..., N, ...)]",
    .pytorch = ORR_NAMES("aten::split", "aten::chunk", "aten::split_with_sizes", "aten::unbind",
                         "SplitBackward0", "SplitWithSizesBackward0"),
    .chakra = "COMP_NODE",
    .shape = split_shape,
    .gradient = split_gradient,
};

static orr_status slice_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_op_args *args = sig->args;
    ORR_TRY(orr_op_check_dim(sig, args->dim, err));
    const int64_t whole = sig->in[0].dim[args->dim];
    if (args->begin < 0 || args->count < 0 || args->begin > whole ||
        args->count > whole - args->begin)
        return orr_op_shape_error(sig, err, "%lld from %lld on are not among %lld",
                                  (long long)args->count, (long long)args->begin, (long long)whole);
    ret_out[0] = sig->in[0];
    ret_out[0].dim[args->dim] = args->count;
    return ORR_OK;
}

static orr_status slice_gradient(orr_gradient *g, orr_error *err)
{
    const orr_op_args *args = g->args;
    const int64_t whole = orr_gradient_type(g, g->in[0])->dim[args->dim];
    const orr_op_args pad = {
        .dim = args->dim, .begin = args->begin, .count = whole - args->begin - args->count};
    return orr_gradient_call(g, ORR_OP_PAD, &pad, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_SLICE = {
    ORR_ROW(SLICE, "slice", LAYOUT),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .shares = true,
    .takes = "x (..., N, ...)",
    .gives = "y (..., N, ...)",
    .pytorch = ORR_NAMES("aten::slice", "aten::narrow", "aten::select"),
    .chakra = "COMP_NODE",
    .shape = slice_shape,
    .gradient = slice_gradient,
};
