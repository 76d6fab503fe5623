/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_FAMILIES_MATMUL_H
#define ORR_OP_FAMILIES_MATMUL_H

#include "op/rules.h"

/* What MATMUL and GROUPED_MATMUL share. A value with the scale it was quantized by. */
typedef struct orr_quantized_value {
    orr_value value, scale; /* scale: ORR_NONE: not quantized */
} orr_quantized_value;

/* The dtype of a product's result. */
orr_dtype orr_matmul_dtype(orr_dtype x, orr_dtype w);
/* The incoming gradient, quantized to the dtype that the forward product was computed in.
 * `first_scale`: number of inputs of a product without scales. */
orr_status orr_quantized_gradient(orr_gradient *g, uint32_t first_scale, orr_quantized_value *ret,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OP_FAMILIES_MATMUL_H */
