/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"

/* Activations of one input: x (...), y (...).
 *
 * - GELU: x P(x), P the normal distribution, or with `tanh` x (1 + tanh(sqrt(2 / pi) (x + 0.044715
 * x^3))) / 2 (Hendrycks and Gimpel, arXiv 1606.08415); RELU: max(x, 0); SILU: x sigmoid(x);
 * SIGMOID.
 * - ACTIVATION_BACKWARD, `op` says of which: dy and x; of RELU and SIGMOID dy and y.
 *
 * FLOPs an element, each operation of the formula counted as one (exponential, error function and
 * quotient too): GELU 5, RELU 1, SILU 5, SIGMOID 4; backward 10, 1, 8, 3. */

static double forward_flops(orr_op op)
{
    switch (op) {
    case ORR_OP_RELU:
        return 1;
    case ORR_OP_SIGMOID:
        return 4;
    default:
        return 5;
    }
}

static double backward_flops(orr_op op)
{
    switch (op) {
    case ORR_OP_RELU:
        return 1;
    case ORR_OP_SIGMOID:
        return 3;
    case ORR_OP_SILU:
        return 8;
    default:
        return 10;
    }
}

static void activation_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const double elements = (double)orr_type_elements(&sig->in[0]);
    orr_op_work_stream(sig, forward_flops((orr_op)sig->op) * elements, ret);
}

static orr_status activation_gradient(orr_gradient *g, orr_error *err)
{
    const bool by_output = g->op == ORR_OP_RELU || g->op == ORR_OP_SIGMOID;
    const orr_op_args args = {.op = g->op, .tanh = g->args->tanh};
    const orr_value in[2] = {g->grad_out[0], by_output ? g->out[0] : g->in[0]};
    return orr_gradient_call(g, ORR_OP_ACTIVATION_BACKWARD, &args, in, 2, &g->ret_in[0], err);
}

#define UNARY(operator, text)                                                                      \
    ORR_ROW(operator, text, ACTIVATION), .min_in = 1, .max_in = 1, .n_out = 1, .takes = "x (...)", \
                                         .gives = "y (...)", .chakra = "COMP_NODE",                \
                                         .shape = orr_op_shape_same, .work = activation_work,      \
                                         .gradient = activation_gradient
const orr_op_row orr_row_GELU = {
    UNARY(GELU, "gelu"),
    .pytorch = ORR_NAMES("aten::gelu", "aten::gelu_"),
};
const orr_op_row orr_row_RELU = {
    UNARY(RELU, "relu"),
    .pytorch = ORR_NAMES("aten::relu", "aten::relu_", "aten::clamp_min_"),
};
const orr_op_row orr_row_SILU = {
    UNARY(SILU, "silu"),
    .pytorch = ORR_NAMES("aten::silu", "aten::silu_"),
};
const orr_op_row orr_row_SIGMOID = {
    UNARY(SIGMOID, "sigmoid"),
    .pytorch = ORR_NAMES("aten::sigmoid", "aten::sigmoid_"),
};

static bool is_unary(uint8_t op)
{
    return op == ORR_OP_GELU || op == ORR_OP_RELU || op == ORR_OP_SILU || op == ORR_OP_SIGMOID;
}

static orr_status backward_shape(const orr_op_signature *sig, orr_type *ret_out, orr_error *err)
{
    if (!is_unary(sig->args->op))
        return orr_op_shape_error(sig, err, "`op` names no activation of one input");
    ORR_TRY(orr_op_check_same(sig, 1, err));
    ret_out[0] = sig->in[1];
    return ORR_OK;
}

static void backward_work(const orr_op_signature *sig, orr_op_work *ret)
{
    const double elements = (double)orr_type_elements(&sig->in[0]);
    orr_op_work_stream(sig, backward_flops((orr_op)sig->args->op) * elements, ret);
}

const orr_op_row orr_row_ACTIVATION_BACKWARD = {
    ORR_ROW(ACTIVATION_BACKWARD, "activation_backward", ACTIVATION),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .takes = "dy (...), x (...)",
    .gives = "dx (...)",
    .pytorch = ORR_NAMES("aten::gelu_backward", "aten::threshold_backward", "aten::silu_backward",
                         "aten::sigmoid_backward", "GeluBackward0", "ReluBackward0",
                         "SiluBackward0", "SigmoidBackward0"),
    .chakra = "COMP_NODE",
    .shape = backward_shape,
    .work = backward_work,
};
