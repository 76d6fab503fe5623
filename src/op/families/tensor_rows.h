/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_FAMILIES_TENSOR_ROWS_H
#define ORR_OP_FAMILIES_TENSOR_ROWS_H

#include "op/shape.h"

/* Helpers for the rules of tables, losses, routing and images: tensors as rows of columns. */
static inline bool orr_type_is_index(const orr_type *type)
{
    return type->dtype == ORR_DTYPE_INT32 || type->dtype == ORR_DTYPE_INT64;
}
/* The last dim; 1 of a scalar. */
static inline int64_t orr_type_columns(const orr_type *type)
{
    return type->rank > 0 ? type->dim[type->rank - 1] : 1;
}
static inline int64_t orr_type_rows(const orr_type *type)
{
    return orr_type_span(type, 0, type->rank > 0 ? type->rank - 1u : 0);
}
/* Whether the first dims of `whole` are those of `lead`, followed by `more` others. */
static inline bool orr_type_has_leading_dims(const orr_type *lead, const orr_type *whole,
                                             uint32_t more)
{
    bool same = whole->rank == lead->rank + more;
    for (uint32_t d = 0; same && d < lead->rank; d++)
        same = lead->dim[d] == whole->dim[d];
    return same;
}
static inline double orr_elements(const orr_type *type)
{
    return (double)orr_type_elements(type);
}
static inline double orr_bytes(const orr_type *type)
{
    return (double)orr_type_bytes(type);
}
/* Bytes of so many columns. */
static inline double orr_row_bytes(const orr_type *type, int64_t columns)
{
    return (double)columns * orr_dtype_bytes((orr_dtype)type->dtype);
}

#endif /* ORR_OP_FAMILIES_TENSOR_ROWS_H */
