/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_FAMILIES_ATTENTION_H
#define ORR_OP_FAMILIES_ATTENTION_H

#include "op/rules.h"

/* Number of (query, key) pairs that the mask lets through; exact up to 2^53. */
double orr_attention_pairs(const orr_op_args *args, int64_t queries, int64_t keys);

#endif /* ORR_OP_FAMILIES_ATTENTION_H */
