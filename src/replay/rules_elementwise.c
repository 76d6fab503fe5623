/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for memory-bound operators: elementwise arithmetic, norms, softmax, sums, copies. */
#include "replay/tape_builder.h"

#include <string.h>

#define NEED(condition, err, why)                                                                  \
    if (!(condition))                                                                              \
    return orr_fail((err), ORR_UNSUPPORTED, "%s", (why))

/* In place, or into the recorded result. */
static const orr_replay_tensor *target(const orr_replay_call *c)
{
    const orr_replay_tensor *out = orr_replay_out(c, 0);
    return out != NULL ? out : orr_replay_in(c, 0);
}

orr_status orr_replay_unary(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                            orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *to = target(c);
    orr_value in;
    NEED(x != NULL, err, "unknown shapes");
    ORR_TRY(orr_replay_flat_value(b, x, &in, err));
    const orr_op_args args = {.value = 0.5};
    return orr_replay_apply(b, (orr_op)op, &args, &in, 1, &to, 1, NULL, err);
}

static bool is_float(const orr_replay_tensor *t)
{
    return t->type.dtype == ORR_DTYPE_FP32 || t->type.dtype == ORR_DTYPE_BF16 ||
           t->type.dtype == ORR_DTYPE_FP16;
}

/* The largest input passes through memory once, as does another one of that size; smaller ones are
 * a bias along the last dims, or a scalar. */
orr_status orr_replay_binary(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                             orr_error *err)
{
    const orr_replay_tensor *x = NULL, *y = NULL, *to = target(c);
    orr_value in[2];
    for (uint32_t i = 0; i < c->n_in; i++) {
        const orr_replay_tensor *t = orr_replay_in(c, i);
        if (t == NULL)
            continue;
        if (x == NULL || orr_type_elements(&t->type) > orr_type_elements(&x->type)) {
            y = x;
            x = t;
        } else if (y == NULL || orr_type_elements(&t->type) > orr_type_elements(&y->type)) {
            y = t;
        }
    }
    NEED(x != NULL, err, "unknown shapes");
    const bool both = y != NULL && orr_type_elements(&y->type) == orr_type_elements(&x->type) &&
                      is_float(x) && is_float(y);
    const bool bias = !both && y != NULL && is_float(x) && x->type.dtype == y->type.dtype &&
                      x->type.rank > 0 &&
                      orr_type_elements(&y->type) == x->type.dim[x->type.rank - 1];
    const orr_op_args args = {.value = 0.5};
    if (bias) {
        const orr_type last = {
            .dtype = y->type.dtype, .rank = 1, .dim = {orr_type_elements(&y->type)}};
        ORR_TRY(orr_replay_tensor_value(b, x, &in[0], err));
        ORR_TRY(orr_replay_value(b, y, &last, &in[1], err));
        return orr_replay_apply(b, ORR_OP_BIAS, &args, in, 2, &to, 1, NULL, err);
    }
    ORR_TRY(orr_replay_flat_value(b, x, &in[0], err));
    if (!both)
        return orr_replay_apply(b, ORR_OP_SCALE, &args, in, 1, &to, 1, NULL, err);
    ORR_TRY(orr_replay_flat_value(b, y, &in[1], err));
    return orr_replay_apply(b, op == ORR_OP_MUL ? ORR_OP_MUL : ORR_OP_ADD, &args, in, 2, &to, 1,
                            NULL, err);
}

/* Parameters, gradients and both means, in four lists. */
static orr_status fused_adam(orr_replay_builder *b, const orr_replay_call *c, orr_error *err)
{
    for (uint32_t i = 0; i < c->in[0].n_tensors; i++) {
        orr_value in[4];
        for (uint32_t k = 0; k < 4; k++) {
            NEED(c->in[k].n_tensors == c->in[0].n_tensors && is_float(&c->in[k].tensors[i]), err,
                 "unknown shapes");
            ORR_TRY(orr_replay_flat_value(b, &c->in[k].tensors[i], &in[k], err));
        }
        ORR_TRY(orr_replay_apply(b, ORR_OP_ADAMW, NULL, in, 4, NULL, 0, NULL, err));
    }
    return ORR_OK;
}

/* Operators on lists of tensors, one after another: optimizers. */
orr_status orr_replay_many(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                           orr_error *err)
{
    const orr_replay_argument *first = &c->in[0], *second = c->n_in > 1 ? &c->in[1] : NULL;
    NEED(c->n_in > 0 && first->n_tensors > 0, err, "unknown shapes");
    if (op == ORR_OP_ADAMW && c->n_in >= 4)
        return fused_adam(b, c, err);
    const bool pairs = second != NULL && second->n_tensors == first->n_tensors;
    for (uint32_t i = 0; i < first->n_tensors; i++) {
        const orr_replay_tensor *x = &first->tensors[i], *y = pairs ? &second->tensors[i] : NULL;
        const bool both = y != NULL && is_float(x) && is_float(y) &&
                          orr_type_elements(&x->type) == orr_type_elements(&y->type);
        orr_value in[2];
        ORR_TRY(orr_replay_flat_value(b, x, &in[0], err));
        if (both)
            ORR_TRY(orr_replay_flat_value(b, y, &in[1], err));
        const orr_op_args args = {.value = 0.5};
        ORR_TRY(orr_replay_apply(b, both ? ORR_OP_ADD : ORR_OP_SCALE, &args, in, both ? 2 : 1, &x,
                                 1, NULL, err));
    }
    return ORR_OK;
}

orr_status orr_replay_activation_backward(orr_replay_builder *b, const orr_replay_call *c,
                                          uint8_t op, orr_error *err)
{
    const orr_replay_tensor *dy = orr_replay_in(c, 0), *x = orr_replay_in(c, 1),
                            *to = orr_replay_out(c, 0);
    orr_value in[2];
    NEED(dy != NULL && x != NULL && is_float(dy) && is_float(x) &&
             orr_type_elements(&dy->type) == orr_type_elements(&x->type),
         err, "unknown shapes");
    ORR_TRY(orr_replay_flat_value(b, dy, &in[0], err));
    ORR_TRY(orr_replay_flat_value(b, x, &in[1], err));
    const orr_op_args args = {.op = op};
    return orr_replay_apply(b, ORR_OP_ACTIVATION_BACKWARD, &args, in, 2, &to, 1, NULL, err);
}

orr_status orr_replay_fill(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                           orr_error *err)
{
    const orr_replay_tensor *to = target(c);
    (void)op;
    NEED(to != NULL, err, "unknown shapes");
    const bool wide = is_float(to);
    const orr_type shape = {
        .dtype = wide ? to->type.dtype : (uint8_t)ORR_DTYPE_FP32,
        .rank = 1,
        .dim = {wide ? orr_type_elements(&to->type) : orr_type_bytes(&to->type) / 4}};
    const orr_op_args args = {.shape = &shape};
    return orr_replay_apply(b, ORR_OP_FILL, &args, NULL, 0, &to, 1, NULL, err);
}

/* copy_ has the target first; others create it. Different dtypes make it a cast. */
orr_status orr_replay_copy(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                           orr_error *err)
{
    const bool in_place = strcmp(c->name, "aten::copy_") == 0;
    const orr_replay_tensor *x = orr_replay_in(c, in_place ? 1 : 0);
    const orr_replay_tensor *to = in_place ? orr_replay_in(c, 0) : orr_replay_out(c, 0);
    orr_value in;
    (void)op;
    NEED(x != NULL && to != NULL, err, "unknown shapes");
    ORR_TRY(orr_replay_flat_value(b, x, &in, err));
    const bool cast = is_float(x) && is_float(to) && x->type.dtype != to->type.dtype;
    const orr_op_args args = {.dtype = to->type.dtype};
    return orr_replay_apply(b, cast ? ORR_OP_CAST : ORR_OP_COPY, &args, &in, 1, &to, 1, NULL, err);
}

/* Sums over the dims that disappear, or all: rows or columns of a matrix. */
orr_status orr_replay_sum(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                          orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *to = orr_replay_out(c, 0);
    orr_value in;
    if (x != NULL && !is_float(x)) /* integers: read only */
        return orr_replay_unary(b, c, ORR_OP_SCALE, err);
    (void)op;
    NEED(x != NULL && x->type.rank > 0, err, "unknown shapes");
    const int64_t n = orr_type_elements(&x->type),
                  left = to != NULL ? orr_type_elements(&to->type) : 1;
    const double first = orr_replay_number(c, 1, 0, 0);
    const bool rows = left > 0 && first == 0 && left < n; /* the first dims are summed */
    const int64_t each = left > 0 ? n / left : n;
    const orr_type matrix = {
        .dtype = x->type.dtype, .rank = 2, .dim = {rows ? each : left, rows ? left : each}};
    ORR_TRY(orr_replay_value(b, x, &matrix, &in, err));
    const orr_op_args args = {.dim = rows ? 0 : 1};
    return orr_replay_apply(b, ORR_OP_SUM, &args, &in, 1, &to, 1, NULL, err);
}

orr_status orr_replay_dropout(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                              orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0),
                            *to[2] = {orr_replay_out(c, 0), orr_replay_out(c, 1)};
    orr_value in;
    (void)op;
    NEED(x != NULL && is_float(x), err, "unknown shapes");
    ORR_TRY(orr_replay_flat_value(b, x, &in, err));
    const double p = orr_replay_number(c, 1, 0, 0.1);
    const orr_op_args args = {.value = p > 0 && p < 1 ? p : 0.1};
    return orr_replay_apply(b, ORR_OP_DROPOUT, &args, &in, 1, to, 2, NULL, err);
}

/* The normalized rows, as long as the weight. */
static orr_status rows_of(orr_replay_builder *b, const orr_replay_tensor *x, int64_t columns,
                          orr_value *ret, orr_error *err)
{
    const int64_t n = orr_type_elements(&x->type);
    const orr_type type = {
        .dtype = x->type.dtype, .rank = 2, .dim = {columns > 0 ? n / columns : 0, columns}};
    NEED(columns > 0 && n % columns == 0, err, "unknown shapes");
    return orr_replay_value(b, x, &type, ret, err);
}

orr_status orr_replay_layer_norm(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                 orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *w = orr_replay_in(c, 2),
                            *bias = orr_replay_in(c, 3);
    const orr_replay_tensor *to = orr_replay_out(c, 0);
    orr_value in[3];
    uint32_t n = 1;
    NEED(x != NULL && is_float(x) && x->type.rank > 0, err, "unknown shapes");
    const int64_t columns = w != NULL ? orr_type_elements(&w->type) : x->type.dim[x->type.rank - 1];
    ORR_TRY(rows_of(b, x, columns, &in[0], err));
    if (w != NULL && is_float(w)) {
        const orr_type row = {.dtype = w->type.dtype, .rank = 1, .dim = {columns}};
        ORR_TRY(orr_replay_value(b, w, &row, &in[n++], err));
        if (op == ORR_OP_LAYER_NORM && bias != NULL && orr_type_elements(&bias->type) == columns)
            ORR_TRY(orr_replay_value(b, bias, &row, &in[n++], err));
    }
    const orr_op_args args = {.value = 1e-5};
    return orr_replay_apply(b, (orr_op)op, &args, in, n, &to, 1, NULL, err);
}

/* dy, x, shape, mean, deviation, weight, bias */
orr_status orr_replay_layer_norm_backward(orr_replay_builder *b, const orr_replay_call *c,
                                          uint8_t op, orr_error *err)
{
    const orr_replay_tensor *dy = orr_replay_in(c, 0), *x = orr_replay_in(c, 1),
                            *w = orr_replay_in(c, 5);
    const orr_replay_tensor *to[2] = {orr_replay_out(c, 0), orr_replay_out(c, 1)};
    orr_value in[5];
    NEED(dy != NULL && x != NULL && w != NULL && is_float(x) && is_float(w), err, "unknown shapes");
    const int64_t columns = orr_type_elements(&w->type);
    ORR_TRY(rows_of(b, dy, columns, &in[0], err));
    ORR_TRY(rows_of(b, x, columns, &in[1], err));
    const orr_type each = {
        .dtype = ORR_DTYPE_FP32, .rank = 1, .dim = {b->tape.values[in[1]].type.dim[0]}};
    const orr_type row = {.dtype = w->type.dtype, .rank = 1, .dim = {columns}};
    ORR_TRY(orr_replay_new_value(b, &each, &in[2], err));
    ORR_TRY(orr_replay_new_value(b, &each, &in[3], err));
    ORR_TRY(orr_replay_value(b, w, &row, &in[4], err));
    ORR_TRY(orr_replay_apply(b, (orr_op)op, NULL, in, 5, to, 2, NULL, err));
    const orr_replay_tensor *bias = orr_replay_out(c, 2);
    return orr_replay_apply(b, ORR_OP_SUM, &(orr_op_args){.dim = 0}, in, 1, &bias, 1, NULL, err);
}

orr_status orr_replay_batch_norm(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                 orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *to = orr_replay_out(c, 0);
    orr_value in[3];
    NEED(x != NULL && is_float(x) && x->type.rank >= 2, err, "unknown shapes");
    const orr_type row = {.dtype = x->type.dtype, .rank = 1, .dim = {x->type.dim[1]}};
    ORR_TRY(orr_replay_tensor_value(b, x, &in[0], err));
    ORR_TRY(orr_replay_new_value(b, &row, &in[1], err));
    ORR_TRY(orr_replay_new_value(b, &row, &in[2], err));
    return orr_replay_apply(b, (orr_op)op, &(orr_op_args){.value = 1e-5}, in, 3, &to, 1, NULL, err);
}

/* x and dy are the two tensors of four dims, in either order. */
orr_status orr_replay_batch_norm_backward(orr_replay_builder *b, const orr_replay_call *c,
                                          uint8_t op, orr_error *err)
{
    const orr_replay_tensor *dy = orr_replay_in(c, 0), *x = orr_replay_in(c, 1),
                            *to = orr_replay_out(c, 0);
    orr_value in[5];
    NEED(x != NULL && dy != NULL && is_float(x) && is_float(dy) && x->type.rank >= 2 &&
             orr_type_elements(&x->type) == orr_type_elements(&dy->type),
         err, "unknown shapes");
    const orr_type row = {.dtype = ORR_DTYPE_FP32, .rank = 1, .dim = {x->type.dim[1]}};
    const orr_type weight = {.dtype = x->type.dtype, .rank = 1, .dim = {x->type.dim[1]}};
    ORR_TRY(orr_replay_tensor_value(b, dy, &in[0], err));
    ORR_TRY(orr_replay_tensor_value(b, x, &in[1], err));
    ORR_TRY(orr_replay_new_value(b, &row, &in[2], err));
    ORR_TRY(orr_replay_new_value(b, &row, &in[3], err));
    ORR_TRY(orr_replay_new_value(b, &weight, &in[4], err));
    return orr_replay_apply(b, (orr_op)op, &(orr_op_args){.value = 1e-5}, in, 5, &to, 1, NULL, err);
}

orr_status orr_replay_softmax(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                              orr_error *err)
{
    const orr_replay_tensor *x = orr_replay_in(c, 0), *to = orr_replay_out(c, 0);
    orr_value in;
    NEED(x != NULL && is_float(x) && x->type.rank > 0, err, "unknown shapes");
    ORR_TRY(rows_of(b, x, x->type.dim[x->type.rank - 1], &in, err));
    return orr_replay_apply(b, (orr_op)op, NULL, &in, 1, &to, 1, NULL, err);
}

orr_status orr_replay_softmax_backward(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                                       orr_error *err)
{
    const orr_replay_tensor *dy = orr_replay_in(c, 0), *y = orr_replay_in(c, 1),
                            *to = orr_replay_out(c, 0);
    orr_value in[2];
    NEED(dy != NULL && y != NULL && is_float(y) && is_float(dy) && y->type.rank > 0, err,
         "unknown shapes");
    ORR_TRY(rows_of(b, dy, y->type.dim[y->type.rank - 1], &in[0], err));
    ORR_TRY(rows_of(b, y, y->type.dim[y->type.rank - 1], &in[1], err));
    return orr_replay_apply(b, (orr_op)op, NULL, in, 2, &to, 1, NULL, err);
}

/* Each tensor is copied to its place: the traffic of one concatenation. */
orr_status orr_replay_concat(orr_replay_builder *b, const orr_replay_call *c, uint8_t op,
                             orr_error *err)
{
    const orr_replay_tensor *out = orr_replay_out(c, 0);
    (void)op;
    NEED(c->n_in > 0 && c->in[0].n_tensors > 0 && out != NULL, err, "unknown shapes");
    orr_replay_tensor part = *out;
    const int64_t end = out->offset_bytes + orr_type_bytes(&out->type);
    for (uint32_t i = 0; i < c->in[0].n_tensors; i++) {
        const orr_replay_tensor *x = &c->in[0].tensors[i], *to = &part;
        orr_value in;
        ORR_TRY(orr_replay_flat_value(b, x, &in, err));
        ORR_TRY(orr_replay_apply(b, ORR_OP_COPY, NULL, &in, 1, &to, 1, NULL, err));
        const int64_t bytes = orr_type_bytes(&x->type);
        part.offset_bytes += part.offset_bytes + 2 * bytes <= end ? bytes : 0;
    }
    return ORR_OK;
}
