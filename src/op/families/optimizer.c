/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

#include "op/families/tensor_rows.h"

/* Optimizers. They update parameters and states in place and have no outputs and no gradients.
 * `copy` is the parameter in the dtype of computation, written from the updated one. */

static orr_status same_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    (void)ret_out;
    return orr_op_check_same(sig, 1, err);
}

/* The first `read` inputs are read; all but the gradient are written. */
static void update_work(const orr_op_signature *sig, uint32_t read, double flops_each,
                        orr_op_work *ret)
{
    *ret =
        (orr_op_work){.flops = flops_each * orr_elements(&sig->in[0]), .dtype = sig->in[0].dtype};
    for (uint32_t k = 0; k < sig->n_in; k++) {
        if (k < read)
            ret->read_bytes += orr_bytes(&sig->in[k]);
        if (k != 1)
            ret->write_bytes += orr_bytes(&sig->in[k]);
    }
}

/* v = a v + g; p = p - b v; without momentum p = p - b g. */
static void sgd_work(const orr_op_signature *sig, orr_op_work *ret)
{
    update_work(sig, 3, sig->n_in > 2 ? 4 : 2, ret);
}

const orr_op_row orr_row_SGD = {
    ORR_ROW(SGD, "sgd", OPTIMIZER),
    .min_in = 2,
    .max_in = 3,
    .n_out = 0,
    .takes = "param (...), grad (...) [, momentum (...)]",
    .gives = "param [, momentum] in place",
    .pytorch = ORR_NAMES("aten::_fused_sgd_", "Optimizer.step#SGD.step"),
    .chakra = "COMP_NODE",
    .shape = same_shape,
    .work = sgd_work,
};

/* AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2): 3 FLOPs for m, 4 for v, 3 for the
 * root of v and epsilon, 2 for their ratio, 2 for the decay; bias corrections are folded into the
 * factors. */
static void adamw_work(const orr_op_signature *sig, orr_op_work *ret)
{
    update_work(sig, 4, 14, ret);
}

const orr_op_row orr_row_ADAMW = {
    ORR_ROW(ADAMW, "adamw", OPTIMIZER),
    .min_in = 4,
    .max_in = 5,
    .n_out = 0,
    .takes = "param (...), grad (...), m (...), v (...) [, copy (...)]",
    .gives = "param, m, v [, copy] in place",
    .pytorch = ORR_NAMES("aten::_fused_adamw_", "aten::_fused_adam_", "Optimizer.step#AdamW.step"),
    .chakra = "COMP_NODE",
    .shape = same_shape,
    .work = adamw_work,
};

/* Row-wise Adagrad: the state is one number per row, the sum of its gradient's mean squares
 * (Mudigere et al., arXiv 2104.05158, section 4.1.4). Only rows that ids name are touched. */
static orr_status adagrad_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    (void)ret_out;
    const orr_type *table = &sig->in[0], *rows = &sig->in[1], *state = &sig->in[2],
                   *ids = &sig->in[3];
    if (table->rank != 2 || rows->rank != 2 || rows->dim[1] != table->dim[1])
        return orr_op_shape_error(sig, err, "table and gradient are rows of the same columns");
    if (state->rank != 1 || state->dim[0] != table->dim[0])
        return orr_op_shape_error(sig, err, "the state has a number for each row");
    if (!orr_type_is_index(ids) || orr_type_elements(ids) != rows->dim[0])
        return orr_op_shape_error(sig, err, "every row of the gradient has an id");
    return ORR_OK;
}

/* Gradient rows with equal ids are added first: 3 FLOPs per element read (sum, and square into the
 * state), 2 for the update. Every row counts as touched once, though ids may repeat. */
static void adagrad_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const orr_type *table = &sig->in[0], *rows = &sig->in[1], *state = &sig->in[2];
    const double lookups = (double)rows->dim[0], all = (double)table->dim[0];
    const double touched = lookups < all ? lookups : all;
    const double there = touched * (orr_row_bytes(table, table->dim[1]) + orr_row_bytes(state, 1));
    *ret = (orr_op_work){
        .flops = (3 * lookups + 2 * touched) * (double)table->dim[1],
        .read_bytes = orr_bytes(rows) + orr_bytes(&sig->in[3]) + there,
        .write_bytes = there,
        .dtype = table->dtype,
    };
}

const orr_op_row orr_row_ROWWISE_ADAGRAD = {
    ORR_ROW(ROWWISE_ADAGRAD, "rowwise_adagrad", OPTIMIZER),
    .min_in = 4,
    .max_in = 4,
    .n_out = 0,
    .takes = "table (R, D), drows (L, D), state (R), ids (...)",
    .gives = "table, state in place",
    .pytorch = ORR_NAMES("Optimizer.step#RowWiseAdagrad.step"),
    .chakra = "COMP_NODE",
    .shape = adagrad_shape,
    .work = adagrad_work,
};
