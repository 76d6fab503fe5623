/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/simd/block_math.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/tensor/parallel_scratch.h"
#include "kernel/cpu/entries.h"

/* DLRM's feature interaction (Naumov et al., arXiv 1906.00091): dot products of all pairs of a
 * sample's vectors, computed as X X' of which the lower triangle is kept. Backward: the gradients
 * as a symmetric matrix without diagonal, times X. */
typedef struct interaction {
    const orr_operand *x, *pairs, *dx; /* pairs: dot products, or their gradients */
    const orr_block_math *lanes;
    int64_t features, columns, wide_f, wide_d; /* rounded up to whole vectors */
} interaction;

static interaction interaction_of(const orr_operand *x, const orr_operand *pairs,
                                  const orr_operand *dx)
{
    return (interaction){.x = x,
                         .pairs = pairs,
                         .dx = dx,
                         .lanes = orr_block_math_of_cpu(),
                         .features = x->type.dim[1],
                         .columns = x->type.dim[2],
                         .wide_f = orr_round_up_to_vectors(x->type.dim[1]),
                         .wide_d = orr_round_up_to_vectors(x->type.dim[2])};
}

static char *row_of(const orr_operand *o, int64_t sample, int64_t row)
{
    const int64_t at = sample * o->stride[0] + (o->type.rank > 2 ? row * o->stride[1] : 0);
    return (char *)o->data + at * orr_dtype_stride_bytes((orr_dtype)o->type.dtype);
}

static int64_t step_of(const orr_operand *o)
{
    return o->stride[o->type.rank - 1] * orr_dtype_stride_bytes((orr_dtype)o->type.dtype);
}

/* Reads (F, wide_d), padded with zeros. */
static void read_sample(const interaction *a, int64_t sample, float *to)
{
    memset(to, 0, (size_t)(a->wide_f * a->wide_d) * sizeof *to);
    for (int64_t i = 0; i < a->features; i++)
        orr_strided_to_fp32((orr_dtype)a->x->type.dtype, row_of(a->x, sample, i), step_of(a->x),
                            a->columns, to + i * a->wide_d);
}

static void multiply_pairs(const void *ctx, int64_t begin, int64_t end, float *room)
{
    const interaction *a = ctx;
    float *x = room, *across = x + a->wide_f * a->wide_d, *all = across + a->wide_f * a->wide_d;
    const orr_dtype dtype = (orr_dtype)a->pairs->type.dtype;
    const orr_block_product p = {.a = x,
                                 .a_row = a->wide_d,
                                 .a_step = 1,
                                 .b = across,
                                 .b_row = a->wide_f,
                                 .c = all,
                                 .c_row = a->wide_f,
                                 .rows = a->features,
                                 .depth = a->columns,
                                 .lanes = a->wide_f};
    for (int64_t sample = begin; sample < end; sample++) {
        read_sample(a, sample, x);
        a->lanes->transpose(x, a->wide_d, a->wide_f, a->wide_d, across, a->wide_f);
        a->lanes->product(&p);
        char *to = row_of(a->pairs, sample, 0);
        for (int64_t i = 1; i < a->features; to += i++ * step_of(a->pairs))
            orr_strided_from_fp32(dtype, all + i * a->wide_f, i, step_of(a->pairs), to);
    }
}

static void multiply_gradients(const void *ctx, int64_t begin, int64_t end, float *room)
{
    const interaction *a = ctx;
    float *x = room, *dx = x + a->wide_f * a->wide_d, *all = dx + a->wide_f * a->wide_d;
    const orr_block_product p = {.a = all,
                                 .a_row = a->wide_f,
                                 .a_step = 1,
                                 .b = x,
                                 .b_row = a->wide_d,
                                 .c = dx,
                                 .c_row = a->wide_d,
                                 .rows = a->features,
                                 .depth = a->features,
                                 .lanes = a->wide_d};
    for (int64_t sample = begin; sample < end; sample++) {
        read_sample(a, sample, x);
        const char *from = row_of(a->pairs, sample, 0);
        for (int64_t i = 0; i < a->features; from += i++ * step_of(a->pairs)) {
            orr_strided_to_fp32((orr_dtype)a->pairs->type.dtype, from, step_of(a->pairs), i,
                                all + i * a->wide_f);
            all[i * a->wide_f + i] = 0;
            for (int64_t j = 0; j < i; j++)
                all[j * a->wide_f + i] = all[i * a->wide_f + j];
        }
        a->lanes->product(&p);
        for (int64_t i = 0; i < a->features; i++)
            orr_strided_from_fp32((orr_dtype)a->dx->type.dtype, dx + i * a->wide_d, a->columns,
                                  step_of(a->dx), row_of(a->dx, sample, i));
    }
}

static int64_t room_of(const orr_operand *x)
{
    const int64_t wide_f = orr_round_up_to_vectors(x->type.dim[1]),
                  wide_d = orr_round_up_to_vectors(x->type.dim[2]);
    return 2 * wide_f * wide_d + wide_f * wide_f;
}

static size_t interaction_workspace(const orr_kernel_call *call)
{
    return orr_parallel_scratch_bytes(call->in[0].type.dim[0], room_of(&call->in[0]));
}

static orr_status interaction_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const interaction a = interaction_of(&call->in[0], &call->out[0], NULL);
    orr_parallel_scratch_run(call->in[0].type.dim[0], room_of(&call->in[0]), multiply_pairs, &a,
                             call->workspace, call->workers);
    return ORR_OK;
}

static orr_status backward_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const interaction a = interaction_of(&call->in[0], &call->in[1], &call->out[0]);
    orr_parallel_scratch_run(call->in[0].type.dim[0], room_of(&call->in[0]), multiply_gradients, &a,
                             call->workspace, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_INTERACTION = {.run = interaction_run,
                                              .workspace = interaction_workspace};
const orr_kernel_entry orr_cpu_INTERACTION_BACKWARD = {.run = backward_run,
                                                       .workspace = interaction_workspace};
