/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Binary cross entropy with logits, one number per sample. */

static void loss_body(const void *ctx, const orr_element_span *span)
{
    (void)ctx;
    for (int64_t i = 0; i < span->n; i++) {
        const float x = span->in[0][i], y = span->in[1][i];
        span->out[0][i] = log1pf(expf(-fabsf(x))) + fmaxf(x, 0) - x * y;
    }
}

static void gradient_body(const void *ctx, const orr_element_span *span)
{
    (void)ctx;
    for (int64_t i = 0; i < span->n; i++)
        span->out[0][i] = (1 / (1 + expf(-span->in[0][i])) - span->in[1][i]) * span->in[2][i];
}

static orr_status bce_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    orr_tensor_iter walk = orr_tensor_iter_over(&call->in[0].type);
    for (uint32_t k = 0; k < call->n_in; k++)
        orr_tensor_iter_add(&walk, &call->in[k]);
    orr_tensor_iter_add(&walk, &call->out[0]);
    orr_elementwise(&walk, call->n_in, call->accumulate,
                    call->op == ORR_OP_BCE_LOSS ? loss_body : gradient_body, NULL, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_BCE_LOSS = {.run = bce_run, .accumulates = true};
const orr_kernel_entry orr_cpu_BCE_LOSS_BACKWARD = {.run = bce_run, .accumulates = true};
