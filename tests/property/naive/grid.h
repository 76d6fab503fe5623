/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_GRID_H
#define TESTS_NAIVE_GRID_H

#include "call.h"

/* Dot interaction, convolutions, pooling. */

static void naive_interaction(const naive_call *c)
{
    const int64_t f = c->in_type[0].dim[1], d = c->in_type[0].dim[2], pairs = f * (f - 1) / 2;
    for (int64_t b = 0; b < c->in_type[0].dim[0]; b++)
        for (int64_t i = 1; i < f; i++)
            for (int64_t j = 0; j < i; j++) {
                double *to = &c->out[0][b * pairs + i * (i - 1) / 2 + j];
                *to = 0;
                for (int64_t l = 0; l < d; l++)
                    *to += c->in[0][(b * f + i) * d + l] * c->in[0][(b * f + j) * d + l];
            }
}

static void naive_interaction_backward(const naive_call *c)
{
    const int64_t f = c->in_type[0].dim[1], d = c->in_type[0].dim[2], pairs = f * (f - 1) / 2;
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    for (int64_t b = 0; b < c->in_type[0].dim[0]; b++)
        for (int64_t i = 1; i < f; i++)
            for (int64_t j = 0; j < i; j++)
                for (int64_t l = 0; l < d; l++) {
                    const double grad = c->in[1][b * pairs + i * (i - 1) / 2 + j];
                    const int64_t at_i = (b * f + i) * d + l, at_j = (b * f + j) * d + l;
                    c->out[0][at_i] += grad * c->in[0][at_j];
                    c->out[0][at_j] += grad * c->in[0][at_i];
                }
}

/* All (sample, channel out, pixel out, channel in, pixel of the filter) of a convolution of an
 * image (N, C, H, W) with filters (K, C, R, S): `each` gets offsets of input, filter and output. */
typedef void (*naive_tap)(const naive_call *c, int64_t input, int64_t filter, int64_t output);

static void naive_taps(const naive_call *c, const orr_type *x, const orr_type *w, const orr_type *y,
                       naive_tap each)
{
    const int64_t stride = c->args->stride > 0 ? c->args->stride : 1, padding = c->args->padding;
    const int64_t *xd = x->dim, *wd = w->dim, *yd = y->dim;
    for (int64_t i = 0; i < naive_size(y); i++) {
        const int64_t q = i % yd[3], p = i / yd[3] % yd[2], k = i / yd[3] / yd[2] % yd[1],
                      n = i / yd[3] / yd[2] / yd[1];
        for (int64_t f = 0; f < wd[1] * wd[2] * wd[3]; f++) {
            const int64_t s = f % wd[3], r = f / wd[3] % wd[2], ch = f / wd[3] / wd[2];
            const int64_t h = p * stride + r - padding, v = q * stride + s - padding;
            if (h >= 0 && h < xd[2] && v >= 0 && v < xd[3])
                each(c, ((n * xd[1] + ch) * xd[2] + h) * xd[3] + v, k * wd[1] * wd[2] * wd[3] + f,
                     i);
        }
    }
}

static void naive_tap_forward(const naive_call *c, int64_t input, int64_t filter, int64_t output)
{
    c->out[0][output] += c->in[0][input] * c->in[1][filter];
}
static void naive_tap_input(const naive_call *c, int64_t input, int64_t filter, int64_t output)
{
    c->out[0][input] += c->in[0][output] * c->in[1][filter];
}
static void naive_tap_weight(const naive_call *c, int64_t input, int64_t filter, int64_t output)
{
    c->out[0][filter] += c->in[0][input] * c->in[1][output];
}

static void naive_convolution(const naive_call *c)
{
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    naive_taps(c, &c->in_type[0], &c->in_type[1], &c->out_type[0], naive_tap_forward);
}
static void naive_convolution_input(const naive_call *c)
{
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    naive_taps(c, &c->out_type[0], &c->in_type[1], &c->in_type[0], naive_tap_input);
}
static void naive_convolution_weight(const naive_call *c)
{
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    naive_taps(c, &c->in_type[0], &c->out_type[0], &c->in_type[1], naive_tap_weight);
}

/* The window of output pixel i: ret_at gets the offset of its largest element in the image `x`; the
 * number of elements within the image is given. `grad` gets `share` added where it is not NULL. */
typedef struct naive_window {
    int64_t inside, at_most;
    double most, sum;
} naive_window;

static naive_window naive_look(const naive_call *c, const orr_type *xt, const orr_type *yt,
                               const double *x, int64_t i, double *grad, double share)
{
    const int64_t *xd = xt->dim, *yd = yt->dim, stride = c->args->stride > 0 ? c->args->stride : 1;
    const int64_t high = c->args->size > 0 ? c->args->size : xd[2],
                  wide = c->args->size > 0 ? c->args->size : xd[3], padding = c->args->padding;
    const int64_t q = i % yd[3], p = i / yd[3] % yd[2], plane = i / yd[3] / yd[2];
    naive_window w = {.most = -INFINITY};
    for (int64_t a = 0; a < high * wide; a++) {
        const int64_t h = p * stride + a / wide - padding, v = q * stride + a % wide - padding;
        if (h < 0 || h >= xd[2] || v < 0 || v >= xd[3])
            continue;
        const int64_t at = (plane * xd[2] + h) * xd[3] + v;
        w.inside++;
        if (grad != NULL)
            grad[at] += share;
        if (x == NULL)
            continue;
        w.sum += x[at];
        if (x[at] > w.most) {
            w.most = x[at];
            w.at_most = at;
        }
    }
    return w;
}

/* Padding counts in a mean, as zeros. */
static double naive_window_size(const naive_call *c, const orr_type *x)
{
    return c->args->size > 0 ? (double)c->args->size * c->args->size
                             : (double)(x->dim[2] * x->dim[3]);
}

static void naive_pool(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->out_type[0]); i++) {
        const naive_window w = naive_look(c, &c->in_type[0], &c->out_type[0], c->in[0], i, NULL, 0);
        c->out[0][i] =
            c->args->op == ORR_OP_SUM ? w.sum / naive_window_size(c, &c->in_type[0]) : w.most;
    }
}

static void naive_pool_backward(const naive_call *c)
{
    const orr_type *x = &c->out_type[0], *y = &c->in_type[0];
    naive_zero(c->out[0], naive_size(x));
    for (int64_t i = 0; i < naive_size(y); i++) {
        if (c->args->op == ORR_OP_SUM)
            (void)naive_look(c, x, y, NULL, i, c->out[0], c->in[0][i] / naive_window_size(c, x));
        else
            c->out[0][naive_look(c, x, y, c->in[1], i, NULL, 0).at_most] += c->in[0][i];
    }
}

#endif /* TESTS_NAIVE_GRID_H */
