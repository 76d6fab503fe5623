/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernel/cpu/tensor/strided_copy.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Layout operators (views, transposes, concatenation, splits, padding) as strided copies: they run
 * where strides cannot express the view. */

static bool same_dims(const orr_type *a, const orr_type *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0;
}

/* Address of element i, row-major. */
static char *element(const orr_operand *x, int64_t i)
{
    int64_t offset = 0;
    for (uint32_t d = x->type.rank; d-- > 0; i /= x->type.dim[d])
        offset += i % x->type.dim[d] * x->stride[d];
    return (char *)x->data + offset * orr_dtype_stride_bytes((orr_dtype)x->type.dtype);
}

/* Whichever side is contiguous is seen with the dims of the other. */
static orr_status view_run(const orr_kernel_call *call, orr_error *err)
{
    const orr_operand *x = &call->in[0], *y = &call->out[0];
    orr_operand seen = *x;
    if (x->data == y->data || x->data == NULL || y->data == NULL ||
        orr_type_elements(&x->type) == 0)
        return ORR_OK;
    seen.type = y->type;
    if (same_dims(&x->type, &y->type)) {
        orr_copy_operand(x, y, call->workers);
    } else if (orr_operand_is_contiguous(x)) {
        orr_operand_contiguous(&seen.type, seen.stride);
        orr_copy_operand(&seen, y, call->workers);
    } else if (orr_operand_is_contiguous(y)) {
        seen = *y;
        seen.type = x->type;
        orr_operand_contiguous(&seen.type, seen.stride);
        orr_copy_operand(x, &seen, call->workers);
    } else if (x->type.dtype == ORR_DTYPE_FP4) {
        return orr_fail(err, ORR_UNSUPPORTED, "view: rows of fp4 with gaps on both sides");
    } else {
        const size_t bytes = (size_t)orr_dtype_stride_bytes((orr_dtype)x->type.dtype);
        for (int64_t i = 0; i < orr_type_elements(&x->type); i++)
            memcpy(element(y, i), element(x, i), bytes);
    }
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_VIEW = {.run = view_run};

static orr_status copy_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    if (call->in[0].data != call->out[0].data)
        orr_copy_operand(&call->in[0], &call->out[0], call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_COPY = {.run = copy_run};

static orr_status transpose_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const int32_t a = call->args->dim, b = call->args->to_dim;
    orr_operand x = call->in[0];
    const int64_t stride = x.stride[a];
    x.stride[a] = x.stride[b];
    x.stride[b] = stride;
    x.type = call->out[0].type;
    orr_copy_operand(&x, &call->out[0], call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_TRANSPOSE = {.run = transpose_run};

/* Indices [begin, begin + count) of a dim. */
static orr_operand range_of(const orr_operand *whole, int32_t dim, int64_t begin, int64_t count)
{
    orr_operand range = *whole;
    range.type.dim[dim] = count;
    range.data = orr_operand_at(whole, dim, begin);
    return range;
}

static orr_status concat_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const int32_t dim = call->args->dim;
    int64_t at = 0;
    for (uint32_t k = 0; k < call->n_in; k++) {
        const int64_t count = call->in[k].type.dim[dim];
        const orr_operand to = range_of(&call->out[0], dim, at, count);
        orr_copy_operand(&call->in[k], &to, call->workers);
        at += count;
    }
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_CONCAT = {.run = concat_run};

static orr_status split_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const int32_t dim = call->args->dim;
    int64_t at = 0;
    for (uint32_t k = 0; k < call->n_out; k++) {
        const int64_t count = call->out[k].type.dim[dim];
        const orr_operand from = range_of(&call->in[0], dim, at, count);
        if (from.data != call->out[k].data)
            orr_copy_operand(&from, &call->out[k], call->workers);
        at += count;
    }
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_SPLIT = {.run = split_run};

static orr_status slice_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_op_args *args = call->args;
    const orr_operand from = range_of(&call->in[0], args->dim, args->begin, args->count);
    if (from.data != call->out[0].data)
        orr_copy_operand(&from, &call->out[0], call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_SLICE = {.run = slice_run};

/* Zeros an operand. */
static void put_zeros(const orr_operand *to, orr_workers *workers)
{
    static const char zero[8];
    const int64_t still[ORR_TYPE_DIMS] = {0};
    orr_copy_elements(&to->type, zero, still, to->data, to->stride, workers);
}

static orr_status pad_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_op_args *args = call->args;
    const orr_operand *x = &call->in[0], *y = &call->out[0];
    const int64_t inside = x->type.dim[args->dim];
    const orr_operand before = range_of(y, args->dim, 0, args->begin),
                      middle = range_of(y, args->dim, args->begin, inside),
                      after = range_of(y, args->dim, args->begin + inside, args->count);
    put_zeros(&before, call->workers);
    orr_copy_operand(x, &middle, call->workers);
    put_zeros(&after, call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_PAD = {.run = pad_run};

static orr_status expand_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    orr_operand x = call->in[0];
    x.type = call->out[0].type;
    for (int32_t d = x.type.rank - 1; d >= call->args->dim; d--)
        x.stride[d] = d == call->args->dim ? 0 : call->in[0].stride[d - 1];
    orr_copy_operand(&x, &call->out[0], call->workers);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_EXPAND = {.run = expand_run};
