/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Norms over the last dim; value: epsilon.
 *
 * - RMS_NORM: y = x r w, r = 1 / sqrt(mean x^2 + epsilon). x (..., D), weight (D) or none; y, and
 *   r (...) in fp32 for the backward pass.
 * - LAYER_NORM: y = (x - m) r w + b, r = 1 / sqrt(mean (x - m)^2 + epsilon). x (..., D), weight (D)
 *   and bias (D), or only weight, or none; y, m (...), r (...).
 * - Backward: dx, and the gradient of the weight unless there is none or it is `frozen`; that of a
 *   bias is the sum of dy.
 *
 * FLOPs an element, counted from these formulas: RMS forward 4, backward 8; layer forward 7,
 * backward 11. */

static orr_status check_weights(const orr_op_signature *sig, uint32_t first, const orr_type *x,
                                orr_error *err)
{
    if (x->rank < 1)
        return orr_op_shape_error(sig, err, "there is no dim to take the mean of");
    for (uint32_t k = first; k < sig->n_in; k++)
        if (sig->in[k].rank != 1 || sig->in[k].dim[0] != x->dim[x->rank - 1])
            return orr_op_shape_error(sig, err, "weights are one for each of %lld columns",
                                      (long long)x->dim[x->rank - 1]);
    return ORR_OK;
}

/* One number for each row of x. */
static orr_type row_statistic(const orr_type *x)
{
    orr_type made = orr_type_with(x, ORR_DTYPE_FP32);
    made.rank--;
    made.dim[made.rank] = 0;
    return made;
}

static orr_status norm_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(check_weights(sig, 1, &sig->in[0], err));
    ret_out[0] = sig->in[0];
    ret_out[1] = row_statistic(&sig->in[0]);
    if (sig->op == ORR_OP_LAYER_NORM)
        ret_out[2] = ret_out[1];
    return ORR_OK;
}

static void norm_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const double flops = sig->op == ORR_OP_RMS_NORM ? 4 : 7;
    orr_op_work_stream(sig, flops * (double)orr_type_elements(&sig->in[0]), ret);
    ret->dtype = sig->in[0].dtype;
}

static orr_status norm_gradient(orr_gradient *g, orr_error *err)
{
    if (g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    const bool layer = g->op == ORR_OP_LAYER_NORM, weighed = g->n_in > 1;
    orr_value in[5] = {g->grad_out[0], g->in[0], g->out[1]}, made[2] = {ORR_NONE, ORR_NONE};
    uint32_t n = 3;
    if (layer)
        in[n++] = g->out[2];
    if (weighed)
        in[n++] = g->in[1];
    const orr_op_args args = {.value = g->args->value, .frozen = !weighed || !g->wanted[1]};
    if (g->wanted[0] || !args.frozen)
        ORR_TRY(orr_gradient_call(g, layer ? ORR_OP_LAYER_NORM_BACKWARD : ORR_OP_RMS_NORM_BACKWARD,
                                  &args, in, n, made, err));
    g->ret_in[0] = made[0];
    if (weighed)
        g->ret_in[1] = made[1];
    return g->n_in > 2 && g->wanted[2] ? orr_gradient_sum(g, g->grad_out[0], 1, &g->ret_in[2], err)
                                       : ORR_OK;
}

const orr_op_row orr_row_RMS_NORM = {
    ORR_ROW(RMS_NORM, "rms_norm", NORM),
    .min_in = 1,
    .max_in = 2,
    .n_out = 2,
    .takes = "x (..., D) [, weight (D)]",
    .gives = "y (..., D), r (...)",
    .pytorch = ORR_NAMES("aten::rms_norm", "aten::_fused_rms_norm"),
    .chakra = "COMP_NODE",
    .shape = norm_shape,
    .work = norm_work,
    .gradient = norm_gradient,
};

const orr_op_row orr_row_LAYER_NORM = {
    ORR_ROW(LAYER_NORM, "layer_norm", NORM),
    .min_in = 1,
    .max_in = 3,
    .n_out = 3,
    .takes = "x (..., D) [, weight (D)] [, bias (D)]",
    .gives = "y (..., D), m (...), r (...)",
    .pytorch = ORR_NAMES("aten::layer_norm", "aten::native_layer_norm"),
    .chakra = "COMP_NODE",
    .shape = norm_shape,
    .work = norm_work,
    .gradient = norm_gradient,
};

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const uint32_t statistics = sig->op == ORR_OP_RMS_NORM_BACKWARD ? 1 : 2;
    const orr_type *x = &sig->in[1];
    if (!orr_type_same_dims(&sig->in[0], x))
        return orr_op_shape_error(sig, err, "the dims of dy and x differ");
    const bool weighed = sig->n_in > 2 + statistics;
    if (weighed)
        ORR_TRY(check_weights(sig, 2 + statistics, x, err));
    ret_out[0] = *x;
    ret_out[1] = weighed && !sig->args->frozen ? sig->in[2 + statistics] : orr_type_absent();
    return ORR_OK;
}

static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const double flops = sig->op == ORR_OP_RMS_NORM_BACKWARD ? 8 : 11;
    orr_op_work_stream(sig, flops * (double)orr_type_elements(&sig->in[1]), ret);
    ret->dtype = sig->in[1].dtype;
}

const orr_op_row orr_row_RMS_NORM_BACKWARD = {
    ORR_ROW(RMS_NORM_BACKWARD, "rms_norm_backward", NORM),
    .min_in = 3,
    .max_in = 4,
    .n_out = 2,
    .takes = "dy (..., D), x (..., D), r (...) [, weight (D)]",
    .gives = "dx (..., D) [, dweight (D)]",
    .pytorch = ORR_NAMES("aten::_fused_rms_norm_backward", "FusedRmsNormBackward0"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};

const orr_op_row orr_row_LAYER_NORM_BACKWARD = {
    ORR_ROW(LAYER_NORM_BACKWARD, "layer_norm_backward", NORM),
    .min_in = 4,
    .max_in = 5,
    .n_out = 2,
    .takes = "dy (..., D), x (..., D), m (...), r (...) [, weight (D)]",
    .gives = "dx (..., D) [, dweight (D)]",
    .pytorch = ORR_NAMES("aten::native_layer_norm_backward", "NativeLayerNormBackward0"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
