/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_KERNEL_WORK_ARGUMENTS_H
#define ORR_COST_KERNEL_WORK_ARGUMENTS_H

#include <orrery/cost.h>

/* Arguments of a recorded operator: shapes, types and values, each a bracketed list in JSON or
 * Python syntax. Numbers are clamped so that no product of them overflows. */
enum { ORR_ARGUMENTS = 20, ORR_ARGUMENT_DIMS = 6 };

typedef struct orr_argument {
    uint32_t n_tensors;              /* 0: a scalar, or unknown; 2 or more: a list of tensors */
    uint32_t n_dims;                 /* of the tensor, or of the first one of the list */
    int64_t dims[ORR_ARGUMENT_DIMS]; /* the last ones, if it has more */
    int64_t elements;                /* of all tensors */
    bool typed;                      /* dtype was recorded */
    uint8_t dtype; /* orr_dtype                                                      */
} orr_argument;

typedef struct orr_arguments {
    uint32_t n;
    bool shaped; /* at least one argument is a tensor */
    orr_argument at[ORR_ARGUMENTS];
    const char *values; /* as recorded: "Concrete Inputs"; "" if there are none */
} orr_arguments;

/* Arguments of an operator: its inputs, or its outputs. False: no tensor has a recorded shape. */
bool orr_arguments_in(const orr_graph *graph, orr_node_id op, orr_arguments *ret);
bool orr_arguments_out(const orr_graph *graph, orr_node_id op, orr_arguments *ret);
/* Parses shapes and types; `types` may be NULL. */
void orr_arguments_parse(const char *shapes, const char *types, orr_arguments *ret);

/* The tensor with an index, or NULL if that argument is none. */
static inline const orr_argument *orr_tensor_argument(const orr_arguments *all, uint32_t index)
{
    return index < all->n && all->at[index].n_tensors > 0 ? &all->at[index] : NULL;
}

/* Integers of the argument with an index among `values`: "[2, 2]" and "2". Returns how many. */
uint32_t orr_values_ints(const char *values, uint32_t index, int64_t *ret, uint32_t room);
bool orr_values_true(const char *values, uint32_t index);

/* a * b for numbers >= 0, INT64_MAX / 64 at most. */
int64_t orr_saturating_mul(int64_t a, int64_t b);
static inline int64_t orr_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

#endif /* ORR_COST_KERNEL_WORK_ARGUMENTS_H */
