/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* ATTENTION_MERGE: see the head of attention.c. */

static bool is_statistic_of(const orr_type *l, const orr_type *y)
{
    return l->rank == 3 && l->dim[0] == y->dim[0] && l->dim[1] == y->dim[2] &&
           l->dim[2] == y->dim[1];
}

static orr_status merge_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *y = &sig->in[0], *l = &sig->in[1];
    if (y->rank != 4)
        return orr_op_shape_error(sig, err, "four dims are needed: batch, tokens, heads, columns");
    if (!orr_type_same_dims(y, &sig->in[2]) || !orr_type_same_dims(l, &sig->in[3]) ||
        !is_statistic_of(l, y))
        return orr_op_shape_error(sig, err, "two outputs of attention and their logsumexps");
    ret_out[0] =
        orr_type_with(y, orr_dtype_wider((orr_dtype)y->dtype, (orr_dtype)sig->in[2].dtype));
    ret_out[1] = *l;
    return ORR_OK;
}

static void merge_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 5 * (double)orr_type_elements(&sig->in[0]), ret);
    ret->dtype = sig->in[0].dtype;
}

static orr_status merge_gradient(orr_gradient *g, orr_error *err)
{
    (void)err;
    g->ret_in[0] = g->ret_in[2] = g->grad_out[0];
    return ORR_OK;
}

const orr_op_row orr_row_ATTENTION_MERGE = {
    ORR_ROW(ATTENTION_MERGE, "attention_merge", ATTENTION),
    .min_in = 4,
    .max_in = 4,
    .n_out = 2,
    .takes = "y (B, S, H, Dv), logsumexp (B, H, S), y2 (B, S, H, Dv), logsumexp2 (B, H, S)",
    .gives = "y (B, S, H, Dv), logsumexp (B, H, S)",
    .chakra = "COMP_NODE",
    .shape = merge_shape,
    .work = merge_work,
    .gradient = merge_gradient,
};
