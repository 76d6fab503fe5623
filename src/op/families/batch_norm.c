/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Norm of each channel over batch and picture: x (N, C, ...), weight (C), bias (C); y = (x - m) r w
 * + b, r = 1 / sqrt(variance + value); y, m (C), r (C) in fp32. Backward: dx, and the gradient of
 * the weight unless it is `frozen`; that of the bias is the sum of dy over all but the channels.
 *
 * FLOPs an element as of layer norm: 7 forward, 11 backward. Both read x twice: once for the
 * statistics. */

static orr_status check_channels(const orr_op_signature *sig, uint32_t first, const orr_type *x,
                                 orr_error *err)
{
    if (x->rank < 2)
        return orr_op_shape_error(sig, err, "x has a batch and channels");
    for (uint32_t k = first; k < sig->n_in; k++)
        if (sig->in[k].rank != 1 || sig->in[k].dim[0] != x->dim[1])
            return orr_op_shape_error(sig, err, "weights are one for each of %lld channels",
                                      (long long)x->dim[1]);
    return ORR_OK;
}

static orr_status norm_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(check_channels(sig, 1, &sig->in[0], err));
    ret_out[0] = sig->in[0];
    ret_out[1] = ret_out[2] = orr_type_with(&sig->in[1], ORR_DTYPE_FP32);
    return ORR_OK;
}

static void norm_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 7 * (double)orr_type_elements(&sig->in[0]), ret);
    ret->read_bytes += (double)orr_type_bytes(&sig->in[0]);
    ret->dtype = sig->in[0].dtype;
}

/* The sum over pictures, then over the batch: (N, C, ...) to (C). */
static orr_status sum_of_channels(orr_gradient *g, orr_value value, orr_value *ret, orr_error *err)
{
    const uint32_t rank = orr_gradient_type(g, value)->rank;
    if (rank > 2) {
        const orr_op_args pictures = {.dim = 2, .count = rank - 2};
        ORR_TRY(orr_gradient_call(g, ORR_OP_SUM, &pictures, &value, 1, &value, err));
    }
    return orr_gradient_sum(g, value, 1, ret, err);
}

static orr_status norm_gradient(orr_gradient *g, orr_error *err)
{
    if (g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    orr_value made[2] = {ORR_NONE, ORR_NONE};
    const orr_value in[5] = {g->grad_out[0], g->in[0], g->out[1], g->out[2], g->in[1]};
    const orr_op_args args = {.value = g->args->value, .frozen = !g->wanted[1]};
    if (g->wanted[0] || g->wanted[1])
        ORR_TRY(orr_gradient_call(g, ORR_OP_BATCH_NORM_BACKWARD, &args, in, 5, made, err));
    g->ret_in[0] = made[0];
    g->ret_in[1] = made[1];
    return g->wanted[2] ? sum_of_channels(g, g->grad_out[0], &g->ret_in[2], err) : ORR_OK;
}

const orr_op_row orr_row_BATCH_NORM = {
    ORR_ROW(BATCH_NORM, "batch_norm", NORM),
    .min_in = 3,
    .max_in = 3,
    .n_out = 3,
    .takes = "x (N, C, ...), weight (C), bias (C)",
    .gives = "y (N, C, ...), m (C), r (C)",
    .pytorch = ORR_NAMES("aten::batch_norm", "aten::native_batch_norm", "aten::cudnn_batch_norm",
                         "aten::_batch_norm_impl_index", "aten::miopen_batch_norm"),
    .chakra = "COMP_NODE",
    .shape = norm_shape,
    .work = norm_work,
    .gradient = norm_gradient,
};

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    if (!orr_type_same_dims(&sig->in[0], &sig->in[1]))
        return orr_op_shape_error(sig, err, "the dims of dy and x differ");
    ORR_TRY(check_channels(sig, 2, &sig->in[1], err));
    ret_out[0] = sig->in[1];
    ret_out[1] = sig->args->frozen ? orr_type_absent() : sig->in[4];
    return ORR_OK;
}

static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 11 * (double)orr_type_elements(&sig->in[1]), ret);
    ret->read_bytes += (double)(orr_type_bytes(&sig->in[0]) + orr_type_bytes(&sig->in[1]));
    ret->dtype = sig->in[1].dtype;
}

const orr_op_row orr_row_BATCH_NORM_BACKWARD = {
    ORR_ROW(BATCH_NORM_BACKWARD, "batch_norm_backward", NORM),
    .min_in = 5,
    .max_in = 5,
    .n_out = 2,
    .takes = "dy (N, C, ...), x (N, C, ...), m (C), r (C), weight (C)",
    .gives = "dx (N, C, ...) [, dweight (C)]",
    .pytorch = ORR_NAMES("aten::native_batch_norm_backward", "aten::cudnn_batch_norm_backward",
                         "CudnnBatchNormBackward0", "NativeBatchNormBackward0"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
