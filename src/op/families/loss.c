/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

#include "op/families/tensor_rows.h"

/* Cross entropy of logits (..., V) with targets, without averaging: loss = lse - logit of the
 * target, where lse = log(sum(exp(logits))) is saved for the gradient. count > 0: only the first
 * `count` columns are words; the others are padding, are in no sum, and have gradient 0. count < 0:
 * none are, and lse is minus infinity.
 *
 * For a sliced vocabulary (args.members slices, this one starting at column args.begin): two calls
 * and two collectives over T numbers (after Shoeybi et al., arXiv 1909.08053, section 3):
 *
 *   part, lse = cross_entropy(logits, targets)        part: minus the target's logit if it is in
 *                                                     this slice, else 0; lse: of the slice
 *   lses      = all_gather(lse)                       (slices, ...)
 *   loss, lse = cross_entropy(logits, targets, lses)  loss: this slice's share; lse: of the whole
 *   loss      = all_reduce(loss)
 *
 * The second call reads only the targets' logits. Its gradient is that of the loss by this slice's
 * logits; none flows through lses.
 *
 * FLOPs: each exponential and logarithm counts as one. */

static orr_status check_targets(const orr_op_signature *sig, orr_error *err)
{
    ORR_TRY(orr_op_check_rank(sig, 0, 1, err));
    if (!orr_type_is_index(&sig->in[1]))
        return orr_op_shape_error(sig, err, "targets are int32 or int64");
    if (!orr_type_has_leading_dims(&sig->in[1], &sig->in[0], 1))
        return orr_op_shape_error(sig, err, "there is a target for each row of logits");
    return ORR_OK;
}

static orr_status cross_entropy_shape(const orr_op_signature *sig, orr_type *ret_out,
                                      orr_error *err)
{
    ORR_TRY(check_targets(sig, err));
    if (sig->n_in > 2) {
        orr_type expected = sig->in[1];
        for (uint32_t d = expected.rank++; d > 0; d--)
            expected.dim[d] = expected.dim[d - 1];
        expected.dim[0] = sig->args->members;
        if (!orr_type_same_dims(&expected, &sig->in[2]))
            return orr_op_shape_error(sig, err, "lses are one for each of %u slices and target",
                                      sig->args->members);
    }
    ret_out[0] = ret_out[1] = orr_type_with(&sig->in[1], ORR_DTYPE_FP32);
    return ORR_OK;
}

static void cross_entropy_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const orr_type *logits = &sig->in[0];
    const double rows = orr_elements(&sig->in[1]);
    *ret = (orr_op_work){
        .read_bytes = orr_bytes(&sig->in[1]),
        .write_bytes = orr_bytes(&sig->out[0]) + orr_bytes(&sig->out[1]),
        .dtype = ORR_DTYPE_FP32,
    };
    if (sig->n_in > 2) { /* maximum, difference, exponential and sum over the gathered numbers */
        ret->flops = 4 * orr_elements(&sig->in[2]) + 3 * rows;
        ret->read_bytes += orr_bytes(&sig->in[2]) + rows * orr_row_bytes(logits, 1);
    } else {
        ret->flops = 4 * orr_elements(logits) + 3 * rows;
        ret->read_bytes += orr_bytes(logits);
    }
}

/* `value`, or zeros with its dims made from `otherwise`. */
static orr_status or_zeros(orr_gradient *g, orr_value value, orr_value otherwise, orr_value *ret,
                           orr_error *err)
{
    *ret = value;
    if (value != ORR_NONE)
        return ORR_OK;
    const orr_op_args none = {.value = 0};
    return orr_gradient_call(g, ORR_OP_SCALE, &none, &otherwise, 1, ret, err);
}

/* dlogits = dsum * softmax - dpick at the target. The loss contributes to both, unless it is the
 * first call of a sliced vocabulary; lse contributes to dsum. */
static orr_status cross_entropy_gradient(orr_gradient *g, orr_error *err)
{
    const orr_value loss = g->grad_out[0], lse = g->grad_out[1];
    const bool part = g->args->members > 1 && g->n_in == 2;
    if (!g->wanted[0] || (loss == ORR_NONE && lse == ORR_NONE))
        return ORR_OK;
    orr_value in[5] = {g->in[0], g->in[1], g->out[1]}, sum = lse;
    ORR_TRY(or_zeros(g, loss, lse, &in[3], err));
    if (part)
        ORR_TRY(or_zeros(g, lse, loss, &sum, err));
    else if (loss != ORR_NONE && lse != ORR_NONE)
        ORR_TRY(
            orr_gradient_call(g, ORR_OP_ADD, NULL, (const orr_value[]){loss, lse}, 2, &sum, err));
    in[4] = sum;
    const orr_op_args args = {.begin = g->args->begin,
                              .count = g->args->count,
                              .slices = g->args->slices,
                              .members = g->args->members};
    return orr_gradient_call(g, ORR_OP_CROSS_ENTROPY_BACKWARD, &args, in, sum != ORR_NONE ? 5 : 4,
                             &g->ret_in[0], err);
}

const orr_op_row orr_row_CROSS_ENTROPY = {
    ORR_ROW(CROSS_ENTROPY, "cross_entropy", LOSS),
    .min_in = 2,
    .max_in = 3,
    .n_out = 2,
    .takes = "logits (..., V), targets (...) [, lses (slices, ...)]",
    .gives = "loss (...), lse (...)",
    .pytorch = ORR_NAMES("aten::cross_entropy_loss", "aten::nll_loss_forward", "aten::nll_loss_nd"),
    .chakra = "COMP_NODE",
    .shape = cross_entropy_shape,
    .work = cross_entropy_work,
    .gradient = cross_entropy_gradient,
};

static orr_status cross_entropy_backward_shape(const orr_op_signature *sig, orr_type *ret_out,
                                               orr_error *err)
{
    ORR_TRY(check_targets(sig, err));
    for (uint32_t k = 2; k < sig->n_in; k++)
        if (!orr_type_same_dims(&sig->in[1], &sig->in[k]))
            return orr_op_shape_error(sig, err, "lse and gradients are one for each target");
    ret_out[0] = sig->in[0];
    return ORR_OK;
}

static void cross_entropy_backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const double flops = 3 * orr_elements(&sig->in[0]) + orr_elements(&sig->in[1]);
    orr_op_work_stream(sig, flops, ret);
    ret->dtype = ORR_DTYPE_FP32;
}

const orr_op_row orr_row_CROSS_ENTROPY_BACKWARD = {
    ORR_ROW(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", LOSS),
    .min_in = 4,
    .max_in = 5,
    .n_out = 1,
    .takes = "logits (..., V), targets (...), lse (...), dpick (...) [, dsum (...)]",
    .gives = "dlogits (..., V)",
    .pytorch = ORR_NAMES("aten::nll_loss_backward", "NllLossBackward0", "LogSoftmaxBackward0"),
    .chakra = "COMP_NODE",
    .shape = cross_entropy_backward_shape,
    .work = cross_entropy_backward_work,
};

/* Binary cross entropy with logits, without averaging: max(x, 0) - x y + log(1 + exp(-|x|)), 7
 * FLOPs; backward (sigmoid(x) - y) grad, 5. */
static orr_status bce_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(orr_op_check_same(sig, 1, err));
    ret_out[0] = orr_type_with(&sig->in[0], ORR_DTYPE_FP32);
    return ORR_OK;
}

static void bce_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 7 * orr_elements(&sig->in[0]), ret);
}

static orr_status bce_gradient(orr_gradient *g, orr_error *err)
{
    if (!g->wanted[0] || g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    return orr_gradient_call(g, ORR_OP_BCE_LOSS_BACKWARD, NULL,
                             (const orr_value[]){g->in[0], g->in[1], g->grad_out[0]}, 3,
                             &g->ret_in[0], err);
}

const orr_op_row orr_row_BCE_LOSS = {
    ORR_ROW(BCE_LOSS, "bce_loss", LOSS),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "logits (...), targets (...)",
    .gives = "loss (...)",
    .pytorch = ORR_NAMES("aten::binary_cross_entropy_with_logits", "aten::binary_cross_entropy"),
    .chakra = "COMP_NODE",
    .shape = bce_shape,
    .work = bce_work,
    .gradient = bce_gradient,
};

static orr_status bce_backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(orr_op_check_same(sig, 1, err));
    ret_out[0] = sig->in[0];
    return ORR_OK;
}

static void bce_backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 5 * orr_elements(&sig->in[0]), ret);
}

const orr_op_row orr_row_BCE_LOSS_BACKWARD = {
    ORR_ROW(BCE_LOSS_BACKWARD, "bce_loss_backward", LOSS),
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .takes = "logits (...), targets (...), dy (...)",
    .gives = "dlogits (...)",
    .pytorch =
        ORR_NAMES("aten::binary_cross_entropy_backward", "BinaryCrossEntropyWithLogitsBackward0"),
    .chakra = "COMP_NODE",
    .shape = bce_backward_shape,
    .work = bce_backward_work,
};
