/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/convolution/convolution.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/convolution/onednn.h"
#include "kernel/cpu/entries.h"

/* Gradient of the input, by blocks of pixels of x: for each filter tap, the pixels of dy that the
 * tap connects to the block, times the filters' weights of that tap, which are copied tap by
 * tap. */
typedef struct input {
    orr_convolution c;    /* x: the gradient that is computed, y: dy */
    const float *filters; /* shape (R S, C, K) */
    int64_t blocks;       /* blocks of pixels of x */
} input;

static int64_t bytes_of(const orr_operand *o)
{
    return orr_dtype_stride_bytes((orr_dtype)o->type.dtype);
}

static void copy_places(const orr_convolution *c, float *to)
{
    const orr_operand *w = c->w;
    const int64_t places = c->filter_high * c->filter_wide;
    for (int64_t i = 0; i < places * c->channels; i++) {
        const int64_t channel = i % c->channels, r = i / c->channels / c->filter_wide,
                      s = i / c->channels % c->filter_wide;
        const int64_t at = channel * w->stride[1] + r * w->stride[2] + s * w->stride[3];
        orr_strided_to_fp32((orr_dtype)w->type.dtype, (const char *)w->data + at * bytes_of(w),
                            w->stride[0] * bytes_of(w), c->filters, to + i * c->filters);
    }
}

/* Gathers the pixels of plane k of dy that tap (r, s) connects to pixels [column, column + n) of a
 * row of x. */
static void gather_row(const orr_convolution *c, int64_t sample, int64_t k, int64_t row,
                       int64_t column, int64_t n, int64_t r, int64_t s, float *to)
{
    const orr_operand *y = c->y;
    const int64_t p = row + c->padding - r;
    memset(to, 0, (size_t)n * sizeof *to);
    if (p < 0 || p % c->stride != 0 || p / c->stride >= c->rows)
        return;
    int64_t begin = 0; /* the first one whose position in y is an integer and not negative */
    while (begin < n && (column + begin + c->padding - s < 0 ||
                         (column + begin + c->padding - s) % c->stride != 0))
        begin++;
    const int64_t q = (column + begin + c->padding - s) / c->stride;
    int64_t count = begin < n ? (n - begin + c->stride - 1) / c->stride : 0;
    count = count < c->columns - q ? count : c->columns - q;
    const char *from = (const char *)y->data + (sample * y->stride[0] + k * y->stride[1] +
                                                p / c->stride * y->stride[2] + q * y->stride[3]) *
                                                   bytes_of(y);
    if (c->stride == 1 && count > 0)
        orr_strided_to_fp32((orr_dtype)y->type.dtype, from, y->stride[3] * bytes_of(y), count,
                            to + begin);
    for (int64_t i = 0; c->stride > 1 && i < count; i++)
        orr_strided_to_fp32((orr_dtype)y->type.dtype, from + i * y->stride[3] * bytes_of(y), 0, 1,
                            to + begin + i * c->stride);
}

static void gather(const orr_convolution *c, int64_t sample, int64_t first, int64_t n,
                   int64_t place, int64_t k, int64_t planes, float *to)
{
    for (int64_t i = 0; i < planes; i++, to += ORR_CONVOLUTION_PIXELS) {
        for (int64_t done = 0, run; done < n; done += run) {
            int64_t row, column;
            run = orr_pixel_run(first + done, n - done, c->wide, &row, &column);
            gather_row(c, sample, k + i, row, column, run, place / c->filter_wide,
                       place % c->filter_wide, to + done);
        }
        memset(to + n, 0, (size_t)(ORR_CONVOLUTION_PIXELS - n) * sizeof *to);
    }
}

static void input_block(const input *f, int64_t block, float *room)
{
    const orr_convolution *c = &f->c;
    float *met = room, *sum = room + ORR_CONVOLUTION_DEPTH * ORR_CONVOLUTION_PIXELS;
    const int64_t sample = block / f->blocks, first = block % f->blocks * ORR_CONVOLUTION_PIXELS,
                  left = c->high * c->wide - first,
                  n = left < ORR_CONVOLUTION_PIXELS ? left : ORR_CONVOLUTION_PIXELS;
    memset(sum, 0, (size_t)(c->channels * ORR_CONVOLUTION_PIXELS) * sizeof *sum);
    for (int64_t place = 0; place < c->filter_high * c->filter_wide; place++)
        for (int64_t k = 0; k < c->filters; k += ORR_CONVOLUTION_DEPTH) {
            const int64_t planes =
                c->filters - k < ORR_CONVOLUTION_DEPTH ? c->filters - k : ORR_CONVOLUTION_DEPTH;
            gather(c, sample, first, n, place, k, planes, met);
            c->lanes->product(
                &(orr_block_product){.a = f->filters + place * c->channels * c->filters + k,
                                     .a_row = c->filters,
                                     .a_step = 1,
                                     .b = met,
                                     .b_row = ORR_CONVOLUTION_PIXELS,
                                     .c = sum,
                                     .c_row = ORR_CONVOLUTION_PIXELS,
                                     .rows = c->channels,
                                     .depth = planes,
                                     .lanes = ORR_CONVOLUTION_PIXELS,
                                     .add = true});
        }
    orr_planes_write(c->x, sample, 0, c->channels, first, n, sum);
}

static void input_blocks(const void *ctx, int64_t begin, int64_t end, float *room)
{
    for (int64_t block = begin; block < end; block++)
        input_block(ctx, block, room);
}

static input input_of(const orr_kernel_call *call)
{
    input f = {.c = orr_convolution_of(call->args, &call->out[0], &call->in[1], &call->in[0])};
    f.blocks = (f.c.high * f.c.wide + ORR_CONVOLUTION_PIXELS - 1) / ORR_CONVOLUTION_PIXELS;
    return f;
}

static int64_t input_room(const orr_convolution *c)
{
    return (ORR_CONVOLUTION_DEPTH + c->channels) * ORR_CONVOLUTION_PIXELS;
}

static size_t input_workspace(const orr_kernel_call *call)
{
    const input f = input_of(call);
    return orr_onednn_workspace(
        call, orr_parallel_scratch_bytes(f.c.samples * f.blocks, input_room(&f.c)) +
                  (size_t)orr_round_up_to_vectors(f.c.filters * f.c.taps) * sizeof(float));
}

static orr_status input_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    if (call->state != NULL) {
        orr_onednn_run(call);
        return ORR_OK;
    }
    input f = input_of(call);
    float *places = call->workspace;
    copy_places(&f.c, places);
    f.filters = places;
    orr_parallel_scratch_run(f.c.samples * f.blocks, input_room(&f.c), input_blocks, &f,
                             places + orr_round_up_to_vectors(f.c.filters * f.c.taps),
                             call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_CONVOLUTION_INPUT = {.run = input_run,
                                                    .workspace = input_workspace,
                                                    .prepare = orr_onednn_prepare,
                                                    .release = orr_onednn_release};

/* Gradient of the filters: blocks of 64 filters by 64 taps, each summed over all pixels of all
 * samples in order. Here the lanes are taps. */
enum { BLOCK = ORR_CONVOLUTION_PIXELS };

static void add_pixels(const orr_convolution *c, int64_t sample, int64_t first, int64_t n,
                       int64_t k, int64_t filters, int64_t tap, int64_t taps, float *room,
                       float *sum)
{
    float *met = room, *across = met + BLOCK * BLOCK, *dy = across + BLOCK * BLOCK;
    orr_convolution_im2col(c, sample, first, n, tap, taps, met);
    memset(met + taps * BLOCK, 0, (size_t)((BLOCK - taps) * BLOCK) * sizeof *met);
    c->lanes->transpose(met, BLOCK, BLOCK, BLOCK, across, BLOCK);
    orr_planes_read(c->y, sample, k, filters, first, n, dy);
    c->lanes->product(&(orr_block_product){.a = dy,
                                           .a_row = BLOCK,
                                           .a_step = 1,
                                           .b = across,
                                           .b_row = BLOCK,
                                           .c = sum,
                                           .c_row = BLOCK,
                                           .rows = filters,
                                           .depth = n,
                                           .lanes = BLOCK,
                                           .add = true});
}

static void write_taps(const orr_convolution *c, int64_t k, int64_t filters, int64_t tap,
                       int64_t taps, const float *sum)
{
    const orr_operand *w = c->w;
    for (int64_t i = 0; i < filters; i++)
        for (int64_t t = 0; t < taps; t++) {
            const int64_t s = (tap + t) % c->filter_wide,
                          r = (tap + t) / c->filter_wide % c->filter_high,
                          channel = (tap + t) / c->filter_wide / c->filter_high;
            const int64_t at = (k + i) * w->stride[0] + channel * w->stride[1] + r * w->stride[2] +
                               s * w->stride[3];
            orr_strided_from_fp32((orr_dtype)w->type.dtype, &sum[i * BLOCK + t], 1, 0,
                                  (char *)w->data + at * bytes_of(w));
        }
}

static int64_t tap_blocks(const orr_convolution *c)
{
    return (c->taps + BLOCK - 1) / BLOCK;
}

static void weight_blocks(const void *ctx, int64_t begin, int64_t end, float *room)
{
    const orr_convolution *c = ctx;
    const int64_t pixels = c->rows * c->columns;
    float *sum = room + 3 * BLOCK * BLOCK;
    for (int64_t block = begin; block < end; block++) {
        const int64_t k = block / tap_blocks(c) * BLOCK, tap = block % tap_blocks(c) * BLOCK;
        const int64_t filters = c->filters - k < BLOCK ? c->filters - k : BLOCK,
                      taps = c->taps - tap < BLOCK ? c->taps - tap : BLOCK;
        memset(sum, 0, BLOCK * BLOCK * sizeof *sum);
        for (int64_t sample = 0; sample < c->samples; sample++)
            for (int64_t first = 0; first < pixels; first += BLOCK)
                add_pixels(c, sample, first, pixels - first < BLOCK ? pixels - first : BLOCK, k,
                           filters, tap, taps, room, sum);
        write_taps(c, k, filters, tap, taps, sum);
    }
}

static int64_t weight_count(const orr_convolution *c)
{
    return (c->filters + BLOCK - 1) / BLOCK * tap_blocks(c);
}

static size_t weight_workspace(const orr_kernel_call *call)
{
    const orr_convolution c =
        orr_convolution_of(call->args, &call->in[0], &call->out[0], &call->in[1]);
    return orr_onednn_workspace(call,
                                orr_parallel_scratch_bytes(weight_count(&c), 4 * BLOCK * BLOCK));
}

static orr_status weight_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    if (call->state != NULL) {
        orr_onednn_run(call);
        return ORR_OK;
    }
    const orr_convolution c =
        orr_convolution_of(call->args, &call->in[0], &call->out[0], &call->in[1]);
    orr_parallel_scratch_run(weight_count(&c), 4 * BLOCK * BLOCK, weight_blocks, &c,
                             call->workspace, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_CONVOLUTION_WEIGHT = {.run = weight_run,
                                                     .workspace = weight_workspace,
                                                     .prepare = orr_onednn_prepare,
                                                     .release = orr_onednn_release};
