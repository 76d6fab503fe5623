/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Optimizers: one pass over parameters, gradients and states, updated in place. The 16-bit copy
 * that products use is written in the same pass. */

static orr_status check_update(const orr_kernel_call *call, const char *name, orr_error *err)
{
    return call->update != NULL
               ? ORR_OK
               : orr_fail(err, ORR_INVALID, "%s: the call has no update (learning rate)", name);
}

/* An updated tensor is an input and an output at one address; where the span's
 * buffers differ (another dtype), the update works on a copy. */
static void carry(const orr_element_span *span, uint32_t in, uint32_t out)
{
    if (span->out[out] != span->in[in])
        memcpy(span->out[out], span->in[in], (size_t)span->n * sizeof(float));
}

/* AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2, with the decay times the learning
 * rate): p = p (1 - rate decay) - rate m^ / (sqrt(v^) + epsilon), m^ = m / (1 - beta1^t), v^ = v /
 * (1 - beta2^t). */
enum { PARAM, GRAD, MEAN, SQUARE };
static void adamw_body(const void *ctx, const orr_element_span *span)
{
    carry(span, PARAM, 0);
    carry(span, MEAN, 1);
    carry(span, SQUARE, 2);
    orr_vector_math_of_cpu()->adamw(ctx, span->in[GRAD], span->n, span->out[0], span->out[1],
                                    span->out[2]);
}
static void adamw_copy_body(const void *ctx, const orr_element_span *span)
{
    adamw_body(ctx, span);
    memcpy(span->out[3], span->out[0], (size_t)span->n * sizeof(float));
}

static orr_status adamw_run(const orr_kernel_call *call, orr_error *err)
{
    ORR_TRY(check_update(call, "adamw", err));
    const orr_update *u = call->update;
    const double step = (double)(u->step > 0 ? u->step : 1);
    const orr_adamw_factors by = {
        .gradient = (float)u->gradient_scale,
        .keep = (float)(1 - u->rate * u->decay),
        .beta1 = (float)u->beta1,
        .beta2 = (float)u->beta2,
        .rate = (float)(u->rate / (1 - pow(u->beta1, step))),
        .root = (float)(1 / sqrt(1 - pow(u->beta2, step))),
        .epsilon = (float)u->epsilon,
    };
    orr_tensor_iter walk = orr_tensor_iter_over(&call->in[0].type);
    for (uint32_t k = PARAM; k <= SQUARE; k++)
        orr_tensor_iter_add(&walk, &call->in[k]);
    for (uint32_t k = PARAM; k < call->n_in; k++)
        if (k != GRAD)
            orr_tensor_iter_add(&walk, &call->in[k]);
    orr_elementwise(&walk, SQUARE + 1, false,
                    call->n_in > SQUARE + 1 ? adamw_copy_body : adamw_body, &by, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_ADAMW = {.run = adamw_run};

/* SGD: v = momentum v + g + decay p; p = p - rate v. Without momentum v is not kept. */
static void sgd_body(const void *ctx, const orr_element_span *span)
{
    const orr_update *u = ctx;
    carry(span, PARAM, 0);
    orr_vector_math_of_cpu()->sgd(span->in[GRAD], (float)u->gradient_scale, (float)u->decay, 0,
                                  (float)u->rate, span->n, span->out[0], NULL);
}
static void sgd_momentum_body(const void *ctx, const orr_element_span *span)
{
    const orr_update *u = ctx;
    carry(span, PARAM, 0);
    carry(span, 2, 1);
    orr_vector_math_of_cpu()->sgd(span->in[GRAD], (float)u->gradient_scale, (float)u->decay,
                                  (float)u->momentum, (float)u->rate, span->n, span->out[0],
                                  span->out[1]);
}

static orr_status sgd_run(const orr_kernel_call *call, orr_error *err)
{
    ORR_TRY(check_update(call, "sgd", err));
    const bool momentum = call->n_in > 2;
    orr_tensor_iter walk = orr_tensor_iter_over(&call->in[0].type);
    for (uint32_t k = 0; k < call->n_in; k++)
        orr_tensor_iter_add(&walk, &call->in[k]);
    orr_tensor_iter_add(&walk, &call->in[PARAM]);
    if (momentum)
        orr_tensor_iter_add(&walk, &call->in[2]);
    orr_elementwise(&walk, call->n_in, false, momentum ? sgd_momentum_body : sgd_body, call->update,
                    call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_SGD = {.run = sgd_run};
