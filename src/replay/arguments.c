/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/arguments.h"

#include <stdlib.h>
#include <string.h>

/* Parses the recorded arguments of an operator from the four texts of a trace: values, shapes,
 * types, strides. */

/* A piece of text: an element of a list, with its brackets or quotes. */
typedef struct piece {
    const char *at;
    size_t n;
} piece;

static piece trimmed(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\n'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\n'))
        to--;
    return (piece){from, (size_t)(to - from)};
}

/* Elements of a list "[a, [b, c], 'd,e']" in JSON or Python, at most `most`; 0 if it is not a
 * list. */
static uint32_t split(piece list, piece *ret, uint32_t most)
{
    const char *at = list.at, *const end = list.at + list.n;
    uint32_t n = 0;
    if (list.n < 2 || (*at != '[' && *at != '('))
        return 0;
    const char *from = ++at;
    int depth = 0;
    char quote = 0;
    for (; at < end && n < most; at++) {
        const char c = *at;
        if (quote != 0) {
            quote = c == quote ? 0 : quote;
            at += c == '\\' && at + 1 < end;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '[' || c == '(') {
            depth++;
        } else if ((c == ']' || c == ')') && depth > 0) {
            depth--;
        } else if ((c == ',' || c == ']' || c == ')') && depth == 0) {
            const piece p = trimmed(from, at);
            if (p.n > 0)
                ret[n++] = p;
            from = at + 1;
            if (c != ',')
                break;
        }
    }
    return n;
}

static bool number_of(piece p, double *ret)
{
    char text[40], *end;
    if (p.n == 0 || p.n >= sizeof text)
        return false;
    memcpy(text, p.at, p.n);
    text[p.n] = '\0';
    if (strcmp(text, "true") == 0 || strcmp(text, "True") == 0)
        return *ret = 1, true;
    if (strcmp(text, "false") == 0 || strcmp(text, "False") == 0)
        return *ret = 0, true;
    *ret = strtod(text, &end);
    return end != text && *end == '\0';
}

static bool holds(piece p, const char *word)
{
    return memmem(p.at, p.n, word, strlen(word)) != NULL;
}

/* "Tensor(float)", "Tensor(c10::BFloat16)", or Kineto's "float". */
static bool dtype_of(piece p, uint8_t *ret)
{
    static const struct {
        const char *word;
        orr_dtype dtype;
    } words[] = {
        {"BFloat16", ORR_DTYPE_BF16}, {"Half", ORR_DTYPE_FP16},  {"double", ORR_DTYPE_FP64},
        {"float", ORR_DTYPE_FP32},    {"long", ORR_DTYPE_INT64}, {"int", ORR_DTYPE_INT32},
        {"char", ORR_DTYPE_INT8},     {"bool", ORR_DTYPE_INT8},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (holds(p, words[i].word)) {
            *ret = (uint8_t)words[i].dtype;
            return true;
        }
    return false;
}

/* A list of texts, one for each argument. */
typedef struct texts {
    piece at[ORR_REPLAY_ARGUMENTS];
    uint32_t n;
} texts;

static texts texts_of(const orr_graph *g, orr_node_id node, const char *name)
{
    texts t = {.n = 0};
    orr_attr attr;
    if (!orr_graph_find_attr(g, node, name, &attr) || attr.list ||
        (attr.kind != ORR_ATTR_JSON && attr.kind != ORR_ATTR_STRING))
        return t;
    const orr_str s = *(const orr_str *)attr.values;
    t.n = split((piece){orr_graph_str(g, s), orr_graph_str_len(g, s)}, t.at, ORR_REPLAY_ARGUMENTS);
    return t;
}
static piece text_at(const texts *t, uint32_t i)
{
    return i < t->n ? t->at[i] : (piece){"", 0};
}

static void set_dims(piece shape, piece strides, orr_replay_tensor *t)
{
    piece dim[ORR_TYPE_DIMS], step[ORR_TYPE_DIMS];
    const uint32_t n = split(shape, dim, ORR_TYPE_DIMS), m = split(strides, step, ORR_TYPE_DIMS);
    double number;
    int64_t all = 1;
    t->type.rank = (uint8_t)n;
    for (uint32_t d = 0; d < n; d++)
        t->type.dim[d] =
            number_of(dim[d], &number) && number >= 0 && number < 1e15 ? (int64_t)number : 0;
    for (uint32_t d = n; d-- > 0;) {
        t->stride[d] = all;
        if (__builtin_mul_overflow(all, t->type.dim[d] > 0 ? t->type.dim[d] : 1, &all))
            all = 1;
    }
    for (uint32_t d = 0; m == n && d < n; d++)
        if (number_of(step[d], &number))
            t->stride[d] = (int64_t)number;
}

/* [tensor, storage, offset in elements, elements, bytes per element, device] */
static void set_storage(piece value, orr_replay_tensor *t)
{
    piece part[6];
    double number[5] = {-1, -1, 0, 0, 0};
    const uint32_t n = split(value, part, 6);
    for (uint32_t i = 0; i < n && i < 5; i++)
        if (!number_of(part[i], &number[i]))
            number[i] = i < 2 ? -1 : 0;
    t->id = n >= 5 ? (int64_t)number[0] : -1;
    t->storage = n >= 5 && number[1] > 0 ? (int64_t)number[1] : -1;
    t->offset_bytes = n >= 5 ? (int64_t)(number[2] * number[4]) : 0;
}

static bool set_tensor(piece type, piece shape, piece strides, piece value, orr_replay_tensor *t)
{
    *t = (orr_replay_tensor){0};
    if (!dtype_of(type, &t->type.dtype) || holds(type, "nullptr"))
        return false;
    set_dims(shape, strides, t);
    set_storage(value, t);
    return orr_type_bytes(&t->type) >= 0;
}

enum { LIST_TENSORS = 512 };

/* GenericList[Tensor(float),Tensor(float)]: parallel lists in all four texts. */
static orr_status set_tensors(piece type, piece shapes, piece strides, piece values,
                              orr_arena *arena, orr_replay_argument *ret, orr_error *err)
{
    piece shape[LIST_TENSORS], stride[LIST_TENSORS], value[LIST_TENSORS];
    const uint32_t n = split(shapes, shape, LIST_TENSORS), m = split(strides, stride, LIST_TENSORS),
                   k = split(values, value, LIST_TENSORS);
    orr_replay_tensor *t = orr_arena_array(arena, orr_replay_tensor, n);
    if (t == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        ret->n_tensors += set_tensor(type, shape[i], i < m ? stride[i] : (piece){"", 0},
                                     i < k ? value[i] : (piece){"", 0}, &t[ret->n_tensors]);
    ret->tensors = t;
    return ORR_OK;
}

static void set_numbers(piece value, orr_replay_argument *ret)
{
    piece part[ORR_REPLAY_NUMBERS];
    const uint32_t n = split(value, part, ORR_REPLAY_NUMBERS);
    if (number_of(value, &ret->number[0])) {
        ret->n_numbers = 1;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (number_of(part[i], &ret->number[ret->n_numbers]))
            ret->n_numbers++;
}

static bool is_kineto_tensor(piece type, piece shape)
{
    return shape.n > 2 && !holds(type, "Scalar") && !holds(type, "GenericList");
}

static orr_status read_argument(const texts all[4], uint32_t i, orr_arena *arena,
                                orr_replay_argument *ret, orr_error *err)
{
    const piece value = text_at(&all[0], i), shape = text_at(&all[1], i),
                type = text_at(&all[2], i), stride = text_at(&all[3], i);
    *ret = (orr_replay_argument){0};
    if (holds(type, "GenericList[Tensor") || holds(type, "TensorList"))
        return set_tensors(type, shape, stride, value, arena, ret, err);
    if (!holds(type, "Tensor") && !is_kineto_tensor(type, shape)) {
        set_numbers(value, ret);
        return ORR_OK;
    }
    orr_replay_tensor *t = orr_arena_one(arena, orr_replay_tensor);
    if (t == NULL)
        return orr_fail_memory(err);
    ret->n_tensors = set_tensor(type, shape, stride, value, t);
    ret->tensors = t;
    return ORR_OK;
}

static orr_status read_side(const orr_graph *g, orr_node_id node, const char *const names[4],
                            orr_arena *arena, orr_replay_argument *ret, uint32_t *ret_n,
                            orr_error *err)
{
    texts all[4];
    for (int k = 0; k < 4; k++)
        all[k] = texts_of(g, node, names[k]);
    *ret_n = all[2].n > all[1].n ? all[2].n : all[1].n;
    for (uint32_t i = 0; i < *ret_n; i++)
        ORR_TRY(read_argument(all, i, arena, &ret[i], err));
    return ORR_OK;
}

orr_status orr_replay_call_read(const orr_graph *g, orr_node_id node, orr_arena *arena,
                                orr_replay_call *ret, bool *ret_known, orr_error *err)
{
    static const char *const ins[] = {"inputs.values", "inputs.shapes", "inputs.types",
                                      "inputs.strides"};
    static const char *const outs[] = {"outputs.values", "outputs.shapes", "outputs.types",
                                       "outputs.strides"};
    static const char *const kineto[] = {"Concrete Inputs", "Input Dims", "Input type",
                                         "Input Strides"};
    *ret = (orr_replay_call){.node = node, .name = orr_graph_str(g, g->name[node])};
    ORR_TRY(read_side(g, node, ins, arena, ret->in, &ret->n_in, err));
    if (ret->n_in == 0)
        ORR_TRY(read_side(g, node, kineto, arena, ret->in, &ret->n_in, err));
    ORR_TRY(read_side(g, node, outs, arena, ret->out, &ret->n_out, err));
    *ret_known = ret->n_in > 0 || ret->n_out > 0;
    return ORR_OK;
}
