/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* COPY: x (...), y (...). Also between memories: whoever runs the tape knows where values are. */

static void copy_work(const orr_op_signature *sig, orr_op_work *ret)
{
    orr_op_work_stream(sig, 0, ret);
}

static orr_status copy_gradient(orr_gradient *g, orr_error *err)
{
    return orr_gradient_call(g, ORR_OP_COPY, g->args, &g->grad_out[0], 1, &g->ret_in[0], err);
}

const orr_op_row orr_row_COPY = {
    ORR_ROW(COPY, "copy", COPY),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .takes = "x (...)",
    .gives = "y (...)",
    .pytorch = ORR_NAMES("aten::copy_", "aten::clone", "CloneBackward0"),
    .chakra = "COMP_NODE",
    .shape = orr_op_shape_same,
    .work = copy_work,
    .gradient = copy_gradient,
};
