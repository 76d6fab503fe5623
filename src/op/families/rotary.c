/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Rotary positions (Su et al., arXiv 2104.09864): x (..., S, H, D), D even. Pairs of columns d <
 * D / 2 of a token at position p are turned by the angle p f(d), f(d) = value^(-2 d / D). p =
 * offset + index in S, or first[b] + index in S where a run says where each sample stands. value:
 * the base; negative: turned back by the same angle, which is the gradient. The angles are made
 * from positions, not read.
 *
 * - interleaved: a pair is columns 2 d and 2 d + 1 (Llama's own checkpoints, GGUF); else d and
 *   d + D / 2 (Hugging Face).
 * - stretch > 0: long waves are slower (Llama 3.1, llama-models, models/llama3/model.py). With the
 *   turns of a wave in the original context, t = context f / (2 pi), f becomes
 *     f / stretch where t < low, f where t > high,
 *     (1 - s) f / stretch + s f between, s = (t - low) / (high - low)
 *   low = high (Llama 4): there is no between, and t = low is as t > high.
 * - size > 0: the first size x size tokens are a picture's patches, row by row (Llama 4's encoder,
 *   transformers, models/llama4). D is a multiple of 4; pairs d < D / 4 are turned by
 *   (column + 1) value^(-4 d / D), the others by (row + 1) value^(-4 (d - D / 4) / D). Tokens
 *   behind them are not turned, and there is no offset.
 *
 * FLOPs: an element is two products and a sum. */

static orr_status rotary_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0];
    ORR_TRY(orr_op_check_rank(sig, 0, 3, err));
    if (x->dim[x->rank - 1] % 2 != 0)
        return orr_op_shape_error(sig, err, "%lld columns do not make pairs",
                                  (long long)x->dim[x->rank - 1]);
    if (sig->args->size > 0 && x->dim[x->rank - 1] % 4 != 0)
        return orr_op_shape_error(sig, err, "%lld columns do not make pairs of pairs",
                                  (long long)x->dim[x->rank - 1]);
    return orr_op_shape_same(sig, ret_out, err);
}

static void rotary_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 3 * (double)orr_type_elements(&sig->in[0]), ret);
}

static orr_status rotary_gradient(orr_gradient *g, orr_error *err)
{
    orr_op_args back = *g->args;
    back.value = -back.value;
    return orr_gradient_call(g, ORR_OP_ROTARY, &back, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_ROTARY = {
    ORR_ROW(ROTARY, "rotary", ROTARY),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (..., S, H, D)",
    .gives = "y (..., S, H, D)",
    .pytorch = ORR_NAMES("RotaryPositionEmbedding", "FusedRoPEFunc", "FusedRoPEFuncBackward"),
    .chakra = "COMP_NODE",
    .shape = rotary_shape,
    .work = rotary_work,
    .gradient = rotary_gradient,
};
