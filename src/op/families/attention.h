/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_FAMILIES_ATTENTION_H
#define ORR_OP_FAMILIES_ATTENTION_H

#include "op/rules.h"

typedef struct orr_attention_dims {
    int64_t batch, queries, keys, heads, groups, width, value_width;
} orr_attention_dims;
orr_attention_dims orr_attention_dims_of(const orr_type *q, const orr_type *k, const orr_type *v);
orr_status orr_attention_check(const orr_op_signature *sig, const orr_type *q, const orr_type *k,
                               const orr_type *v, orr_error *err) ORR_MUST_CHECK;

/* Number of (query, key) pairs that the mask lets through; exact up to 2^53. */
double orr_attention_pairs(const orr_op_args *args, int64_t queries, int64_t keys);

#endif /* ORR_OP_FAMILIES_ATTENTION_H */
