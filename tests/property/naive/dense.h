/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_DENSE_H
#define TESTS_NAIVE_DENSE_H

#include "call.h"

/* Products, attention, norms. */

static double naive_matrix(const double *x, const orr_type *type, bool transposed, int64_t batch,
                           int64_t row, int64_t column)
{
    const int64_t high = type->dim[type->rank - 2], wide = type->dim[type->rank - 1];
    const double *at = x + (type->rank > 2 ? batch * high * wide : 0);
    return transposed ? at[column * wide + row] : at[row * wide + column];
}

static void naive_matmul(const naive_call *c)
{
    const orr_type *x = &c->in_type[0], *w = &c->in_type[1], *y = &c->out_type[0];
    const bool ta = c->args->transpose_a, tb = c->args->transpose_b;
    const int64_t n = naive_columns(y), m = y->dim[y->rank - 2];
    const int64_t inner = x->dim[ta ? x->rank - 2 : x->rank - 1];
    for (int64_t i = 0; i < naive_size(y); i++) {
        const int64_t batch = i / n / m, row = i / n % m, column = i % n;
        double sum = 0;
        for (int64_t k = 0; k < inner; k++)
            sum += naive_matrix(c->in[0], x, ta, batch, row, k) *
                   naive_matrix(c->in[1], w, tb, batch, k, column);
        c->out[0][i] = sum;
    }
}

/* Tokens of expert e in part p: `counts`, or all the same. */
static bool naive_has_counts(const naive_call *c)
{
    return c->n_in == 3 || c->n_in == 5;
}
static int64_t naive_count(const naive_call *c, int64_t experts, int64_t p, int64_t e)
{
    return naive_has_counts(c) ? (int64_t)c->in[2][p * experts + e]
                               : c->in_type[0].dim[0] / experts;
}
static int64_t naive_parts(const naive_call *c)
{
    return naive_has_counts(c) && c->in_type[2].rank == 2 ? c->in_type[2].dim[0] : 1;
}

static void naive_grouped_weight(const naive_call *c)
{
    const int64_t experts = c->out_type[0].dim[0], k = c->in_type[0].dim[1],
                  n = c->in_type[1].dim[1], parts = naive_parts(c);
    naive_zero(c->out[0], experts * k * n);
    for (int64_t p = 0; p < parts; p++) {
        int64_t t = p * (c->in_type[0].dim[0] / parts);
        for (int64_t e = 0; e < experts; e++)
            for (int64_t left = naive_count(c, experts, p, e); left > 0; left--, t++)
                for (int64_t i = 0; i < k * n; i++)
                    c->out[0][e * k * n + i] += c->in[0][t * k + i / n] * c->in[1][t * n + i % n];
    }
}

static void naive_grouped_matmul(const naive_call *c)
{
    if (c->args->transpose_a) {
        naive_grouped_weight(c);
        return;
    }
    const orr_type *w = &c->in_type[1];
    const int64_t experts = w->dim[0], k = c->in_type[0].dim[1], n = c->out_type[0].dim[1],
                  parts = naive_parts(c);
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    for (int64_t p = 0; p < parts; p++) {
        int64_t t = p * (c->in_type[0].dim[0] / parts);
        for (int64_t e = 0; e < experts; e++)
            for (int64_t left = naive_count(c, experts, p, e); left > 0; left--, t++)
                for (int64_t i = 0; i < k * n; i++)
                    c->out[0][t * n + i % n] +=
                        c->in[0][t * k + i / n] *
                        naive_matrix(c->in[1], w, c->args->transpose_b, e, i / n, i % n);
    }
}

/* y, logsumexp, and those of other keys. */
static void naive_merge(const naive_call *c)
{
    const orr_type *y = &c->in_type[0], *l = &c->in_type[1];
    const int64_t heads = y->dim[2], tokens = y->dim[1], wide = y->dim[3];
    for (int64_t r = 0; r < naive_size(l); r++) {
        const int64_t i = r % tokens, h = r / tokens % heads, b = r / tokens / heads;
        const double most = fmax(c->in[1][r], c->in[3][r]);
        const double all =
            isinf(most) ? most : most + log(exp(c->in[1][r] - most) + exp(c->in[3][r] - most));
        const double first = isinf(all) ? 0 : exp(c->in[1][r] - all),
                     second = isinf(all) ? 0 : exp(c->in[3][r] - all);
        const int64_t row = ((b * tokens + i) * heads + h) * wide;
        for (int64_t d = row; d < row + wide; d++)
            c->out[0][d] = first * c->in[0][d] + second * c->in[2][d];
        c->out[1][r] = all;
    }
}

/* Query i and key j of batch b and head h of an attention whose q, k, v are inputs `first`, + 1, +
 * 2. */
typedef struct naive_heads {
    const naive_call *c;
    const orr_type *q, *k, *v;
    const double *at_q, *at_k, *at_v;
    int64_t share; /* heads that have one head of keys */
} naive_heads;

static naive_heads naive_heads_of(const naive_call *c, uint32_t first)
{
    const orr_type *q = &c->in_type[first];
    return (naive_heads){c,
                         q,
                         q + 1,
                         q + 2,
                         c->in[first],
                         c->in[first + 1],
                         c->in[first + 2],
                         q->dim[2] / q[1].dim[2]};
}
static int64_t naive_row(const orr_type *t, int64_t b, int64_t s, int64_t h)
{
    return ((b * t->dim[1] + s) * t->dim[2] + h) * t->dim[3];
}
static bool naive_sees(const orr_op_args *args, int64_t i, int64_t j)
{
    const int64_t position = args->offset + i, key = args->begin + j;
    return args->mask == ORR_MASK_NONE ||
           (key <= position &&
            (args->mask == ORR_MASK_CAUSAL || key / args->window == position / args->window));
}
static double naive_dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += a[d] * b[d];
    return sum;
}
static double naive_score(const naive_heads *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t width = a->q->dim[3];
    return naive_dot(a->at_q + naive_row(a->q, b, i, h),
                     a->at_k + naive_row(a->k, b, j, h / a->share), width) /
           sqrt((double)width);
}

/* Any fixed pattern will do: gradients are of what was drawn. */
static double naive_drawn(int64_t i)
{
    return (i * 7 + 3) % 5 != 0;
}

static void naive_attention(const naive_call *c)
{
    const naive_heads a = naive_heads_of(c, 0);
    const int64_t keys = a.k->dim[1], queries = a.q->dim[1], heads = a.q->dim[2],
                  wide = a.v->dim[3];
    const bool drops = !c->args->flash && c->args->value > 0;
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    for (int64_t r = 0; r < a.q->dim[0] * heads * queries; r++) {
        const int64_t i = r % queries, h = r / queries % heads, b = r / queries / heads;
        double sum = 0;
        for (int64_t j = 0; j < keys; j++)
            sum += naive_sees(c->args, i, j) ? exp(naive_score(&a, b, h, i, j)) : 0;
        if (c->args->flash)
            c->out[1][r] = log(sum); /* minus infinity where no key is seen */
        for (int64_t j = 0; j < keys; j++) {
            const bool sees = naive_sees(c->args, i, j);
            const double p = sees ? exp(naive_score(&a, b, h, i, j)) / sum : 0;
            double left = p;
            if (!c->args->flash)
                c->out[1][r * keys + j] = p;
            if (drops) {
                c->out[2][r * keys + j] = naive_drawn(r * keys + j);
                left = c->out[3][r * keys + j] =
                    p * naive_drawn(r * keys + j) / (1 - c->args->value);
            }
            for (int64_t d = 0; d < wide; d++)
                c->out[0][naive_row(&c->out_type[0], b, i, h) + d] +=
                    left * a.at_v[naive_row(a.v, b, j, h / a.share) + d];
        }
    }
}

/* dy, q, k, v, then y and logsumexp, or probabilities (and mask, and what it leaves). */
static void naive_attention_backward(const naive_call *c)
{
    const naive_heads a = naive_heads_of(c, 1);
    const orr_type *dy = &c->in_type[0];
    const int64_t keys = a.k->dim[1], queries = a.q->dim[1], heads = a.q->dim[2],
                  width = a.q->dim[3], wide = a.v->dim[3];
    const bool flash = c->args->flash, drops = !flash && c->args->value > 0;
    for (uint32_t k = 0; k < 3; k++)
        naive_zero(c->out[k], naive_size(&c->out_type[k]));
    for (int64_t r = 0; r < a.q->dim[0] * heads * queries; r++) {
        const int64_t i = r % queries, h = r / queries % heads, b = r / queries / heads;
        const double *grad = c->in[0] + naive_row(dy, b, i, h);
        double p[64], dp[64], sum = 0;
        for (int64_t j = 0; j < keys; j++) {
            const bool sees = naive_sees(c->args, i, j);
            const double keep = drops ? c->in[5][r * keys + j] / (1 - c->args->value) : 1;
            p[j] = !sees   ? 0
                   : flash ? exp(naive_score(&a, b, h, i, j) - c->in[5][r])
                           : c->in[4][r * keys + j];
            dp[j] = keep * naive_dot(grad, a.at_v + naive_row(a.v, b, j, h / a.share), wide);
            sum += p[j] * dp[j];
            for (int64_t d = 0; d < wide; d++)
                c->out[2][naive_row(a.v, b, j, h / a.share) + d] += p[j] * keep * grad[d];
        }
        if (flash) /* of all keys, though these may be some */
            sum = naive_dot(grad, c->in[4] + naive_row(dy, b, i, h), wide);
        for (int64_t j = 0; j < keys; j++)
            for (int64_t d = 0; d < width; d++) {
                const double ds = p[j] * (dp[j] - sum) / sqrt((double)width);
                const int64_t at_q = naive_row(a.q, b, i, h) + d,
                              at_k = naive_row(a.k, b, j, h / a.share) + d;
                c->out[0][at_q] += ds * a.at_k[at_k];
                c->out[1][at_k] += ds * a.at_q[at_q];
            }
    }
}

static void naive_softmax(const naive_call *c)
{
    const orr_type *x = &c->in_type[0];
    const int64_t n = naive_columns(x), queries = x->rank > 1 ? x->dim[x->rank - 2] : 1;
    for (int64_t r = 0; r < naive_rows(x); r++) {
        double sum = 0;
        for (int64_t pass = 0; pass < 2; pass++)
            for (int64_t j = 0; j < n; j++) {
                const double e = naive_sees(c->args, r % queries, j) ? exp(c->in[0][r * n + j]) : 0;
                if (pass == 0)
                    sum += e;
                else
                    c->out[0][r * n + j] = sum > 0 ? e / sum : 0;
            }
    }
}

static void naive_softmax_backward(const naive_call *c)
{
    const int64_t n = naive_columns(&c->in_type[0]);
    for (int64_t r = 0; r < naive_rows(&c->in_type[0]); r++) {
        const double *dy = c->in[0] + r * n, *y = c->in[1] + r * n;
        for (int64_t j = 0; j < n; j++)
            c->out[0][r * n + j] = y[j] * (dy[j] - naive_dot(dy, y, n));
    }
}

/* Mean and 1 / sqrt(mean square + epsilon) of what is normalised together: element i of group r is
 * at `first` + i * 1, groups of `n`; of pictures the elements lie `step` apart in runs. */
typedef struct naive_group {
    int64_t n, run, step, first; /* element i: first + i / run * step + i % run */
} naive_group;
static int64_t naive_at(naive_group g, int64_t i)
{
    return g.first + i / g.run * g.step + i % g.run;
}
static naive_group naive_row_group(const orr_type *x, int64_t r)
{
    const int64_t n = naive_columns(x);
    return (naive_group){.n = n, .run = n, .step = 0, .first = r * n};
}
static naive_group naive_channel_group(const orr_type *x, int64_t channel)
{
    const int64_t picture = naive_size(x) / x->dim[0] / x->dim[1];
    return (naive_group){.n = x->dim[0] * picture,
                         .run = picture,
                         .step = x->dim[1] * picture,
                         .first = channel * picture};
}

static void naive_normalise(const naive_call *c, naive_group g, bool centred, double *ret_m,
                            double *ret_r)
{
    double m = 0, square = 0;
    for (int64_t i = 0; i < g.n && centred; i++)
        m += c->in[0][naive_at(g, i)] / (double)g.n;
    for (int64_t i = 0; i < g.n; i++)
        square += pow(c->in[0][naive_at(g, i)] - m, 2) / (double)g.n;
    *ret_m = m;
    *ret_r = 1 / sqrt(square + c->args->value);
}

static void naive_row_norm(const naive_call *c, bool centred)
{
    const orr_type *x = &c->in_type[0];
    const int64_t n = naive_columns(x);
    for (int64_t row = 0; row < naive_rows(x); row++) {
        double m, r;
        naive_normalise(c, naive_row_group(x, row), centred, &m, &r);
        for (int64_t j = 0; j < n; j++)
            c->out[0][row * n + j] =
                (c->in[0][row * n + j] - m) * r * (c->n_in > 1 ? c->in[1][j] : 1) +
                (c->n_in > 2 ? c->in[2][j] : 0);
        if (centred)
            c->out[1][row] = m;
        c->out[centred ? 2 : 1][row] = r;
    }
}
static void naive_rms_norm(const naive_call *c)
{
    naive_row_norm(c, false);
}
static void naive_layer_norm(const naive_call *c)
{
    naive_row_norm(c, true);
}

static void naive_batch_norm(const naive_call *c)
{
    for (int64_t ch = 0; ch < c->in_type[0].dim[1]; ch++) {
        const naive_group g = naive_channel_group(&c->in_type[0], ch);
        naive_normalise(c, g, true, &c->out[1][ch], &c->out[2][ch]);
        for (int64_t i = 0; i < g.n; i++)
            c->out[0][naive_at(g, i)] =
                (c->in[0][naive_at(g, i)] - c->out[1][ch]) * c->out[2][ch] * c->in[1][ch] +
                c->in[2][ch];
    }
}

/* With h = (x - m) r and e = dy w: dx = r (e - mean(e) - h mean(e h)), without the first mean where
 * nothing was centred. */
static void naive_normal_gradient(const naive_call *c, naive_group g, double m, double r,
                                  const double *w, int64_t w_step, bool centred)
{
    double mean = 0, product = 0;
    for (int64_t i = 0; i < g.n; i++) {
        const int64_t at = naive_at(g, i);
        const double e = c->in[0][at] * (w != NULL ? w[i * w_step] : 1);
        mean += e / (double)g.n;
        product += e * (c->in[1][at] - m) * r / (double)g.n;
    }
    for (int64_t i = 0; i < g.n; i++) {
        const int64_t at = naive_at(g, i);
        const double e = c->in[0][at] * (w != NULL ? w[i * w_step] : 1), h = (c->in[1][at] - m) * r;
        c->out[0][at] = r * (e - (centred ? mean : 0) - h * product);
        if (c->n_out > 1)
            c->out[1][w_step != 0 ? i : g.first / g.run] += c->in[0][at] * h;
    }
}

static void naive_row_norm_backward(const naive_call *c, bool centred)
{
    const orr_type *x = &c->in_type[1];
    const uint32_t statistics = centred ? 2 : 1;
    const double *w = c->n_in > 2 + statistics ? c->in[2 + statistics] : NULL;
    if (c->n_out > 1)
        naive_zero(c->out[1], naive_columns(x));
    for (int64_t row = 0; row < naive_rows(x); row++)
        naive_normal_gradient(c, naive_row_group(x, row), centred ? c->in[2][row] : 0,
                              c->in[centred ? 3 : 2][row], w, 1, centred);
}
static void naive_rms_norm_backward(const naive_call *c)
{
    naive_row_norm_backward(c, false);
}
static void naive_layer_norm_backward(const naive_call *c)
{
    naive_row_norm_backward(c, true);
}
static void naive_batch_norm_backward(const naive_call *c)
{
    const orr_type *x = &c->in_type[1];
    if (c->n_out > 1)
        naive_zero(c->out[1], x->dim[1]);
    for (int64_t ch = 0; ch < x->dim[1]; ch++)
        naive_normal_gradient(c, naive_channel_group(x, ch), c->in[2][ch], c->in[3][ch],
                              c->in[4] + ch, 0, true);
}

#endif /* TESTS_NAIVE_DENSE_H */
