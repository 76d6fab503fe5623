/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_H
#define TESTS_NAIVE_H

#include <math.h>
#include <stdlib.h>

#include <orrery/op.h>

/* A call on a tape in double precision, whatever its dtypes: integers are doubles too. The kernels
 * of naive_*.h say each operator as plainly as it can be said; gradients are held against them. */
typedef struct naive_call {
    const orr_op_args *args;
    uint32_t n_in, n_out;
    const orr_type *in_type, *out_type;
    const double *in[ORR_CALL_IN];
    double *out[ORR_CALL_OUT];
} naive_call;
typedef void (*naive_kernel)(const naive_call *c);

static inline int64_t naive_size(const orr_type *type)
{
    return orr_type_elements(type);
}
/* The last dim, and how many rows of it there are. */
static inline int64_t naive_columns(const orr_type *type)
{
    return type->rank > 0 ? type->dim[type->rank - 1] : 1;
}
static inline int64_t naive_rows(const orr_type *type)
{
    const int64_t columns = naive_columns(type);
    return columns > 0 ? naive_size(type) / columns : 0;
}
static inline void naive_zero(double *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        at[i] = 0;
}

#endif /* TESTS_NAIVE_H */
