/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_RULES_H
#define ORR_OP_RULES_H

#include <orrery/op.h>

#include "op/shape.h"

/* How an operator is defined: its row, orr_row_MATMUL and so on, is in the file of its family,
 *
 *   const orr_op_row orr_row_MATMUL = {
 *       ORR_ROW(MATMUL, "matmul", MATMUL), .min_in = 2, .max_in = 4, .n_out = 1, ...};
 *
 * with the same three words as in ORR_OP_MAP. */
#define ORR_ROW_DECLARE_(op, text, family) extern const orr_op_row orr_row_##op;
ORR_OP_MAP(ORR_ROW_DECLARE_)
#undef ORR_ROW_DECLARE_

#define ORR_ROW(operator, text, its_family)                                                        \
    .name = (text), .op = ORR_OP_##operator, .family = ORR_OP_FAMILY_##its_family
#define ORR_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The collective that an operator is in recordings and prices; UNKNOWN: none. */
orr_collective orr_op_collective(orr_op op);

/* The work of most kernels other than matrix products: every input is read once, every output
 * written once, in the wider dtype of the inputs, with `flops` FLOPs in total. */
void orr_op_work_stream(const orr_op_signature *sig, double flops, orr_op_work *ret);

/* Records a backward call under the name of the forward call. `args` NULL: all 0. `ret_out`: as in
 * orr_tape_call_op(). */
orr_status orr_gradient_call(orr_gradient *g, orr_op op, const orr_op_args *args,
                             const orr_value *in, uint32_t n_in, orr_value *ret_out,
                             orr_error *err) ORR_MUST_CHECK;
/* A view of the value with the dims of `like`; `value` itself if it has them. */
orr_status orr_gradient_view(orr_gradient *g, orr_value value, const orr_type *like, orr_value *ret,
                             orr_error *err) ORR_MUST_CHECK;
/* Sums over all dims but the last `keep` ones. */
orr_status orr_gradient_sum(orr_gradient *g, orr_value value, uint32_t keep, orr_value *ret,
                            orr_error *err) ORR_MUST_CHECK;
/* Passes the gradient of output 0 to input 0 unchanged. */
orr_status orr_gradient_identity(orr_gradient *g, orr_error *err) ORR_MUST_CHECK;
static inline const orr_type *orr_gradient_type(const orr_gradient *g, orr_value value)
{
    return &g->tape->values[value].type;
}

#endif /* ORR_OP_RULES_H */
