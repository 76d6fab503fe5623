/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_WORK_ARGUMENTS_H
#define ORR_COST_WORK_ARGUMENTS_H

#include <orrery/cost.h>

/* The arguments of an operator as a recording has them: shapes, types and values, each a list in
 * brackets, JSON or Python. Numbers are clamped so that no product of them overflows. */
enum { ORR_ARGUMENTS = 20, ORR_ARGUMENT_DIMS = 6 };

typedef struct orr_argument {
    uint32_t n_tensors; /* 0: a scalar, or nothing is known; 2 or more: a list of tensors */
    uint32_t n_dims;    /* of the tensor, or of the first of the list                     */
    int64_t dims[ORR_ARGUMENT_DIMS]; /* the last ones where it has more                  */
    int64_t elements; /* of all its tensors                                             */
    bool typed;       /* dtype is recorded                                              */
    uint8_t dtype;    /* orr_dtype                                                      */
} orr_argument;

typedef struct orr_arguments {
    uint32_t n;
    bool shaped; /* at least one is a tensor */
    orr_argument at[ORR_ARGUMENTS];
    const char *values; /* as recorded: "Concrete Inputs"; "" where there are none */
} orr_arguments;

/* What the recording says of the operator's inputs, or outputs. False: of no tensor a shape. */
bool orr_arguments_in(const orr_graph *graph, orr_node_id op, orr_arguments *ret);
bool orr_arguments_out(const orr_graph *graph, orr_node_id op, orr_arguments *ret);
/* Shapes and types from their text; `types` may be NULL. */
void orr_arguments_parse(const char *shapes, const char *types, orr_arguments *ret);

/* The tensor of that index, or NULL where the argument is none. */
static inline const orr_argument *orr_tensor_argument(const orr_arguments *all, uint32_t index)
{
    return index < all->n && all->at[index].n_tensors > 0 ? &all->at[index] : NULL;
}

/* Integers of the argument of that index among `values`: "[2, 2]" and "2". How many there are. */
uint32_t orr_values_ints(const char *values, uint32_t index, int64_t *ret, uint32_t room);
bool orr_values_true(const char *values, uint32_t index);

/* "float", "c10::BFloat16", "Tensor(c10::Half)" -> orr_dtype. False: no type of tensors. */
bool orr_dtype_of_text(const char *text, size_t len, uint8_t *ret);

/* a * b of numbers that are not negative, INT64_MAX / 64 at most. */
int64_t orr_saturating_mul(int64_t a, int64_t b);
static inline int64_t orr_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

#endif /* ORR_COST_WORK_ARGUMENTS_H */
