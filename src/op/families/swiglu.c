/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Gated unit (Shazeer, arXiv 2002.05202): y = silu(gate) up, y (..., F).
 *
 * - gate (..., F) and up (..., F), or one tensor (..., 2 F) that holds gate, then up, in each row.
 * - Backward: dy and what the forward pass took give the gradients of that.
 *
 * FLOPs an element of y: 6 forward, 11 backward, each operation of the formulas counted as one. */

static orr_status swiglu_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(orr_op_check_rank(sig, 0, 1, err));
    ORR_TRY(orr_op_check_same(sig, 1, err));
    const uint32_t last = sig->in[0].rank - 1u;
    ret_out[0] = sig->in[0];
    if (sig->n_in == 2)
        return ORR_OK;
    if (ret_out[0].dim[last] % 2 != 0)
        return orr_op_shape_error(sig, err, "%lld columns have no halves",
                                  (long long)ret_out[0].dim[last]);
    ret_out[0].dim[last] /= 2;
    return ORR_OK;
}

static void swiglu_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 6 * (double)orr_type_elements(&sig->out[0]), ret);
}

static orr_status swiglu_gradient(orr_gradient *g, orr_error *err)
{
    orr_value in[3] = {g->grad_out[0], g->in[0]}, made[2];
    if (g->n_in == 2)
        in[2] = g->in[1];
    ORR_TRY(orr_gradient_call(g, ORR_OP_SWIGLU_BACKWARD, NULL, in, 1 + g->n_in, made, err));
    for (uint32_t k = 0; k < g->n_in; k++)
        g->ret_in[k] = made[k];
    return ORR_OK;
}

const orr_op_row orr_row_SWIGLU = {
    ORR_ROW(SWIGLU, "swiglu", ACTIVATION),
    .min_in = 1,
    .max_in = 2,
    .n_out = 1,
    .takes = "gate (..., F | ..., 2 F) [, up (..., F)]",
    .gives = "y (..., F)",
    .pytorch = ORR_NAMES("SwiGLUFunction"),
    .chakra = "COMP_NODE",
    .shape = swiglu_shape,
    .work = swiglu_work,
    .gradient = swiglu_gradient,
};

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_op_signature forward = {
        .op = ORR_OP_SWIGLU, .args = sig->args, .n_in = sig->n_in - 1, .in = sig->in + 1};
    orr_type y;
    ORR_TRY(swiglu_shape(&forward, &y, err));
    if (!orr_type_same_dims(&sig->in[0], &y))
        return orr_op_shape_error(sig, err, "dy does not have the dims of what swiglu gives");
    ret_out[0] = sig->in[1];
    ret_out[1] = sig->n_in == 3 ? sig->in[2] : orr_type_absent();
    return ORR_OK;
}

static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 11 * (double)orr_type_elements(&sig->in[0]), ret);
}

const orr_op_row orr_row_SWIGLU_BACKWARD = {
    ORR_ROW(SWIGLU_BACKWARD, "swiglu_backward", ACTIVATION),
    .min_in = 2,
    .max_in = 3,
    .n_out = 2,
    .takes = "dy (..., F), gate (..., F | ..., 2 F) [, up (..., F)]",
    .gives = "dgate (..., F | ..., 2 F) [, dup (..., F)]",
    .pytorch = ORR_NAMES("SwiGLUFunctionBackward"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
