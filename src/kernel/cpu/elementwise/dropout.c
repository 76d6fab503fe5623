/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Dropout. Element i is dropped by number i of the call's Philox sequence (word i % 4 of block i /
 * 4), so the mask depends on the seed alone. It is stored as a byte per element. */
typedef struct dropout {
    uint32_t key[2];
    uint32_t least; /* random numbers below it drop the element */
    float factor;   /* scale of what is kept */
} dropout;

static void draw_mask(const dropout *d, int64_t index, int64_t n, float *mask)
{
    uint32_t words[ORR_ELEMENT_CHUNK + 8];
    const int64_t first = index / 4, last = (index + n - 1) / 4;
    orr_vector_math_of_cpu()->philox(d->key, (uint64_t)first, last - first + 1, words);
    for (int64_t i = 0; i < n; i++)
        mask[i] = words[index % 4 + i] >= d->least ? 1 : 0;
}

static void apply(const float *x, const float *mask, float factor, int64_t n, float *y)
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    math->mul(x, mask, n, y);
    math->scale(y, factor, n, y);
}

static void draw_body(const void *ctx, const orr_element_span *span)
{
    const dropout *d = ctx;
    draw_mask(d, span->index, span->n, span->out[1]);
    apply(span->in[0], span->out[1], d->factor, span->n, span->out[0]);
}
static void apply_body(const void *ctx, const orr_element_span *span)
{
    const dropout *d = ctx;
    apply(span->in[0], span->in[1], d->factor, span->n, span->out[0]);
}

static orr_status dropout_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const double drop = call->args->value;
    const dropout d = {.key = {(uint32_t)call->seed, (uint32_t)(call->seed >> 32)},
                       .least = (uint32_t)(drop * 0x1p32),
                       .factor = (float)(1 / (1 - drop))};
    const bool given = call->n_in == 2;
    orr_tensor_iter walk = orr_tensor_iter_over(&call->in[0].type);
    for (uint32_t k = 0; k < call->n_in; k++)
        orr_tensor_iter_add(&walk, &call->in[k]);
    orr_tensor_iter_add(&walk, &call->out[0]);
    if (!given)
        orr_tensor_iter_add(&walk, call->n_out > 1 ? &call->out[1]
                                                   : &(orr_operand){.type = call->in[0].type});
    orr_elementwise(&walk, call->n_in, call->accumulate, given ? apply_body : draw_body, &d,
                    call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_DROPOUT = {.run = dropout_run, .accumulates = true};
