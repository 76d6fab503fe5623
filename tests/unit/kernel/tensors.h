/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_TENSORS_H
#define TESTS_KERNEL_TENSORS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/kernel.h>

#include "base/alloc.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/format/row.h"

/* Tensors for kernels, and calls of them. Numbers are drawn by a generator of their own; of bf16
 * they are rounded, so that a reference in double precision starts from the same. */
typedef struct tensor {
    orr_operand operand;
    double *value; /* row-major */
    int64_t n;
} tensor;

static uint64_t drawn = 1;
static double draw(void)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (double)(drawn >> 33) / 4294967296.0 * 4 - 1;
}

static int64_t place(const orr_operand *o, int64_t i)
{
    int64_t at = 0;
    for (uint32_t d = o->type.rank; d-- > 0; i /= o->type.dim[d])
        at += i % o->type.dim[d] * o->stride[d];
    return at;
}

/* `gap`: numbers between rows of the third dim from the end: as of a part of a product. */
static tensor tensor_of(orr_dtype dtype, uint32_t rank, const int64_t *dim, int64_t gap)
{
    tensor t = {.operand.type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank}, .n = 1};
    int64_t step = 1;
    for (uint32_t d = rank; d-- > 0;) {
        t.operand.type.dim[d] = dim[d];
        t.operand.stride[d] = step;
        step *= dim[d];
        if (rank == 4 && d == 2)
            step += gap;
        t.n *= dim[d];
    }
    const size_t bytes = (size_t)((step + 16) * orr_dtype_stride_bytes(dtype));
    t.operand.data = orr_malloc_aligned(bytes);
    t.value = orr_calloc((size_t)t.n + 1, sizeof *t.value);
    assert_non_null(t.operand.data);
    assert_non_null(t.value);
    memset(t.operand.data, 0xff, bytes);
    return t;
}

static char *element(const tensor *t, int64_t i)
{
    return (char *)t->operand.data +
           place(&t->operand, i) * orr_dtype_stride_bytes((orr_dtype)t->operand.type.dtype);
}
static void put(tensor *t, int64_t i, double value)
{
    const float v = (float)value;
    float back;
    orr_strided_from_fp32((orr_dtype)t->operand.type.dtype, &v, 1, 0, element(t, i));
    orr_strided_to_fp32((orr_dtype)t->operand.type.dtype, element(t, i), 0, 1, &back);
    t->value[i] = (double)back;
}
static double got(const tensor *t, int64_t i)
{
    float v;
    orr_strided_to_fp32((orr_dtype)t->operand.type.dtype, element(t, i), 0, 1, &v);
    return (double)v;
}
static void draw_all(tensor *t)
{
    for (int64_t i = 0; i < t->n; i++)
        put(t, i, draw());
}
static void tensor_free(tensor *t)
{
    orr_free(t->operand.data);
    orr_free(t->value);
}

/* All of `t` within `tolerance` of its values, of the largest of them. */
static void assert_near(const tensor *t, double tolerance, const char *what)
{
    double most = 1e-3;
    for (int64_t i = 0; i < t->n; i++)
        most = isfinite(t->value[i]) ? fmax(most, fabs(t->value[i])) : most;
    for (int64_t i = 0; i < t->n; i++) {
        const double is = got(t, i);
        if (is == t->value[i] || fabs(is - t->value[i]) <= tolerance * most)
            continue;
        fail_msg("%s: number %lld is %.9g, and should be %.9g", what, (long long)i, is,
                 t->value[i]);
    }
}

/* Runs a call with its workspace. */
static inline orr_status run_call(orr_kernel_call *call, orr_error *err)
{
    orr_backend *cpu;
    assert_int_equal(orr_backend_cpu(&cpu, NULL), ORR_OK);
    const orr_kernel_entry *entry = &cpu->entries[call->op];
    assert_non_null(entry->run);
    const size_t bytes = entry->workspace != NULL ? entry->workspace(call) : 0;
    call->workspace = bytes > 0 ? orr_malloc_aligned(bytes) : NULL;
    const orr_status status = entry->run(call, err);
    orr_free(call->workspace);
    return status;
}

#endif /* TESTS_KERNEL_TENSORS_H */
