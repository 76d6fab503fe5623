/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/native.h"

#include <stdlib.h>
#include <string.h>

/* Recordings of our own engine: rebuilds the operators of the table with their recorded
 * arguments. */

#define OWN_(name, text, family) [ORR_OP_##name] = {text, ORR_REPLAY_KERNEL, ORR_OP_##name, NULL},
static const orr_replay_rule kernels[ORR_OPS] = {ORR_OP_MAP(OWN_)};
#undef OWN_
#define OWN_(name, text, family)                                                                   \
    [ORR_OP_##name] = {text, ORR_REPLAY_COLLECTIVE, ORR_OP_##name, NULL},
static const orr_replay_rule collectives[ORR_OPS] = {ORR_OP_MAP(OWN_)};
#undef OWN_
static const orr_replay_rule view = {"view", ORR_REPLAY_VIEW, ORR_OP_VIEW, NULL};

static const char *text_attr(const orr_graph *g, orr_node_id node, const char *name)
{
    orr_attr attr;
    if (!orr_graph_find_attr(g, node, name, &attr) || attr.list ||
        (attr.kind != ORR_ATTR_STRING && attr.kind != ORR_ATTR_JSON))
        return NULL;
    return orr_graph_str(g, *(const orr_str *)attr.values);
}

const orr_replay_rule *orr_replay_native_rule(const orr_graph *g, orr_node_id node)
{
    const char *name = text_attr(g, node, "op");
    const orr_op_row *row =
        name != NULL && text_attr(g, node, "args") != NULL ? orr_op_find(name) : NULL;
    if (row == NULL || strcmp(row->name, name) != 0)
        return NULL;
    if (row->shares && row->op != ORR_OP_CACHE)
        return &view;
    return row->family == ORR_OP_FAMILY_COLLECTIVE ? &collectives[row->op] : &kernels[row->op];
}

/* The value of "name": in a flat JSON object; NULL: not there. */
static const char *find(const char *args, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strchr(args, '"'); at != NULL; at = strchr(at, '"')) {
        at++;
        if (strncmp(at, name, n) == 0 && at[n] == '"') {
            at += n + 1;
            while (*at == ':' || *at == ' ')
                at++;
            return at;
        }
        at = strchr(at, '"');
        if (at == NULL)
            break;
        at++;
    }
    return NULL;
}
static double real(const char *args, const char *name)
{
    const char *at = find(args, name);
    return at != NULL ? strtod(at, NULL) : 0;
}
static int64_t whole(const char *args, const char *name)
{
    const char *at = find(args, name);
    return at != NULL ? strtoll(at, NULL, 10) : 0;
}
static bool flag(const char *args, const char *name)
{
    const char *at = find(args, name);
    return at != NULL && strncmp(at, "true", 4) == 0;
}

static void read_shape(const char *args, orr_type *shape)
{
    const char *at = find(args, "shape");
    *shape = (orr_type){.dtype = (uint8_t)whole(args, "shape_dtype")};
    if (shape->dtype >= ORR_DTYPES)
        shape->dtype = ORR_DTYPE_FP32;
    while (at != NULL && *at != ']' && *at != '\0' && shape->rank < ORR_TYPE_DIMS) {
        char *end;
        const long long n = strtoll(at + 1, &end, 10);
        if (end == at + 1)
            break;
        shape->dim[shape->rank++] = n;
        at = end;
    }
}

static orr_op_args read_args(const char *args, orr_type *shape)
{
    read_shape(args, shape);
    return (orr_op_args){
        .transpose_a = flag(args, "transpose_a"),
        .transpose_b = flag(args, "transpose_b"),
        .mask = (uint8_t)whole(args, "mask"),
        .flash = flag(args, "flash"),
        .frozen = flag(args, "frozen"),
        .window = whole(args, "window"),
        .offset = whole(args, "offset"),
        .dim = (int32_t)whole(args, "dim"),
        .to_dim = (int32_t)whole(args, "to_dim"),
        .begin = whole(args, "begin"),
        .count = whole(args, "count"),
        .shape = shape->rank > 0 ? shape : NULL,
        .dtype = (uint8_t)whole(args, "dtype"),
        .op = (uint8_t)whole(args, "op"),
        .axis = (uint8_t)whole(args, "axis"),
        .members = (uint32_t)whole(args, "members"),
        .overlap = flag(args, "overlap"),
        .slices = (uint16_t)whole(args, "slices"),
        .top_k = whole(args, "top_k"),
        .experts = whole(args, "experts"),
        .stride = (uint32_t)whole(args, "stride"),
        .padding = (uint32_t)whole(args, "padding"),
        .size = (uint32_t)whole(args, "size"),
        .interleaved = flag(args, "interleaved"),
        .tanh = flag(args, "tanh"),
        .stretch = (float)real(args, "stretch"),
        .low = (float)real(args, "low"),
        .high = (float)real(args, "high"),
        .context = whole(args, "context"),
        .value = real(args, "value"),
    };
}

/* Upper bound of indices that the recording did not compute: the size of what they index. */
static int64_t limit_of(const orr_replay_call *c, orr_op op, const orr_op_args *args)
{
    const orr_replay_tensor *first = orr_replay_in(c, 0);
    switch (op) {
    case ORR_OP_EMBEDDING:
    case ORR_OP_EMBEDDING_BAG:
    case ORR_OP_ROWWISE_ADAGRAD:
        return args->count > 0 && op == ORR_OP_EMBEDDING ? args->count : first->type.dim[0];
    case ORR_OP_CROSS_ENTROPY:
    case ORR_OP_CROSS_ENTROPY_BACKWARD:
        return first->type.rank > 0 ? first->type.dim[first->type.rank - 1] : 1;
    case ORR_OP_EMBEDDING_BACKWARD:
        return args->count;
    default:
        return args->experts > 0 ? args->experts : 1;
    }
}

static bool is_index(uint8_t dtype)
{
    return dtype == ORR_DTYPE_INT32 || dtype == ORR_DTYPE_INT64;
}

static orr_status input(orr_replay_builder *b, const orr_replay_call *c, uint32_t i, orr_op op,
                        const orr_op_args *args, orr_value *ret, orr_error *err)
{
    const orr_replay_tensor *t = orr_replay_in(c, i);
    if (t == NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "unknown shapes");
    if (!is_index(t->type.dtype) || orr_replay_is_written(b, t))
        return orr_replay_value(b, t, &t->type, ret, err);
    return orr_replay_random_index_value(b, &t->type, limit_of(c, op, args), false, ret, err);
}

orr_status orr_replay_native_build(orr_replay_builder *b, const orr_graph *g,
                                   const orr_replay_call *c, orr_op op, orr_error *err)
{
    const char *text = text_attr(g, c->node, "args");
    const orr_replay_tensor *to[ORR_CALL_OUT];
    orr_value in[ORR_CALL_IN], out[ORR_CALL_OUT];
    orr_type shape;
    const orr_op_args args = read_args(text != NULL ? text : "", &shape);
    const bool meets = orr_op_of(op)->family == ORR_OP_FAMILY_COLLECTIVE;
    if (c->n_in > ORR_CALL_IN || c->n_out > ORR_CALL_OUT || op >= ORR_OPS || args.op >= ORR_OPS ||
        args.dtype >= ORR_DTYPES)
        return orr_fail(err, ORR_UNSUPPORTED, "unknown arguments");
    if (meets && args.members != b->ranks)
        return orr_fail(err, ORR_UNSUPPORTED, "a group of %u of the ranks", args.members);
    orr_op_args with = args;
    if (meets) /* the only group there is */
        with.axis = ORR_AXIS_DP;
    for (uint32_t i = 0; i < c->n_in; i++)
        ORR_TRY(input(b, c, i, op, &args, &in[i], err));
    for (uint32_t i = 0; i < c->n_out; i++)
        to[i] = orr_replay_out(c, i);
    ORR_TRY(orr_replay_apply(b, op, &with, in, c->n_in, to, c->n_out, out, err));
    /* Gradients of 16-bit products are accumulated in fp32. */
    const orr_tape_call *call = &b->tape.calls[b->tape.n_calls - 1];
    if ((op == ORR_OP_MATMUL || op == ORR_OP_GROUPED_MATMUL) && call->n_out > 0 && to[0] != NULL &&
        to[0]->type.dtype == ORR_DTYPE_FP32)
        b->tape.values[out[0]].type.dtype = ORR_DTYPE_FP32;
    return ORR_OK;
}
