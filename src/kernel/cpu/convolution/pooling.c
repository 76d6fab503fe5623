/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/tensor/parallel_scratch.h"
#include "kernel/cpu/entries.h"

/* Pooling of images, plane by plane in fp32. Of several maxima the first counts; NaN is larger than
 * any number. */
typedef struct pooling {
    const orr_operand *x, *y;          /* or their gradients */
    const orr_operand *seen;           /* x, for the backward pass of max pooling */
    int64_t high, wide, rows, columns; /* of the image; of the output */
    int64_t window_high, window_wide, stride, padding;
    bool means;
} pooling;

static pooling pooling_of(const orr_op_args *args, const orr_operand *x, const orr_operand *y)
{
    const int64_t *xd = x->type.dim, *yd = y->type.dim;
    return (pooling){.x = x,
                     .y = y,
                     .high = xd[2],
                     .wide = xd[3],
                     .rows = yd[2],
                     .columns = yd[3],
                     .window_high = args->size > 0 ? args->size : xd[2],
                     .window_wide = args->size > 0 ? args->size : xd[3],
                     .stride = args->stride > 0 ? args->stride : 1,
                     .padding = args->padding,
                     .means = args->op == ORR_OP_SUM};
}

static char *plane_row(const orr_operand *o, int64_t plane, int64_t row)
{
    const int64_t sample = plane / o->type.dim[1], channel = plane % o->type.dim[1];
    return (char *)o->data + (sample * o->stride[0] + channel * o->stride[1] + row * o->stride[2]) *
                                 orr_dtype_stride_bytes((orr_dtype)o->type.dtype);
}

static void read_plane(const orr_operand *o, int64_t plane, float *to)
{
    const orr_dtype dtype = (orr_dtype)o->type.dtype;
    for (int64_t r = 0; r < o->type.dim[2]; r++)
        orr_strided_to_fp32(dtype, plane_row(o, plane, r),
                            o->stride[3] * orr_dtype_stride_bytes(dtype), o->type.dim[3],
                            to + r * o->type.dim[3]);
}

static void write_plane(const orr_operand *o, int64_t plane, const float *from)
{
    const orr_dtype dtype = (orr_dtype)o->type.dtype;
    for (int64_t r = 0; r < o->type.dim[2]; r++)
        orr_strided_from_fp32(dtype, from + r * o->type.dim[3], o->type.dim[3],
                              o->stride[3] * orr_dtype_stride_bytes(dtype), plane_row(o, plane, r));
}

/* The window of an output pixel, clipped to the image. */
typedef struct window {
    int64_t top, bottom, left, right;
} window;

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static window window_of(const pooling *p, int64_t row, int64_t column)
{
    const int64_t top = row * p->stride - p->padding, left = column * p->stride - p->padding;
    return (window){.top = most(top, 0),
                    .bottom = least(top + p->window_high, p->high),
                    .left = most(left, 0),
                    .right = least(left + p->window_wide, p->wide)};
}

static int64_t largest(const pooling *p, const float *x, window w)
{
    int64_t best = w.top * p->wide + w.left;
    for (int64_t r = w.top; r < w.bottom; r++)
        for (int64_t at = r * p->wide + w.left; at < r * p->wide + w.right; at++)
            if (!isnan(x[best]) && !(x[at] <= x[best]))
                best = at;
    return best;
}

static float mean(const pooling *p, const float *x, window w)
{
    float sum = 0;
    for (int64_t r = w.top; r < w.bottom; r++)
        for (int64_t at = r * p->wide + w.left; at < r * p->wide + w.right; at++)
            sum += x[at];
    return sum / (float)(p->window_high * p->window_wide);
}

static bool is_empty(window w)
{
    return w.top >= w.bottom || w.left >= w.right;
}

static void pool_planes(const void *ctx, int64_t begin, int64_t end, float *room)
{
    const pooling *p = ctx;
    float *x = room, *y = room + p->high * p->wide;
    for (int64_t plane = begin; plane < end; plane++) {
        read_plane(p->x, plane, x);
        for (int64_t i = 0; i < p->rows * p->columns; i++) {
            const window w = window_of(p, i / p->columns, i % p->columns);
            y[i] = p->means ? mean(p, x, w) : is_empty(w) ? -INFINITY : x[largest(p, x, w)];
        }
        write_plane(p->y, plane, y);
    }
}

static void give_back(const pooling *p, const float *x, window w, float grad, float *dx)
{
    if (!p->means) {
        if (!is_empty(w))
            dx[largest(p, x, w)] += grad;
        return;
    }
    const float share = grad / (float)(p->window_high * p->window_wide);
    for (int64_t r = w.top; r < w.bottom; r++)
        for (int64_t at = r * p->wide + w.left; at < r * p->wide + w.right; at++)
            dx[at] += share;
}

static void give_back_planes(const void *ctx, int64_t begin, int64_t end, float *room)
{
    const pooling *p = ctx;
    const int64_t image = p->high * p->wide;
    float *x = room, *dx = x + image, *dy = dx + image;
    for (int64_t plane = begin; plane < end; plane++) {
        if (!p->means)
            read_plane(p->seen, plane, x);
        read_plane(p->y, plane, dy);
        memset(dx, 0, (size_t)image * sizeof *dx);
        for (int64_t i = 0; i < p->rows * p->columns; i++)
            give_back(p, x, window_of(p, i / p->columns, i % p->columns), dy[i], dx);
        write_plane(p->x, plane, dx);
    }
}

static int64_t room_of(const pooling *p)
{
    return 2 * p->high * p->wide + p->rows * p->columns;
}

static int64_t planes_of(const orr_operand *x)
{
    return x->type.dim[0] * x->type.dim[1];
}

static size_t pool_workspace(const orr_kernel_call *call)
{
    const pooling p = pooling_of(call->args, &call->in[0], &call->out[0]);
    return orr_parallel_scratch_bytes(planes_of(&call->in[0]), room_of(&p));
}

static orr_status pool_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const pooling p = pooling_of(call->args, &call->in[0], &call->out[0]);
    orr_parallel_scratch_run(planes_of(&call->in[0]), room_of(&p), pool_planes, &p, call->workspace,
                             call->workers);
    return ORR_OK;
}

static size_t backward_workspace(const orr_kernel_call *call)
{
    const pooling p = pooling_of(call->args, &call->out[0], &call->in[0]);
    return orr_parallel_scratch_bytes(planes_of(&call->out[0]), room_of(&p));
}

static orr_status backward_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    pooling p = pooling_of(call->args, &call->out[0], &call->in[0]);
    p.seen = &call->in[1];
    orr_parallel_scratch_run(planes_of(&call->out[0]), room_of(&p), give_back_planes, &p,
                             call->workspace, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_POOL = {.run = pool_run, .workspace = pool_workspace};
const orr_kernel_entry orr_cpu_POOL_BACKWARD = {.run = backward_run,
                                                .workspace = backward_workspace};
