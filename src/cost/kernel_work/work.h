/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_KERNEL_WORK_WORK_H
#define ORR_COST_KERNEL_WORK_WORK_H

#include <orrery/cost.h>

#include "cost/kernel_work/arguments.h"

/* From names and shapes to work. An operator's name leads to a rule: its family, how its
 * arguments are read, and FLOPs for each element. A kernel's name also gives a family, and
 * whether the kernel is only a helper (sets a buffer, changes a layout, sums up split products). */
typedef struct orr_op_rule {
    const char *name; /* without "aten::" and the "_" of the in-place form; a final '*': prefix */
    uint8_t family;
    bool backward;
    double flops; /* for each element, where the family counts by elements */
    /* Reads dims, dtype and bytes. False: the shapes do not suffice. May be NULL. */
    bool (*read)(const orr_arguments *in, const orr_arguments *out, orr_work *work);
} orr_op_rule;

/* NULL: an unknown operator. */
const orr_op_rule *orr_op_rule_of(const char *op);

/* Family by a kernel's name. ORR_FAMILIES: the name says nothing. */
#define ORR_FAMILY_HELPER (ORR_FAMILIES + 1)
unsigned orr_kernel_family_by_name(const char *kernel);

/* Operators in a graph, ORR_NONE where there is none: */
const orr_op_rule *orr_work_rule(const orr_graph *graph, orr_node_id op); /* NULL too */
/* The innermost operator around the launch of `node`; a host operator is its own. */
orr_node_id orr_work_operator(const orr_graph *graph, orr_node_id node, unsigned kernel_family);
/* The forward operator of a backward one, if the same reader reads it. */
orr_node_id orr_work_forward(const orr_graph *graph, orr_node_id op, const orr_op_rule *rule);
/* The outermost operator around `op` that its rule covers. */
orr_node_id orr_work_outermost_operator(const orr_graph *graph, orr_node_id op,
                                        const orr_op_rule *rule);

/* Readers of arguments, by their position in PyTorch's native_functions.yaml. */
bool orr_read_mm(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_addmm(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_linear(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_convolution(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_convolution_backward(const orr_arguments *in, const orr_arguments *out,
                                   orr_work *work);
bool orr_read_cudnn_backward(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_attention(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_attention_backward(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_flash(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_flash_backward(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_embedding(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_embedding_bag(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_index_select(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_split_lookup(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_index(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_channels(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_rows(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_layer_norm(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_layer_norm_backward(const orr_arguments *in, const orr_arguments *out,
                                  orr_work *work);
bool orr_read_concat(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_copy(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_fill(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_reduction(const orr_arguments *in, const orr_arguments *out, orr_work *work);
bool orr_read_lists(const orr_arguments *in, const orr_arguments *out, orr_work *work);
/* Any operator: each tensor read once, the largest written. */
bool orr_read_elements(const orr_arguments *in, const orr_arguments *out, orr_work *work);

static inline void orr_work_set_dims(orr_work *work, uint8_t n, const int64_t *dims)
{
    work->n_dims = n;
    for (uint8_t i = 0; i < n; i++)
        work->dims[i] = dims[i] < 1 ? 1 : dims[i];
}
#define ORR_SET_DIMS(work, ...)                                                                    \
    orr_work_set_dims((work), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t),            \
                      (const int64_t[]){__VA_ARGS__})

#endif /* ORR_COST_KERNEL_WORK_WORK_H */
