/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/tensor/parallel_scratch.h"
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/entries.h"

/* Batch norm: each channel is normalized over all samples and pixels, in two passes (mean, then
 * squared deviations); sums of rows are added in double precision. A work item is a few
 * channels. */
enum { CHUNK = 1024 };

typedef struct channels {
    const orr_operand *x, *dy, *weight, *bias, *m, *r, *y, *dx, *dweight;
    const orr_vector_math *math;
    int64_t rows, columns; /* of a channel */
    double epsilon;
} channels;

static int64_t bytes_of(const orr_operand *o)
{
    return orr_dtype_stride_bytes((orr_dtype)o->type.dtype);
}

/* Row i of a channel: the dims but channel and columns, flattened. */
static char *row_of(const orr_operand *o, int64_t channel, int64_t i)
{
    int64_t at = channel * o->stride[1];
    for (uint32_t d = o->type.rank > 2 ? o->type.rank - 2u : 1; d > 1; i /= o->type.dim[d--])
        at += i % o->type.dim[d] * o->stride[d];
    return (char *)o->data + (at + i * o->stride[0]) * bytes_of(o);
}

static int64_t step_of(const orr_operand *o)
{
    return o->type.rank > 2 ? o->stride[o->type.rank - 1] * bytes_of(o) : bytes_of(o);
}

static void read_row(const orr_operand *o, int64_t channel, int64_t i, int64_t from, int64_t n,
                     float *to)
{
    orr_strided_to_fp32((orr_dtype)o->type.dtype, row_of(o, channel, i) + from * step_of(o),
                        step_of(o), n, to);
}
static void write_row(const orr_operand *o, int64_t channel, int64_t i, int64_t from, int64_t n,
                      const float *values)
{
    if (o->data == NULL)
        return;
    orr_strided_from_fp32((orr_dtype)o->type.dtype, values, n, step_of(o),
                          row_of(o, channel, i) + from * step_of(o));
}
static float read_one(const orr_operand *o, int64_t channel)
{
    float value;
    orr_strided_to_fp32((orr_dtype)o->type.dtype,
                        (const char *)o->data + channel * o->stride[0] * bytes_of(o), 0, 1, &value);
    return value;
}
static void write_one(const orr_operand *o, int64_t channel, float value)
{
    if (o->data != NULL)
        orr_strided_from_fp32((orr_dtype)o->type.dtype, &value, 1, 0,
                              (char *)o->data + channel * o->stride[0] * bytes_of(o));
}

static channels channels_of(const orr_operand *x)
{
    channels c = {.x = x, .math = orr_vector_math_of_cpu(), .rows = x->type.dim[0], .columns = 1};
    for (uint32_t d = 2; d + 1 < x->type.rank; d++)
        c.rows *= x->type.dim[d];
    if (x->type.rank > 2)
        c.columns = x->type.dim[x->type.rank - 1];
    return c;
}

/* Loops over the chunks of every row of a channel: `row`, `from` and `n`. */
#define EACH_CHUNK(c)                                                                              \
    for (int64_t row = 0; row < (c)->rows; row++)                                                  \
        for (int64_t from = 0, n; from < (c)->columns; from += n)                                  \
            if ((n = (c)->columns - from < CHUNK ? (c)->columns - from : CHUNK) > 0)

static void normalise(const channels *c, int64_t channel)
{
    float x[CHUNK];
    double sum = 0, square = 0;
    const double elements = (double)(c->rows * c->columns);
    EACH_CHUNK(c)
    {
        read_row(c->x, channel, row, from, n, x);
        sum += (double)c->math->sum(x, n);
    }
    const float m = (float)(sum / elements);
    EACH_CHUNK(c)
    {
        read_row(c->x, channel, row, from, n, x);
        square += (double)c->math->spread(x, m, n);
    }
    const float r = (float)(1 / sqrt(square / elements + c->epsilon));
    const float w = read_one(c->weight, channel) * r, b = read_one(c->bias, channel);
    EACH_CHUNK(c)
    {
        read_row(c->x, channel, row, from, n, x);
        for (int64_t j = 0; j < n; j++)
            x[j] = (x[j] - m) * w + b;
        write_row(c->y, channel, row, from, n, x);
    }
    write_one(c->m, channel, m);
    write_one(c->r, channel, r);
}

/* With h = (x - m) r: dx = w r (dy - mean(dy) - h mean(dy h)), dw = sum of dy h. */
static void differentiate(const channels *c, int64_t channel)
{
    float x[CHUNK], dy[CHUNK];
    double sums[2] = {0, 0};
    const double elements = (double)(c->rows * c->columns);
    const float m = read_one(c->m, channel), r = read_one(c->r, channel),
                w = read_one(c->weight, channel);
    EACH_CHUNK(c)
    {
        read_row(c->x, channel, row, from, n, x);
        read_row(c->dy, channel, row, from, n, dy);
        c->math->norm_sums(dy, x, NULL, m, r, n, sums);
    }
    const float mean = (float)(sums[0] / elements), product = (float)(sums[1] / elements);
    EACH_CHUNK(c)
    {
        read_row(c->x, channel, row, from, n, x);
        read_row(c->dy, channel, row, from, n, dy);
        c->math->norm_gradient(dy, x, NULL, m, r, mean, product, n, dy, NULL);
        c->math->scale(dy, w, n, dy);
        write_row(c->dx, channel, row, from, n, dy);
    }
    if (c->dweight != NULL)
        write_one(c->dweight, channel, (float)sums[1]);
}

static void normalise_some(const void *ctx, int64_t begin, int64_t end, float *room)
{
    (void)room;
    for (int64_t channel = begin; channel < end; channel++)
        normalise(ctx, channel);
}

static void differentiate_some(const void *ctx, int64_t begin, int64_t end, float *room)
{
    (void)room;
    for (int64_t channel = begin; channel < end; channel++)
        differentiate(ctx, channel);
}

static orr_status norm_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    channels c = channels_of(&call->in[0]);
    c.weight = &call->in[1];
    c.bias = &call->in[2];
    c.y = &call->out[0];
    c.m = &call->out[1];
    c.r = &call->out[2];
    c.epsilon = call->args->value;
    orr_parallel_scratch_run(c.x->type.dim[1], 0, normalise_some, &c, NULL, call->workers);
    return ORR_OK;
}

static orr_status backward_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    channels c = channels_of(&call->in[1]);
    c.dy = &call->in[0];
    c.m = &call->in[2];
    c.r = &call->in[3];
    c.weight = &call->in[4];
    c.dx = &call->out[0];
    c.dweight = call->n_out > 1 ? &call->out[1] : NULL;
    orr_parallel_scratch_run(c.x->type.dim[1], 0, differentiate_some, &c, NULL, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_BATCH_NORM = {.run = norm_run};
const orr_kernel_entry orr_cpu_BATCH_NORM_BACKWARD = {.run = backward_run};
