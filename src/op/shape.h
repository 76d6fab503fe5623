/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_SHAPE_H
#define ORR_OP_SHAPE_H

#include <orrery/op.h>

/* Helpers for shape rules and their error messages. */

/* Formats dims as "(8, 512)" into `buffer`, which is returned. */
enum { ORR_TYPE_TEXT = 160 };
const char *orr_type_text(const orr_type *type, char buffer[ORR_TYPE_TEXT]);

/* INVALID: "matmul: x (8, 512) and w (256, 1024): " followed by the message. Names of inputs are
 * those in the row's `takes`. */
orr_status orr_op_shape_error(const orr_op_signature *sig, orr_error *err, const char *format, ...)
    ORR_PRINTF(3, 4);

/* Same dims; dtypes may differ. */
bool orr_type_same_dims(const orr_type *a, const orr_type *b);
/* Product of dims first .. end - 1. */
int64_t orr_type_span(const orr_type *type, uint32_t first, uint32_t end);
/* The dims of one, another dtype. */
orr_type orr_type_with(const orr_type *type, orr_dtype dtype);
/* Rank and dims, outermost first: orr_type_of(ORR_DTYPE_FP32, 2, (int64_t[]){8, 512}). */
orr_type orr_type_of(orr_dtype dtype, uint32_t rank, const int64_t *dims);
/* The dtype of a trailing output that does not exist. */
orr_type orr_type_absent(void);
/* The dtype with more bytes; of equal ones the first. */
orr_dtype orr_dtype_wider(orr_dtype a, orr_dtype b);

/* INVALID unless all inputs from `first` on have the dims of input 0: for elementwise operators. */
orr_status orr_op_check_same(const orr_op_signature *sig, uint32_t first,
                             orr_error *err) ORR_MUST_CHECK;
/* INVALID unless `dim` is a dim of input 0. */
orr_status orr_op_check_dim(const orr_op_signature *sig, int32_t dim,
                            orr_error *err) ORR_MUST_CHECK;
/* INVALID unless input k has at least, or exactly, so many dims. */
orr_status orr_op_check_rank(const orr_op_signature *sig, uint32_t k, uint32_t least,
                             orr_error *err) ORR_MUST_CHECK;
/* A shape rule: one output with the type of the first input. */
orr_status orr_op_shape_same(const orr_op_signature *sig, orr_type *ret_out,
                             orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OP_SHAPE_H */
