/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_FAMILIES_MATMUL_H
#define ORR_OP_FAMILIES_MATMUL_H

#include "op/rules.h"

/* What products of one weight and of a weight an expert have in common. */
typedef struct orr_quantized_value {
    orr_value value, scale; /* scale: ORR_NONE: it has none */
} orr_quantized_value;

/* What a product of the two gives. */
orr_dtype orr_matmul_dtype(orr_dtype x, orr_dtype w);
/* The gradient that comes in, in the dtype that the forward product was made in. `first_scale`:
 * number of inputs of a product without scales. */
orr_status orr_quantized_gradient(orr_gradient *g, uint32_t first_scale, orr_quantized_value *ret,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OP_FAMILIES_MATMUL_H */
