/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_SIMPLE_H
#define TESTS_NAIVE_SIMPLE_H

#include <string.h>

#include "call.h"

/* Rotary positions, activations, arithmetic on elements, layouts, dtypes. */

/* f(d) of op/families/rotary.c. */
static double naive_wave(const orr_op_args *args, int64_t pair, int64_t n)
{
    const double base = fabs(args->value), f = pow(base, -2.0 * (double)pair / (double)n);
    const double turns = (double)args->context * f / (2 * M_PI);
    if (args->stretch <= 0 || turns > (double)args->high)
        return f;
    if (turns < (double)args->low)
        return f / (double)args->stretch;
    if (args->low >= args->high)
        return f;
    const double s = (turns - (double)args->low) / (double)(args->high - args->low);
    return (1 - s) * f / (double)args->stretch + s * f;
}

/* Of a picture's patch: by its column for the first half of the pairs, by its row for the others.
 */
static double naive_patch_angle(const orr_op_args *args, int64_t patch, int64_t pair, int64_t n)
{
    const int64_t side = args->size, quarter = n / 4;
    if (patch >= side * side)
        return 0;
    const int64_t at = pair < quarter ? patch % side : patch / side;
    return (double)(at + 1) * pow(fabs(args->value), -4.0 * (double)(pair % quarter) / (double)n);
}

static void naive_rotary(const naive_call *c)
{
    const orr_type *x = &c->in_type[0];
    const int64_t n = naive_columns(x), half = n / 2, heads = x->dim[x->rank - 2],
                  tokens = x->dim[x->rank - 3];
    const double sign = c->args->value < 0 ? -1 : 1;
    for (int64_t r = 0; r < naive_rows(x); r++)
        for (int64_t d = 0; d < half; d++) {
            const int64_t token = r / heads % tokens;
            const double turned =
                c->args->size > 0 ? naive_patch_angle(c->args, token, d, n)
                                  : (double)(c->args->offset + token) * naive_wave(c->args, d, n);
            const int64_t i = r * n + (c->args->interleaved ? 2 * d : d),
                          j = i + (c->args->interleaved ? 1 : half);
            const double angle = sign * turned, a = c->in[0][i], b = c->in[0][j];
            c->out[0][i] = a * cos(angle) - b * sin(angle);
            c->out[0][j] = b * cos(angle) + a * sin(angle);
        }
}

static void naive_tune(const naive_call *c)
{
    const orr_type *x = &c->in_type[0];
    const int64_t row = x->dim[x->rank - 1] * x->dim[x->rank - 2], tokens = x->dim[x->rank - 3];
    for (int64_t i = 0; i < naive_size(x); i++) {
        const int64_t position = c->args->offset + i / row % tokens;
        const double steps = floor((double)(position + 1) / (double)c->args->window);
        c->out[0][i] = c->in[0][i] * (1 + c->args->value * log(steps + 1));
    }
}

/* Rows of x behind those of the cache that were there. */
static void naive_cache(const naive_call *c)
{
    const orr_type *cache = &c->in_type[0], *x = &c->in_type[1];
    const int64_t row = x->dim[2] * x->dim[3];
    memcpy(c->out[0], c->in[0], (size_t)naive_size(cache) * sizeof(double));
    for (int64_t i = 0; i < naive_size(x); i++) {
        const int64_t sample = i / row / x->dim[1], token = c->args->offset + i / row % x->dim[1];
        c->out[0][(sample * cache->dim[1] + token) * row + i % row] = c->in[1][i];
    }
}

static void naive_splice(const naive_call *c)
{
    const int64_t columns = naive_columns(&c->in_type[0]);
    int64_t picture = 0;
    for (int64_t r = 0; r < naive_rows(&c->in_type[0]); r++) {
        const bool seen = (int64_t)c->in[1][r] == c->args->begin;
        const double *from = seen ? c->in[2] + picture++ * columns : c->in[0] + r * columns;
        memcpy(c->out[0] + r * columns, from, (size_t)columns * sizeof(double));
    }
}

static double naive_logistic(double x)
{
    return 1 / (1 + exp(-x));
}
static double naive_normal(double x)
{
    return (1 + erf(x / sqrt(2))) / 2;
}

static double naive_tanh_of_gelu(double x)
{
    return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double naive_activate(uint8_t op, bool by_tanh, double x)
{
    switch (op) {
    case ORR_OP_GELU:
        return by_tanh ? x * (1 + naive_tanh_of_gelu(x)) / 2 : x * naive_normal(x);
    case ORR_OP_RELU:
        return x > 0 ? x : 0;
    case ORR_OP_SILU:
        return x * naive_logistic(x);
    default:
        return naive_logistic(x);
    }
}

/* Of RELU and SIGMOID by y, of others by x. */
static double naive_slope(uint8_t op, bool by_tanh, double at)
{
    const double t = naive_tanh_of_gelu(at);
    switch (op) {
    case ORR_OP_GELU:
        if (by_tanh)
            return (1 + t) / 2 +
                   at * (1 - t * t) / 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * at * at);
        return naive_normal(at) + at * exp(-at * at / 2) / sqrt(2 * M_PI);
    case ORR_OP_RELU:
        return at > 0;
    case ORR_OP_SILU:
        return naive_logistic(at) * (1 + at * (1 - naive_logistic(at)));
    default:
        return at * (1 - at);
    }
}

#define NAIVE_ACTIVATION(name, operator)                                                           \
    static void name(const naive_call *c)                                                          \
    {                                                                                              \
        for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++)                                   \
            c->out[0][i] = naive_activate(operator, c->args->tanh, c->in[0][i]);                   \
    }
NAIVE_ACTIVATION(naive_gelu, ORR_OP_GELU)
NAIVE_ACTIVATION(naive_relu, ORR_OP_RELU)
NAIVE_ACTIVATION(naive_silu, ORR_OP_SILU)
NAIVE_ACTIVATION(naive_sigmoid_op, ORR_OP_SIGMOID)

static void naive_activation_backward(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++)
        c->out[0][i] = c->in[0][i] * naive_slope(c->args->op, c->args->tanh, c->in[1][i]);
}

/* Where element i of y finds its gate and its up: two tensors, or halves of the rows of one. */
typedef struct naive_gate {
    const double *gate, *up;
    int64_t gate_at, up_at;
} naive_gate;
static naive_gate naive_gate_of(const naive_call *c, uint32_t first, int64_t columns, int64_t i)
{
    if (c->n_in > first + 1)
        return (naive_gate){c->in[first], c->in[first + 1], i, i};
    const int64_t at = i / columns * 2 * columns + i % columns;
    return (naive_gate){c->in[first], c->in[first], at, at + columns};
}

static void naive_swiglu(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->out_type[0]); i++) {
        const naive_gate g = naive_gate_of(c, 0, naive_columns(&c->out_type[0]), i);
        c->out[0][i] = naive_activate(ORR_OP_SILU, false, g.gate[g.gate_at]) * g.up[g.up_at];
    }
}

static void naive_swiglu_backward(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++) {
        const naive_gate g = naive_gate_of(c, 1, naive_columns(&c->in_type[0]), i);
        const double gate = g.gate[g.gate_at], up = g.up[g.up_at], dy = c->in[0][i];
        c->out[0][g.gate_at] = dy * up * naive_slope(ORR_OP_SILU, false, gate);
        c->out[c->n_out > 1 ? 1 : 0][g.up_at] = dy * naive_activate(ORR_OP_SILU, false, gate);
    }
}

static void naive_add(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++)
        c->out[0][i] = c->in[0][i] + c->in[1][i];
}
static void naive_scale(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++)
        c->out[0][i] = c->in[0][i] * c->args->value;
}
static void naive_bias(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++)
        c->out[0][i] = c->in[0][i] + c->in[1][i % naive_size(&c->in_type[1])];
}
static void naive_fill(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->out_type[0]); i++)
        c->out[0][i] = c->args->value;
}
/* The same elements in the same order: views, casts, copies. What is quantised keeps its value
 * here, as gradients are those without rounding. */
static void naive_same(const naive_call *c)
{
    memcpy(c->out[0], c->in[0], (size_t)naive_size(&c->out_type[0]) * sizeof(double));
}
static void naive_quantize(const naive_call *c)
{
    naive_same(c);
    for (int64_t i = 0; i < naive_size(&c->out_type[1]); i++)
        c->out[1][i] = 1;
}

static void naive_dropout(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++) {
        const double mask = c->n_in > 1 ? c->in[1][i] : (i * 5 + 1) % 3 != 0;
        c->out[0][i] = c->in[0][i] * mask / (1 - c->args->value);
        if (c->n_out > 1)
            c->out[1][i] = mask;
    }
}

/* Coordinates of an element, and back. */
static void naive_unravel(const orr_type *type, int64_t i, int64_t at[ORR_TYPE_DIMS])
{
    for (uint32_t d = type->rank; d-- > 0; i /= type->dim[d])
        at[d] = i % type->dim[d];
}
static int64_t naive_ravel(const orr_type *type, const int64_t at[ORR_TYPE_DIMS])
{
    int64_t i = 0;
    for (uint32_t d = 0; d < type->rank; d++)
        i = i * type->dim[d] + at[d];
    return i;
}

static void naive_mul(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++) {
        int64_t at[ORR_TYPE_DIMS];
        naive_unravel(&c->in_type[0], i, at);
        for (uint32_t d = 0; d < c->in_type[1].rank; d++)
            at[d] = c->in_type[1].dim[d] == 1 ? 0 : at[d];
        c->out[0][i] = c->in[0][i] * c->in[1][naive_ravel(&c->in_type[1], at)];
    }
}

static void naive_sum(const naive_call *c)
{
    const uint32_t first = (uint32_t)c->args->dim,
                   n = c->args->count > 0 ? (uint32_t)c->args->count : 1;
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    for (int64_t i = 0; i < naive_size(&c->in_type[0]); i++) {
        int64_t at[ORR_TYPE_DIMS];
        naive_unravel(&c->in_type[0], i, at);
        for (uint32_t d = first; d + n < c->in_type[0].rank; d++)
            at[d] = at[d + n];
        c->out[0][naive_ravel(&c->out_type[0], at)] += c->in[0][i];
    }
}

static void naive_expand(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->out_type[0]); i++) {
        int64_t at[ORR_TYPE_DIMS];
        naive_unravel(&c->out_type[0], i, at);
        for (uint32_t d = (uint32_t)c->args->dim; d < c->in_type[0].rank; d++)
            at[d] = at[d + 1];
        c->out[0][i] = c->in[0][naive_ravel(&c->in_type[0], at)];
    }
}

static void naive_transpose(const naive_call *c)
{
    for (int64_t i = 0; i < naive_size(&c->out_type[0]); i++) {
        int64_t at[ORR_TYPE_DIMS];
        naive_unravel(&c->out_type[0], i, at);
        const int64_t moved = at[c->args->dim];
        at[c->args->dim] = at[c->args->to_dim];
        at[c->args->to_dim] = moved;
        c->out[0][i] = c->in[0][naive_ravel(&c->in_type[0], at)];
    }
}

/* Copies all of `part` to or from its place in `whole`, `shift` along a dim. */
static void naive_part(double *part, const orr_type *part_type, double *whole,
                       const orr_type *whole_type, int32_t dim, int64_t shift, bool to_whole)
{
    for (int64_t i = 0; i < naive_size(part_type); i++) {
        int64_t at[ORR_TYPE_DIMS];
        naive_unravel(part_type, i, at);
        at[dim] += shift;
        double *other = &whole[naive_ravel(whole_type, at)];
        *(to_whole ? other : &part[i]) = *(to_whole ? &part[i] : other);
    }
}

static void naive_pad(const naive_call *c)
{
    naive_zero(c->out[0], naive_size(&c->out_type[0]));
    naive_part((double *)c->in[0], &c->in_type[0], c->out[0], &c->out_type[0], c->args->dim,
               c->args->begin, true);
}
static void naive_slice(const naive_call *c)
{
    naive_part(c->out[0], &c->out_type[0], (double *)c->in[0], &c->in_type[0], c->args->dim,
               c->args->begin, false);
}
static void naive_concat(const naive_call *c)
{
    int64_t shift = 0;
    for (uint32_t k = 0; k < c->n_in; shift += c->in_type[k++].dim[c->args->dim])
        naive_part((double *)c->in[k], &c->in_type[k], c->out[0], &c->out_type[0], c->args->dim,
                   shift, true);
}
static void naive_split(const naive_call *c)
{
    int64_t shift = 0;
    for (uint32_t k = 0; k < c->n_out; shift += c->out_type[k++].dim[c->args->dim])
        naive_part(c->out[k], &c->out_type[k], (double *)c->in[0], &c->in_type[0], c->args->dim,
                   shift, false);
}

#endif /* TESTS_NAIVE_SIMPLE_H */
