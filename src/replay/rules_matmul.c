/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for matrix products, convolutions, attention. */
#include "replay/tape_builder.h"

#include <string.h>

#define NEED(condition, err, why)                                                                  \
    if (!(condition))                                                                              \
    return orr_fail((err), ORR_UNSUPPORTED, "%s", (why))

static bool computes(const orr_replay_tensor *t)
{
    return t != NULL && (t->type.dtype == ORR_DTYPE_FP32 || t->type.dtype == ORR_DTYPE_BF16 ||
                         t->type.dtype == ORR_DTYPE_FP16);
}

/* A matrix or a batch; if it is column-major in memory, its row-major transpose. */
static orr_status matrix(orr_replay_builder *b, const orr_replay_tensor *t, orr_value *ret,
                         bool *ret_turned, orr_error *err)
{
    orr_type type = t->type;
    const int r = type.rank;
    *ret_turned = r >= 2 && t->stride[r - 2] == 1 && t->stride[r - 1] >= type.dim[r - 2] &&
                  type.dim[r - 1] > 1;
    if (*ret_turned) {
        type.dim[r - 2] = t->type.dim[r - 1];
        type.dim[r - 1] = t->type.dim[r - 2];
    }
    return orr_replay_value(b, t, &type, ret, err);
}

static orr_status product(orr_replay_builder *b, const orr_replay_call *c,
                          const orr_replay_tensor *x, const orr_replay_tensor *w, orr_value *ret,
                          orr_error *err)
{
    orr_value in[2], out[ORR_CALL_OUT];
    orr_op_args args = {0};
    const orr_replay_tensor *to = orr_replay_out(c, 0);
    NEED(computes(x) && computes(w) && x->type.rank >= 2 && w->type.rank >= 2, err,
         "unknown shapes");
    ORR_TRY(matrix(b, x, &in[0], &args.transpose_a, err));
    ORR_TRY(matrix(b, w, &in[1], &args.transpose_b, err));
    ORR_TRY(orr_replay_apply(b, ORR_OP_MATMUL, &args, in, 2, &to, 1, out, err));
    *ret = out[0];
    return ORR_OK;
}

orr_status orr_replay_mm(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                         orr_error *err)
{
    orr_value y;
    (void)op;
    return product(b, c, orr_replay_in(c, 0), orr_replay_in(c, 1), &y, err);
}

static orr_status add_bias(orr_replay_builder *b, const orr_replay_call *c, orr_value y,
                           const orr_replay_tensor *bias, orr_error *err)
{
    const orr_replay_tensor *to = orr_replay_out(c, 0);
    const orr_type *type = &b->tape.values[y].type;
    orr_value in[2] = {y};
    if (!computes(bias) || bias->type.rank != 1 || bias->type.dim[0] != type->dim[type->rank - 1])
        return ORR_OK;
    ORR_TRY(orr_replay_tensor_value(b, bias, &in[1], err));
    return orr_replay_apply(b, ORR_OP_BIAS, NULL, in, 2, &to, 1, NULL, err);
}

orr_status orr_replay_addmm(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                            orr_error *err)
{
    orr_value y;
    (void)op;
    ORR_TRY(product(b, c, orr_replay_in(c, 1), orr_replay_in(c, 2), &y, err));
    return orr_replay_in(c, 0) == NULL ? ORR_OK : add_bias(b, c, y, orr_replay_in(c, 0), err);
}

/* x (..., K), w (N, K) [, bias (N)] */
orr_status orr_replay_linear(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                             orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *w = orr_replay_in(c, 1),
                            *to = orr_replay_out(c, 0);
    orr_value in[2], out[ORR_CALL_OUT];
    (void)op;
    NEED(computes(x) && computes(w) && x->type.rank >= 1 && w->type.rank == 2, err,
         "unknown shapes");
    orr_type rows = x->type;
    if (rows.rank == 1) {
        rows.rank = 2;
        rows.dim[1] = rows.dim[0];
        rows.dim[0] = 1;
    }
    ORR_TRY(orr_replay_value(b, x, &rows, &in[0], err));
    ORR_TRY(orr_replay_tensor_value(b, w, &in[1], err));
    ORR_TRY(orr_replay_apply(b, ORR_OP_MATMUL, &(orr_op_args){.transpose_b = true}, in, 2, &to, 1,
                             out, err));
    return orr_replay_in(c, 2) == NULL ? ORR_OK : add_bias(b, c, out[0], orr_replay_in(c, 2), err);
}

orr_status orr_replay_bmm(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                          orr_error *err)
{
    const uint32_t first = strstr(c->name, "baddbmm") != NULL ? 1 : 0;
    orr_value y;
    (void)op;
    return product(b, c, orr_replay_in(c, first), orr_replay_in(c, first + 1), &y, err);
}

/* The positions of stride and padding among the arguments. */
typedef struct window {
    uint32_t stride, padding;
    bool plain; /* one group, no dilation, not transposed */
} window;
static window window_of(const orr_replay_call *c, bool backward)
{
    const bool cudnn = strstr(c->name, "cudnn") != NULL || strstr(c->name, "miopen") != NULL ||
                       strstr(c->name, "mkldnn") != NULL;
    const bool mkldnn = strstr(c->name, "mkldnn") != NULL;
    const uint32_t stride = backward ? 4
                            : mkldnn ? 4
                                     : 3,
                   padding = backward ? 5
                             : cudnn  ? (mkldnn ? 3 : 2)
                                      : 4;
    const uint32_t dilation = backward ? 6
                              : cudnn  ? (mkldnn ? 5 : 4)
                                       : 5,
                   groups = backward ? 9
                            : cudnn  ? (mkldnn ? 6 : 5)
                                     : 8;
    return (window){.stride = (uint32_t)orr_replay_number(c, stride, 0, 1),
                    .padding = (uint32_t)orr_replay_number(c, padding, 0, 0),
                    .plain = orr_replay_number(c, dilation, 0, 1) == 1 &&
                             orr_replay_number(c, groups, 0, 1) == 1};
}

static bool is_image(const orr_replay_tensor *t)
{
    return computes(t) && t->type.rank == 4;
}

orr_status orr_replay_convolution(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                  orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *w = orr_replay_in(c, 1),
                            *to = orr_replay_out(c, 0);
    const window how = window_of(c, false);
    orr_value in[2];
    (void)op;
    NEED(is_image(x) && is_image(w), err, "unknown shapes");
    NEED(how.plain && x->type.dim[1] == w->type.dim[1], err, "groups or dilation");
    ORR_TRY(orr_replay_tensor_value(b, x, &in[0], err));
    ORR_TRY(orr_replay_tensor_value(b, w, &in[1], err));
    const orr_op_args args = {.stride = how.stride, .padding = how.padding};
    return orr_replay_apply(b, ORR_OP_CONVOLUTION, &args, in, 2, &to, 1, NULL, err);
}

/* dy, x, w: both gradients, or only the requested one. */
orr_status orr_replay_convolution_backward(orr_replay_builder *b, const orr_replay_call *c,
                                           uint8_t op, orr_error *err)
{
    const orr_replay_tensor *dy = orr_replay_in(c, 0), *x = orr_replay_in(c, 1),
                            *w = orr_replay_in(c, 2);
    const orr_replay_tensor *dx = orr_replay_out(c, 0), *dw = orr_replay_out(c, 1);
    const window how = window_of(c, true);
    orr_value grad, image, filter;
    (void)op;
    NEED(is_image(dy) && is_image(x) && is_image(w), err, "unknown shapes");
    NEED(how.plain && x->type.dim[1] == w->type.dim[1], err, "groups or dilation");
    ORR_TRY(orr_replay_tensor_value(b, dy, &grad, err));
    ORR_TRY(orr_replay_tensor_value(b, x, &image, err));
    ORR_TRY(orr_replay_tensor_value(b, w, &filter, err));
    orr_op_args args = {.stride = how.stride,
                        .padding = how.padding,
                        .begin = x->type.dim[2],
                        .count = x->type.dim[3]};
    if (orr_replay_number(c, 10, 0, 1) != 0)
        ORR_TRY(orr_replay_apply(b, ORR_OP_CONVOLUTION_INPUT, &args, (orr_value[]){grad, filter}, 2,
                                 &dx, 1, NULL, err));
    args.begin = w->type.dim[2];
    args.count = w->type.dim[3];
    if (orr_replay_number(c, 10, 1, 1) == 0)
        return ORR_OK;
    return orr_replay_apply(b, ORR_OP_CONVOLUTION_WEIGHT, &args, (orr_value[]){image, grad}, 2, &dw,
                            1, NULL, err);
}

/* PyTorch's layout is (B, H, S, D), ours (B, S, H, D): the same bytes are read with other
 * strides. */
static orr_status heads(orr_replay_builder *b, const orr_replay_tensor *t, bool flash_layout,
                        orr_value *ret, orr_error *err)
{
    orr_type type = t->type;
    if (!flash_layout) {
        type.dim[1] = t->type.dim[2];
        type.dim[2] = t->type.dim[1];
    }
    return orr_replay_value(b, t, &type, ret, err);
}

static bool is_heads(const orr_replay_tensor *t)
{
    return computes(t) && t->type.rank == 4;
}

static bool tokens_first(const orr_replay_call *c)
{
    return strncmp(c->name, "aten::_flash", 12) == 0 ||
           strncmp(c->name, "aten::_efficient", 16) == 0;
}

/* is_causal is the first flag that is true after q, k and v. */
static bool is_causal(const orr_replay_call *c, uint32_t from)
{
    for (uint32_t i = from; i < c->n_in; i++)
        if (c->in[i].n_numbers == 1 && c->in[i].number[0] == 1)
            return true;
    return false;
}

orr_status orr_replay_attention(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                orr_error *err)
{
    const orr_replay_tensor *to = orr_replay_out(c, 0);
    orr_value in[3];
    (void)op;
    for (uint32_t i = 0; i < 3; i++) {
        NEED(is_heads(orr_replay_in(c, i)), err, "unknown shapes");
        ORR_TRY(heads(b, orr_replay_in(c, i), tokens_first(c), &in[i], err));
    }
    const orr_op_args args = {.flash = true,
                              .mask = is_causal(c, 3) ? ORR_MASK_CAUSAL : ORR_MASK_NONE};
    return orr_replay_apply(b, ORR_OP_ATTENTION, &args, in, 3, &to, 1, NULL, err);
}

/* dy, q, k, v, y, logsumexp */
orr_status orr_replay_attention_backward(orr_replay_builder *b, const orr_replay_call *c,
                                         uint8_t op, orr_error *err)
{
    const orr_replay_tensor *to[3] = {orr_replay_out(c, 0), orr_replay_out(c, 1),
                                      orr_replay_out(c, 2)};
    orr_value in[6];
    (void)op;
    for (uint32_t i = 0; i < 5; i++) {
        NEED(is_heads(orr_replay_in(c, i)), err, "unknown shapes");
        ORR_TRY(heads(b, orr_replay_in(c, i), tokens_first(c), &in[i], err));
    }
    const orr_type *q = &b->tape.values[in[1]].type;
    const orr_type lse = {
        .dtype = ORR_DTYPE_FP32, .rank = 3, .dim = {q->dim[0], q->dim[2], q->dim[1]}};
    ORR_TRY(orr_replay_new_value(b, &lse, &in[5], err));
    const orr_op_args args = {.flash = true,
                              .mask = is_causal(c, 6) ? ORR_MASK_CAUSAL : ORR_MASK_NONE};
    return orr_replay_apply(b, ORR_OP_ATTENTION_BACKWARD, &args, in, 6, to, 3, NULL, err);
}
