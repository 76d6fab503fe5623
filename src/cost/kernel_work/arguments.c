/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/kernel_work/arguments.h"

#include <string.h>

/* Limit of a number: far above any tensor, and sums over a list of arguments still fit. */
#define MOST (INT64_MAX / 64)

int64_t orr_saturating_mul(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > MOST ? MOST : product;
}

static int64_t plus(int64_t a, int64_t b)
{
    return a > MOST - b ? MOST : a + b;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t read_number(const char **at)
{
    int64_t n = 0;
    for (; is_digit(**at); ++*at)
        n = plus(orr_saturating_mul(n, 10), **at - '0');
    return n;
}

static void add_dim(orr_argument *a, int64_t n)
{
    if (a->n_dims == ORR_ARGUMENT_DIMS) {
        memmove(a->dims, a->dims + 1, (ORR_ARGUMENT_DIMS - 1) * sizeof *a->dims);
        a->n_dims--;
    }
    a->dims[a->n_dims++] = n;
}

/* Reads one argument, from after its opening bracket to after the closing one. A list of numbers
 * is a tensor, a list of such lists several tensors; an empty list is a scalar. */
static const char *read_argument(const char *at, orr_argument *a)
{
    int depth = 1;
    int64_t product = 1;
    bool open = false; /* the innermost list contains numbers */
    while (*at != '\0' && depth > 0) {
        if (is_digit(*at)) {
            const int64_t n = read_number(&at);
            product = orr_saturating_mul(product, n);
            open = true;
            if (a->n_tensors == 0)
                add_dim(a, n);
            continue;
        }
        if (*at == '[' || *at == '(') {
            depth++;
        } else if (*at == ']' || *at == ')') {
            depth--;
            if (open) {
                a->n_tensors++;
                a->elements = plus(a->elements, product);
            }
            product = 1;
            open = false;
        }
        at++;
    }
    return at;
}

static void parse_shapes(const char *at, orr_arguments *ret)
{
    at = strchr(at, '[');
    if (at == NULL)
        return;
    for (at++; *at != '\0' && *at != ']';) {
        if (*at != '[' && *at != '(') {
            at++;
            continue;
        }
        orr_argument a = {0};
        at = read_argument(at + 1, &a);
        ret->shaped |= a.n_tensors > 0;
        if (ret->n < ORR_ARGUMENTS)
            ret->at[ret->n++] = a;
    }
}

static bool dtype_of_text(const char *text, size_t len, uint8_t *ret)
{
    /* Names of types. The first that occurs decides: "double" before "float", "BFloat16" before
     * "float". */
    static const struct {
        const char *part;
        orr_dtype dtype;
    } TYPES[] = {
        {"double", ORR_DTYPE_FP64}, {"BFloat16", ORR_DTYPE_BF16}, {"bfloat16", ORR_DTYPE_BF16},
        {"Half", ORR_DTYPE_FP16},   {"half", ORR_DTYPE_FP16},     {"Float8", ORR_DTYPE_FP8},
        {"float8", ORR_DTYPE_FP8},  {"float16", ORR_DTYPE_FP16},  {"float", ORR_DTYPE_FP32},
        {"Float", ORR_DTYPE_FP32},  {"long", ORR_DTYPE_INT64},    {"int64", ORR_DTYPE_INT64},
        {"char", ORR_DTYPE_INT8},   {"bool", ORR_DTYPE_INT8},     {"int8", ORR_DTYPE_INT8},
        {"int", ORR_DTYPE_INT32},
    };
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (memmem(text, len, TYPES[i].part, strlen(TYPES[i].part)) != NULL) {
            *ret = (uint8_t)TYPES[i].dtype;
            return true;
        }
    return false;
}

/* The quoted text at or after *at; NULL: no more. */
static const char *next_quoted(const char **at, size_t *ret_len)
{
    const char *open = *at + strcspn(*at, "\"'");
    if (*open == '\0')
        return NULL;
    const char *close = strchr(open + 1, *open);
    if (close == NULL)
        return NULL;
    *at = close + 1;
    *ret_len = (size_t)(close - open - 1);
    return open + 1;
}

static void parse_types(const char *types, orr_arguments *ret)
{
    size_t len;
    const char *text;
    for (uint32_t i = 0; i < ret->n && (text = next_quoted(&types, &len)) != NULL; i++)
        ret->at[i].typed = dtype_of_text(text, len, &ret->at[i].dtype);
}

void orr_arguments_parse(const char *shapes, const char *types, orr_arguments *ret)
{
    *ret = (orr_arguments){.values = ""};
    parse_shapes(shapes, ret);
    if (types != NULL)
        parse_types(types, ret);
}

static const char *attr_text(const orr_graph *graph, orr_node_id op, const char *name)
{
    orr_attr attr;
    if (name == NULL || !orr_graph_find_attr(graph, op, name, &attr) || attr.count != 1 ||
        (attr.kind != ORR_ATTR_JSON && attr.kind != ORR_ATTR_STRING))
        return NULL;
    return orr_graph_str(graph, *(const orr_str *)attr.values);
}

/* Attribute names of shapes, types and values in one recording format. */
typedef struct io_names {
    const char *shapes, *types, *values;
} io_names;

/* Reads the first of these formats that has shapes. An operator of a linked recording has the
 * attributes of two, and only a host trace has the tensors of a list. */
static bool recorded(const orr_graph *graph, orr_node_id op, const io_names *names, size_t n,
                     orr_arguments *ret)
{
    for (size_t i = 0; i < n; i++) {
        const char *shapes = attr_text(graph, op, names[i].shapes);
        if (shapes == NULL)
            continue;
        orr_arguments_parse(shapes, attr_text(graph, op, names[i].types), ret);
        const char *values = attr_text(graph, op, names[i].values);
        if (values != NULL)
            ret->values = values;
        if (ret->shaped)
            return true;
    }
    return false;
}

bool orr_arguments_in(const orr_graph *graph, orr_node_id op, orr_arguments *ret)
{
    static const io_names NAMES[] = {{"inputs.shapes", "inputs.types", "inputs.values"},
                                     {"Input Dims", "Input type", "Concrete Inputs"},
                                     {"Input dims", "Input type", NULL}}; /* in 2020 */
    return recorded(graph, op, NAMES, sizeof NAMES / sizeof *NAMES, ret);
}

bool orr_arguments_out(const orr_graph *graph, orr_node_id op, orr_arguments *ret)
{
    static const io_names NAMES[] = {{"outputs.shapes", "outputs.types", "outputs.values"}};
    return recorded(graph, op, NAMES, 1, ret);
}

/* Start of the argument with an index in a list; nested lists count as one argument. */
static const char *value_at(const char *values, uint32_t index)
{
    int depth = 0;
    char quote = '\0';
    for (const char *at = values; *at != '\0'; at++) {
        if (quote != '\0') {
            if (*at == quote)
                quote = '\0';
            continue;
        }
        if (depth == 1 && index == 0 && strchr(" \t\r\n,", *at) == NULL)
            return *at == ']' ? NULL : at;
        if (*at == '"' || *at == '\'')
            quote = *at;
        else if (*at == '[' || *at == '(')
            depth++;
        else if (*at == ']' || *at == ')')
            depth--;
        else if (*at == ',' && depth == 1)
            index--;
    }
    return NULL;
}

uint32_t orr_values_ints(const char *values, uint32_t index, int64_t *ret, uint32_t room)
{
    const char *at = value_at(values, index);
    if (at == NULL)
        return 0;
    const char quote = *at == '"' || *at == '\'' ? *at++ : ',';
    const char stops[] = {quote, ']', '\0'};
    const char *end = at + strcspn(at, *at == '[' ? "]" : stops);
    uint32_t n = 0;
    while (at < end && n < room) {
        const bool negative = *at == '-';
        if (negative)
            at++;
        if (!is_digit(*at)) {
            at++;
            continue;
        }
        const int64_t value = read_number(&at);
        ret[n++] = negative ? -value : value;
        if (*at == '.') /* not an integer: skip the fraction */
            at += 1 + strspn(at + 1, "0123456789e-");
    }
    return n;
}

bool orr_values_true(const char *values, uint32_t index)
{
    const char *at = value_at(values, index);
    if (at == NULL)
        return false;
    at += *at == '"' || *at == '\'';
    return strncmp(at, "True", 4) == 0 || strncmp(at, "true", 4) == 0;
}
