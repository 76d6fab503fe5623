/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/record/recorder_state.h"
#include "trace/common/attr_names.h"

/* Attributes of a recorded call: its tensors in the JSON of PyTorch's execution traces; the
 * operator's name here and in PyTorch; and its arguments, so that a replay of the recording has
 * everything that the kernel had. */

/* A text buffer of fixed size: what does not fit is dropped, and `n` counts on. */
typedef struct line {
    char text[4096];
    size_t n;
} line;

ORR_PRINTF(2, 3) static void put(line *l, const char *format, ...)
{
    const size_t left = l->n < sizeof l->text ? sizeof l->text - l->n : 0;
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(l->text + (left > 0 ? l->n : 0), left, format, list);
    va_end(list);
    l->n += n > 0 ? (size_t)n : 0;
}

const char *orr_recorded_dtype(uint8_t dtype)
{
    static const char *const names[ORR_DTYPES] = {
        [ORR_DTYPE_FP64] = "double",
        [ORR_DTYPE_FP32] = "float",
        [ORR_DTYPE_TF32] = "float",
        [ORR_DTYPE_FP16] = "c10::Half",
        [ORR_DTYPE_BF16] = "c10::BFloat16",
        [ORR_DTYPE_FP8] = "c10::Float8_e4m3fn",
        [ORR_DTYPE_FP4] = "fp4",
        [ORR_DTYPE_INT8] = "signed char",
        [ORR_DTYPE_INT32] = "int",
        [ORR_DTYPE_INT64] = "long int",
    };
    return names[dtype];
}

static void put_numbers(line *l, const int64_t *numbers, uint32_t n)
{
    put(l, "[");
    for (uint32_t i = 0; i < n; i++)
        put(l, "%s%lld", i > 0 ? ", " : "", (long long)numbers[i]);
    put(l, "]");
}

/* [tensor id, storage id, offset, elements, bytes per element, device] */
static void put_tensor(line *l, const orr_program *p, orr_value v)
{
    const orr_value_location *place = &p->places[v];
    const orr_type *type = &p->tape->values[v].type;
    put(l, "[%u, %u, %lld, %lld, %lld, \"%s\"]", v + 1, place->root + 1,
        (long long)place->offset_bytes, (long long)orr_type_elements(type),
        (long long)((orr_element_bits(type->dtype) + 7) / 8), p->device ? "cuda:0" : "cpu");
}

typedef enum told { VALUES, SHAPES, TYPES, STRIDES, N_TOLD } told;

static void put_told(line *l, const orr_program *p, orr_value v, told what)
{
    const orr_type *type = &p->tape->values[v].type;
    switch (what) {
    case VALUES:
        put_tensor(l, p, v);
        break;
    case SHAPES:
        put_numbers(l, type->dim, type->rank);
        break;
    case TYPES:
        put(l, "\"Tensor(%s)\"", orr_recorded_dtype(type->dtype));
        break;
    default:
        put_numbers(l, p->places[v].stride, type->rank);
        break;
    }
}

static void put_all(line *l, const orr_program *p, const orr_value *values, uint32_t n, told what)
{
    put(l, "[");
    for (uint32_t k = 0; k < n; k++) {
        put(l, "%s", k > 0 ? ", " : "");
        if (values[k] != ORR_NONE)
            put_told(l, p, values[k], what);
        else
            put(l, "%s", what == TYPES ? "\"None\"" : "[]");
    }
    put(l, "]");
}

static void put_bool(line *l, const char *name, bool value)
{
    if (value)
        put(l, "%s\"%s\": true", l->n > 1 ? ", " : "", name);
}
static void put_int(line *l, const char *name, int64_t value)
{
    if (value != 0)
        put(l, "%s\"%s\": %lld", l->n > 1 ? ", " : "", name, (long long)value);
}
static void put_real(line *l, const char *name, double value)
{
    if (value != 0)
        put(l, "%s\"%s\": %.17g", l->n > 1 ? ", " : "", name, value);
}

/* All arguments that are not 0, by their names in orr_op_args. */
static void put_args(line *l, const orr_op_args *a)
{
    put(l, "{");
    put_bool(l, "transpose_a", a->transpose_a);
    put_bool(l, "transpose_b", a->transpose_b);
    put_int(l, "mask", a->mask);
    put_bool(l, "flash", a->flash);
    put_bool(l, "frozen", a->frozen);
    put_int(l, "window", a->window);
    put_int(l, "offset", a->offset);
    put_int(l, "dim", a->dim);
    put_int(l, "to_dim", a->to_dim);
    put_int(l, "begin", a->begin);
    put_int(l, "count", a->count);
    if (a->shape != NULL) {
        put(l, "%s\"shape\": ", l->n > 1 ? ", " : "");
        put_numbers(l, a->shape->dim, a->shape->rank);
        put_int(l, "shape_dtype", a->shape->dtype);
    }
    put_int(l, "dtype", a->dtype);
    put_int(l, "op", a->op);
    put_int(l, "axis", a->axis);
    put_int(l, "members", a->members);
    put_bool(l, "overlap", a->overlap);
    put_int(l, "slices", a->slices);
    put_int(l, "top_k", a->top_k);
    put_int(l, "experts", a->experts);
    put_int(l, "stride", a->stride);
    put_int(l, "padding", a->padding);
    put_int(l, "size", a->size);
    put_bool(l, "tanh", a->tanh);
    put_bool(l, "interleaved", a->interleaved);
    put_real(l, "stretch", (double)a->stretch);
    put_real(l, "low", (double)a->low);
    put_real(l, "high", (double)a->high);
    put_int(l, "context", a->context);
    put_real(l, "value", a->value);
    put(l, "}");
}

/* Attributes of a node while they are collected. */
enum { ATTRS = 2 * N_TOLD + 8 };
typedef struct gathered {
    orr_graph_builder *b;
    orr_attr attrs[ATTRS];
    orr_str texts[ATTRS];
    int64_t number;
    uint32_t n;
} gathered;

static orr_status name_attr(gathered *g, const char *name, orr_attr_kind kind, const void *values,
                            orr_error *err)
{
    orr_attr *attr = &g->attrs[g->n++];
    *attr = (orr_attr){.kind = (uint8_t)kind, .count = 1, .values = values};
    return orr_builder_str(g->b, name, strlen(name), &attr->name, err);
}

static orr_status add_text(gathered *g, const char *name, orr_attr_kind kind, const char *text,
                           orr_error *err)
{
    orr_str *s = &g->texts[g->n];
    ORR_TRY(orr_builder_str(g->b, text, strlen(text), s, err));
    return name_attr(g, name, kind, s, err);
}

static orr_status add_told(gathered *g, const orr_program *p, const orr_value *values, uint32_t n,
                           const char *const names[N_TOLD], orr_error *err)
{
    for (told what = VALUES; what < N_TOLD; what++) {
        line l = {.n = 0};
        put_all(&l, p, values, n, what);
        if (l.n < sizeof l.text)
            ORR_TRY(add_text(g, names[what], ORR_ATTR_JSON, l.text, err));
    }
    return ORR_OK;
}

static orr_status add_operator(gathered *g, const orr_program *p, uint32_t call, orr_error *err)
{
    const orr_tape_call *of = &p->tape->calls[call];
    const orr_op_row *row = orr_op_of((orr_op)of->op);
    line args = {.n = 0};
    put_args(&args, &of->args);
    g->number = p->calls[call].tag;
    ORR_TRY(add_text(g, "op", ORR_ATTR_STRING, row->name, err));
    if (row->pytorch != NULL && row->pytorch[0] != NULL)
        ORR_TRY(add_text(g, "pytorch", ORR_ATTR_STRING, row->pytorch[0], err));
    ORR_TRY(add_text(g, "pass", ORR_ATTR_STRING, orr_pass_name((orr_pass)of->pass), err));
    ORR_TRY(add_text(g, "args", ORR_ATTR_JSON, args.text, err));
    return name_attr(g, "tag", ORR_ATTR_INT64, &g->number, err);
}

orr_status orr_recorder_attrs(orr_graph_builder *b, orr_node_id node, const orr_program *p,
                              uint32_t call, orr_error *err)
{
    static const char *const in[N_TOLD] = {ORR_NAME_INPUT_VALUES, ORR_NAME_INPUT_SHAPES,
                                           ORR_NAME_INPUT_TYPES, ORR_NAME_INPUT_STRIDES};
    static const char *const out[N_TOLD] = {ORR_NAME_OUTPUT_VALUES, ORR_NAME_OUTPUT_SHAPES,
                                            ORR_NAME_OUTPUT_TYPES, ORR_NAME_OUTPUT_STRIDES};
    const orr_tape_call *of = &p->tape->calls[call];
    gathered g = {.b = b};
    ORR_TRY(add_operator(&g, p, call, err));
    ORR_TRY(add_told(&g, p, of->in, of->n_in, in, err));
    ORR_TRY(add_told(&g, p, of->out, of->n_out, out, err));
    return orr_builder_attrs(b, node, g.attrs, g.n, err);
}
