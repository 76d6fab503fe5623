/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* ATTENTION_TEMPERATURE: queries scaled by a function of their position, so that attention over
 * very many keys stays as sharp (Llama 4, layers without rotary embeddings; idea: Nakanishi, arXiv
 * 2501.19399):
 *
 *   y = x (1 + value ln(floor((p + 1) / window) + 1))
 *
 * for x (..., S, H, D), a token's position p being offset + its index in S, or first[b] + index
 * where a run gives each sample's first position. The gradient is the same operator on dy.
 *
 * FLOPs: one product per element; the factors are computed from positions, not read. */

static orr_status tune_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    ORR_TRY(orr_op_check_rank(sig, 0, 3, err));
    if (sig->args->window < 1)
        return orr_op_shape_error(sig, err, "steps of %lld tokens", (long long)sig->args->window);
    return orr_op_shape_same(sig, ret_out, err);
}

static void tune_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, (double)orr_type_elements(&sig->in[0]), ret);
}

static orr_status tune_gradient(orr_gradient *g, orr_error *err)
{
    return orr_gradient_call(g, ORR_OP_ATTENTION_TEMPERATURE, g->args, &g->grad_out[0], 1,
                             &g->ret_in[0], err);
}

const orr_op_row orr_row_ATTENTION_TEMPERATURE = {
    ORR_ROW(ATTENTION_TEMPERATURE, "attention_temperature", ATTENTION),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (..., S, H, D)",
    .gives = "y (..., S, H, D)",
    .chakra = "COMP_NODE",
    .shape = tune_shape,
    .work = tune_work,
    .gradient = tune_gradient,
};
