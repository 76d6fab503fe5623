/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/convolution/convolution.h"

#include <string.h>

#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/convolution/onednn.h"
#include "kernel/cpu/entries.h"

orr_convolution orr_convolution_of(const orr_op_args *args, const orr_operand *x,
                                   const orr_operand *w, const orr_operand *y)
{
    const int64_t *xd = x->type.dim, *wd = w->type.dim, *yd = y->type.dim;
    return (orr_convolution){.lanes = orr_block_math_of_cpu(),
                             .x = x,
                             .w = w,
                             .y = y,
                             .samples = xd[0],
                             .channels = xd[1],
                             .high = xd[2],
                             .wide = xd[3],
                             .filters = wd[0],
                             .filter_high = wd[2],
                             .filter_wide = wd[3],
                             .rows = yd[2],
                             .columns = yd[3],
                             .stride = args->stride > 0 ? args->stride : 1,
                             .padding = args->padding,
                             .taps = wd[1] * wd[2] * wd[3],
                             .blocks = (yd[2] * yd[3] + ORR_CONVOLUTION_PIXELS - 1) /
                                       ORR_CONVOLUTION_PIXELS};
}

static int64_t bytes_of(const orr_operand *o)
{
    return orr_dtype_stride_bytes((orr_dtype)o->type.dtype);
}

static char *pixel_of(const orr_operand *o, int64_t sample, int64_t plane, int64_t row,
                      int64_t column)
{
    return (char *)o->data + (sample * o->stride[0] + plane * o->stride[1] + row * o->stride[2] +
                              column * o->stride[3]) *
                                 bytes_of(o);
}

/* Gathers one row of an im2col block: every `stride`-th pixel from column `at` on, zero outside the
 * image. */
static void gather_row(const orr_convolution *c, int64_t sample, int64_t channel, int64_t row,
                       int64_t at, int64_t n, float *to)
{
    int64_t begin = 0, end = n;
    while (begin < end && at + begin * c->stride < 0)
        begin++;
    while (end > begin && at + (end - 1) * c->stride >= c->wide)
        end--;
    if (row < 0 || row >= c->high)
        begin = end = n;
    memset(to, 0, (size_t)begin * sizeof *to);
    memset(to + end, 0, (size_t)(n - end) * sizeof *to);
    if (begin < end)
        orr_strided_to_fp32((orr_dtype)c->x->type.dtype,
                            pixel_of(c->x, sample, channel, row, at + begin * c->stride),
                            c->stride * c->x->stride[3] * bytes_of(c->x), end - begin, to + begin);
}

void orr_convolution_im2col(const orr_convolution *c, int64_t sample, int64_t first, int64_t n,
                            int64_t tap, int64_t taps, float *to)
{
    for (int64_t i = 0; i < taps; i++, to += ORR_CONVOLUTION_PIXELS) {
        const int64_t s = (tap + i) % c->filter_wide,
                      r = (tap + i) / c->filter_wide % c->filter_high,
                      channel = (tap + i) / c->filter_wide / c->filter_high;
        for (int64_t done = 0, run; done < n; done += run) {
            int64_t p, q;
            run = orr_pixel_run(first + done, n - done, c->columns, &p, &q);
            gather_row(c, sample, channel, p * c->stride + r - c->padding,
                       q * c->stride + s - c->padding, run, to + done);
        }
        memset(to + n, 0, (size_t)(ORR_CONVOLUTION_PIXELS - n) * sizeof *to);
    }
}

void orr_planes_read(const orr_operand *image, int64_t sample, int64_t plane, int64_t planes,
                     int64_t first, int64_t n, float *to)
{
    for (int64_t k = 0; k < planes; k++, to += ORR_CONVOLUTION_PIXELS) {
        for (int64_t done = 0, run; done < n; done += run) {
            int64_t row, column;
            run = orr_pixel_run(first + done, n - done, image->type.dim[3], &row, &column);
            orr_strided_to_fp32((orr_dtype)image->type.dtype,
                                pixel_of(image, sample, plane + k, row, column),
                                image->stride[3] * bytes_of(image), run, to + done);
        }
        memset(to + n, 0, (size_t)(ORR_CONVOLUTION_PIXELS - n) * sizeof *to);
    }
}

void orr_planes_write(const orr_operand *image, int64_t sample, int64_t plane, int64_t planes,
                      int64_t first, int64_t n, const float *from)
{
    for (int64_t k = 0; k < planes; k++, from += ORR_CONVOLUTION_PIXELS)
        for (int64_t done = 0, run; done < n; done += run) {
            int64_t row, column;
            run = orr_pixel_run(first + done, n - done, image->type.dim[3], &row, &column);
            orr_strided_from_fp32((orr_dtype)image->type.dtype, from + done, run,
                                  image->stride[3] * bytes_of(image),
                                  pixel_of(image, sample, plane + k, row, column));
        }
}

/* Forward convolution. Filters are used in place where they are contiguous fp32, else copied
 * first. */
typedef struct forward {
    orr_convolution c;
    const float *filters; /* shape (K, C R S) */
} forward;

static bool lies_in_rows(const orr_operand *w)
{
    return w->type.dtype == ORR_DTYPE_FP32 && orr_operand_is_contiguous(w);
}

static void copy_filters(const orr_operand *w, float *to)
{
    const int64_t *d = w->type.dim;
    for (int64_t i = 0; i < d[0] * d[1] * d[2]; i++)
        orr_strided_to_fp32((orr_dtype)w->type.dtype,
                            pixel_of(w, i / d[2] / d[1], i / d[2] % d[1], i % d[2], 0),
                            w->stride[3] * bytes_of(w), d[3], to + i * d[3]);
}

static void convolve_block(const forward *f, int64_t block, float *room)
{
    const orr_convolution *c = &f->c;
    float *met = room, *sum = room + ORR_CONVOLUTION_DEPTH * ORR_CONVOLUTION_PIXELS;
    const int64_t sample = block / c->blocks, first = block % c->blocks * ORR_CONVOLUTION_PIXELS,
                  left = c->rows * c->columns - first,
                  n = left < ORR_CONVOLUTION_PIXELS ? left : ORR_CONVOLUTION_PIXELS;
    for (int64_t tap = 0; tap < c->taps; tap += ORR_CONVOLUTION_DEPTH) {
        const int64_t taps =
            c->taps - tap < ORR_CONVOLUTION_DEPTH ? c->taps - tap : ORR_CONVOLUTION_DEPTH;
        orr_convolution_im2col(c, sample, first, n, tap, taps, met);
        c->lanes->product(&(orr_block_product){.a = f->filters + tap,
                                               .a_row = c->taps,
                                               .a_step = 1,
                                               .b = met,
                                               .b_row = ORR_CONVOLUTION_PIXELS,
                                               .c = sum,
                                               .c_row = ORR_CONVOLUTION_PIXELS,
                                               .rows = c->filters,
                                               .depth = taps,
                                               .lanes = ORR_CONVOLUTION_PIXELS,
                                               .add = tap > 0});
    }
    orr_planes_write(c->y, sample, 0, c->filters, first, n, sum);
}

static void convolve_blocks(const void *ctx, int64_t begin, int64_t end, float *room)
{
    for (int64_t block = begin; block < end; block++)
        convolve_block(ctx, block, room);
}

static int64_t room_of(const orr_convolution *c)
{
    return (ORR_CONVOLUTION_DEPTH + c->filters) * ORR_CONVOLUTION_PIXELS;
}

static size_t convolution_workspace(const orr_kernel_call *call)
{
    const orr_convolution c =
        orr_convolution_of(call->args, &call->in[0], &call->in[1], &call->out[0]);
    const int64_t copied = lies_in_rows(c.w) ? 0 : orr_round_up_to_vectors(c.filters * c.taps);
    return orr_onednn_workspace(call,
                                orr_parallel_scratch_bytes(c.samples * c.blocks, room_of(&c)) +
                                    (size_t)copied * sizeof(float));
}

static orr_status convolution_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    if (call->state != NULL) {
        orr_onednn_run(call);
        return ORR_OK;
    }
    forward f = {.c = orr_convolution_of(call->args, &call->in[0], &call->in[1], &call->out[0])};
    float *room = call->workspace;
    f.filters = call->in[1].data;
    if (!lies_in_rows(f.c.w)) {
        copy_filters(f.c.w, room);
        f.filters = room;
        room += orr_round_up_to_vectors(f.c.filters * f.c.taps);
    }
    orr_parallel_scratch_run(f.c.samples * f.c.blocks, room_of(&f.c), convolve_blocks, &f, room,
                             call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_CONVOLUTION = {.run = convolution_run,
                                              .workspace = convolution_workspace,
                                              .prepare = orr_onednn_prepare,
                                              .release = orr_onednn_release};
