/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Dropout: y = x mask / (1 - value), `value` the probability that an element is dropped; x (...)
 * gives y (...) and the mask (...) of a byte an element. With a mask given it is applied, and none
 * is made: that is the backward pass, and its own gradient.
 *
 * FLOPs: two products an element; those of drawing numbers are not counted. */

static orr_status dropout_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    if (!(sig->args->value >= 0 && sig->args->value < 1))
        return orr_op_shape_error(sig, err, "%g is no probability of dropping", sig->args->value);
    ORR_TRY(orr_op_check_same(sig, 1, err));
    ret_out[0] = sig->in[0];
    ret_out[1] = sig->n_in == 2 ? orr_type_absent() : orr_type_with(&sig->in[0], ORR_DTYPE_INT8);
    return ORR_OK;
}

static void dropout_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 2 * (double)orr_type_elements(&sig->in[0]), ret);
    ret->dtype = sig->in[0].dtype;
}

static orr_status dropout_gradient(orr_gradient *g, orr_error *err)
{
    if (g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    const orr_value in[2] = {g->grad_out[0], g->n_in == 2 ? g->in[1] : g->out[1]};
    orr_value made[2];
    ORR_TRY(orr_gradient_call(g, ORR_OP_DROPOUT, g->args, in, 2, made, err));
    g->ret_in[0] = made[0];
    return ORR_OK;
}

const orr_op_row orr_row_DROPOUT = {
    ORR_ROW(DROPOUT, "dropout", ELEMENTWISE),
    .min_in = 1,
    .max_in = 2,
    .n_out = 2,
    .takes = "x (...) [, mask (...)]",
    .gives = "y (...) [, mask (...)]",
    .pytorch = ORR_NAMES("aten::dropout", "aten::native_dropout", "aten::native_dropout_backward",
                         "aten::_masked_scale", "NativeDropoutBackward0"),
    .chakra = "COMP_NODE",
    .shape = dropout_shape,
    .work = dropout_work,
    .gradient = dropout_gradient,
};
