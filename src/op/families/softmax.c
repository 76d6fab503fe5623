/* SPDX-License-Identifier: Apache-2.0 */
#include "op/families/attention.h"

/* Softmax of the last dim: x (..., N), y (..., N). With a mask, x (..., S, Skv) are scores, of
 * which those hidden as in ATTENTION get the probability 0. The backward pass needs y only.
 *
 * FLOPs an element: forward 5 (largest, difference, exponential, sum, quotient), backward 4 (dx =
 * y (dy - sum y dy)); exponential and quotient counted as one. */

static orr_status softmax_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(orr_op_check_rank(sig, 0, sig->args->mask == ORR_MASK_NONE ? 1 : 2, err));
    if (sig->args->mask == ORR_MASK_CHUNKED && sig->args->window < 1)
        return orr_op_shape_error(sig, err, "chunks of %lld tokens", (long long)sig->args->window);
    return orr_op_shape_same(sig, ret_out, err);
}

static void softmax_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 5 * (double)orr_type_elements(&sig->in[0]), ret);
}

static orr_status softmax_gradient(orr_gradient *g, orr_error *err)
{
    return orr_gradient_call(g, ORR_OP_SOFTMAX_BACKWARD, NULL,
                             (const orr_value[]){g->grad_out[0], g->out[0]}, 2, &g->ret_in[0], err);
}

const orr_op_row orr_row_SOFTMAX = {
    ORR_ROW(SOFTMAX, "softmax", ATTENTION),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (..., N)",
    .gives = "y (..., N)",
    .pytorch = ORR_NAMES("aten::softmax", "aten::_softmax", "aten::_safe_softmax"),
    .chakra = "COMP_NODE",
    .shape = softmax_shape,
    .work = softmax_work,
    .gradient = softmax_gradient,
};

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(orr_op_check_same(sig, 1, err));
    return orr_op_shape_same(sig, ret_out, err);
}

static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 4 * (double)orr_type_elements(&sig->in[0]), ret);
}

const orr_op_row orr_row_SOFTMAX_BACKWARD = {
    ORR_ROW(SOFTMAX_BACKWARD, "softmax_backward", ATTENTION),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "dy (..., N), y (..., N)",
    .gives = "dx (..., N)",
    .pytorch = ORR_NAMES("aten::_softmax_backward_data", "SoftmaxBackward0"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
