/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Activation functions and gated units (SwiGLU); gate and up are two tensors, or the halves of the
 * rows of one. */

static void unary_body(const void *ctx, const orr_element_span *span)
{
    orr_vector_unary *const *function = ctx;
    (*function)(span->in[0], span->n, span->out[0]);
}
static void binary_body(const void *ctx, const orr_element_span *span)
{
    orr_vector_binary *const *function = ctx;
    (*function)(span->in[0], span->in[1], span->n, span->out[0]);
}

static orr_status activation_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_vector_math *math = orr_vector_math_of_cpu();
    orr_vector_unary *gelu = call->args->tanh ? math->gelu_tanh : math->gelu;
    orr_vector_unary *function = call->op == ORR_OP_GELU   ? gelu
                                 : call->op == ORR_OP_RELU ? math->relu
                                 : call->op == ORR_OP_SILU ? math->silu
                                                           : math->sigmoid;
    orr_tensor_iter walk = orr_tensor_iter_over(&call->in[0].type);
    orr_tensor_iter_add(&walk, &call->in[0]);
    orr_tensor_iter_add(&walk, &call->out[0]);
    orr_elementwise(&walk, 1, call->accumulate, unary_body, &function, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_GELU = {.run = activation_run, .accumulates = true};
const orr_kernel_entry orr_cpu_RELU = {.run = activation_run, .accumulates = true};
const orr_kernel_entry orr_cpu_SILU = {.run = activation_run, .accumulates = true};
const orr_kernel_entry orr_cpu_SIGMOID = {.run = activation_run, .accumulates = true};

static orr_status slope_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_vector_math *math = orr_vector_math_of_cpu();
    orr_vector_binary *gelu = call->args->tanh ? math->gelu_tanh_slope : math->gelu_slope;
    orr_vector_binary *function = call->args->op == ORR_OP_GELU   ? gelu
                                  : call->args->op == ORR_OP_RELU ? math->relu_slope
                                  : call->args->op == ORR_OP_SILU ? math->silu_slope
                                                                  : math->sigmoid_slope;
    orr_tensor_iter walk = orr_tensor_iter_over(&call->in[0].type);
    orr_tensor_iter_add(&walk, &call->in[0]);
    orr_tensor_iter_add(&walk, &call->in[1]);
    orr_tensor_iter_add(&walk, &call->out[0]);
    orr_elementwise(&walk, 2, call->accumulate, binary_body, &function, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_ACTIVATION_BACKWARD = {.run = slope_run, .accumulates = true};

/* The first or second half of each row of a tensor (..., 2 F). */
static orr_operand half_of(const orr_operand *whole, int64_t columns, bool second)
{
    orr_operand half = *whole;
    const uint32_t last = half.type.rank - 1u;
    half.type.dim[last] = columns;
    if (second && half.data != NULL)
        half.data = (char *)half.data + columns * half.stride[last] *
                                            (int64_t)orr_dtype_bytes((orr_dtype)half.type.dtype);
    return half;
}

/* Adds gate and up, one operand or two, to the iterator. */
static void add_gates(orr_tensor_iter *walk, const orr_operand *first, uint32_t n, int64_t columns)
{
    for (uint32_t k = 0; k < 2; k++) {
        const orr_operand part = n > 1 ? first[k] : half_of(first, columns, k == 1);
        orr_tensor_iter_add(walk, &part);
    }
}

static orr_status swiglu_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_type *y = &call->out[0].type;
    orr_vector_binary *function = orr_vector_math_of_cpu()->swiglu;
    orr_tensor_iter walk = orr_tensor_iter_over(y);
    add_gates(&walk, &call->in[0], call->n_in, y->dim[y->rank - 1]);
    orr_tensor_iter_add(&walk, &call->out[0]);
    orr_elementwise(&walk, 2, call->accumulate, binary_body, &function, call->workers);
    return ORR_OK;
}

static void swiglu_back_body(const void *ctx, const orr_element_span *span)
{
    (void)ctx;
    orr_vector_math_of_cpu()->swiglu_gradient(span->in[0], span->in[1], span->in[2], span->n,
                                              span->out[0], span->out[1]);
}

static orr_status swiglu_back_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_type *dy = &call->in[0].type;
    const int64_t columns = dy->dim[dy->rank - 1];
    orr_tensor_iter walk = orr_tensor_iter_over(dy);
    orr_tensor_iter_add(&walk, &call->in[0]);
    add_gates(&walk, &call->in[1], call->n_in - 1, columns);
    add_gates(&walk, &call->out[0], call->n_in - 1, columns);
    orr_elementwise(&walk, 3, false, swiglu_back_body, NULL, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_SWIGLU = {.run = swiglu_run, .accumulates = true};
const orr_kernel_entry orr_cpu_SWIGLU_BACKWARD = {.run = swiglu_back_run};
