/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Elementwise arithmetic. An operand that is broadcast along a dim has stride 0 there. */

static void add_body(const void *ctx, const orr_element_span *span)
{
    (void)ctx;
    orr_vector_math_of_cpu()->add(span->in[0], span->in[1], span->n, span->out[0]);
}
static void mul_body(const void *ctx, const orr_element_span *span)
{
    (void)ctx;
    orr_vector_math_of_cpu()->mul(span->in[0], span->in[1], span->n, span->out[0]);
}

static orr_status binary_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    orr_tensor_iter walk = orr_tensor_iter_over(&call->out[0].type);
    orr_tensor_iter_add(&walk, &call->in[0]);
    orr_tensor_iter_add(&walk, &call->in[1]);
    orr_tensor_iter_add(&walk, &call->out[0]);
    orr_elementwise(&walk, 2, call->accumulate, call->op == ORR_OP_MUL ? mul_body : add_body, NULL,
                    call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_ADD = {.run = binary_run, .accumulates = true};
const orr_kernel_entry orr_cpu_MUL = {.run = binary_run, .accumulates = true};
const orr_kernel_entry orr_cpu_BIAS = {.run = binary_run, .accumulates = true};

static void scale_body(const void *ctx, const orr_element_span *span)
{
    const float *factor = ctx;
    orr_vector_math_of_cpu()->scale(span->in[0], *factor, span->n, span->out[0]);
}

static orr_status scale_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const float factor = (float)call->args->value;
    orr_tensor_iter walk = orr_tensor_iter_over(&call->in[0].type);
    orr_tensor_iter_add(&walk, &call->in[0]);
    orr_tensor_iter_add(&walk, &call->out[0]);
    orr_elementwise(&walk, 1, call->accumulate, scale_body, &factor, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_SCALE = {.run = scale_run, .accumulates = true};

static void fill_body(const void *ctx, const orr_element_span *span)
{
    const float *value = ctx;
    orr_vector_math_of_cpu()->fill(*value, span->n, span->out[0]);
}

static orr_status fill_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const float value = (float)call->args->value;
    orr_tensor_iter walk = orr_tensor_iter_over(&call->out[0].type);
    orr_tensor_iter_add(&walk, &call->out[0]);
    orr_elementwise(&walk, 0, call->accumulate, fill_body, &value, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_FILL = {.run = fill_run, .accumulates = true};
