/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

#include "op/families/tensor_rows.h"

/* DLRM's interaction of features: the products of all pairs of F vectors of a sample, (1, 0), (2,
 * 0), (2, 1), (3, 0)...: the strictly lower triangle of x x^T by rows (Naumov et al., arXiv
 * 1906.00091, section 2.1.3). FLOPs are those of the pairs, half of the full product's. */

static int64_t pairs_of(const orr_type *x)
{
    return x->dim[1] * (x->dim[1] - 1) / 2;
}

static orr_status interaction_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0];
    if (x->rank != 3 || x->dim[1] < 2)
        return orr_op_shape_error(sig, err, "pairs are of two features of a sample, or more");
    ret_out[0] = orr_type_of((orr_dtype)x->dtype, 2, (int64_t[]){x->dim[0], pairs_of(x)});
    return ORR_OK;
}

static double products(const orr_type *x)
{
    return (double)x->dim[0] * (double)pairs_of(x) * (double)x->dim[2];
}

static void interaction_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 2 * products(&sig->in[0]), ret);
}

static orr_status interaction_gradient(orr_gradient *g, orr_error *err)
{
    if (!g->wanted[0] || g->grad_out[0] == ORR_NONE)
        return ORR_OK;
    return orr_gradient_call(g, ORR_OP_INTERACTION_BACKWARD, NULL,
                             (const orr_value[]){g->in[0], g->grad_out[0]}, 2, &g->ret_in[0], err);
}

const orr_op_row orr_row_INTERACTION = {
    ORR_ROW(INTERACTION, "interaction", INTERACTION),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (B, F, D)",
    .gives = "pairs (B, F (F - 1) / 2)",
    .chakra = "COMP_NODE",
    .shape = interaction_shape,
    .work = interaction_work,
    .gradient = interaction_gradient,
};

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    const orr_type *x = &sig->in[0], *grad = &sig->in[1];
    if (x->rank != 3 || grad->rank != 2 || grad->dim[0] != x->dim[0] || grad->dim[1] != pairs_of(x))
        return orr_op_shape_error(sig, err, "a sample has a gradient for each pair");
    ret_out[0] = *x;
    return ORR_OK;
}

/* Each pair contributes to both of its vectors. */
static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 4 * products(&sig->in[0]), ret);
}

const orr_op_row orr_row_INTERACTION_BACKWARD = {
    ORR_ROW(INTERACTION_BACKWARD, "interaction_backward", INTERACTION),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "x (B, F, D), dy (B, F (F - 1) / 2)",
    .gives = "dx (B, F, D)",
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
