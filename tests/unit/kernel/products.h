/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEST_KERNEL_PRODUCTS_H
#define ORR_TEST_KERNEL_PRODUCTS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/kernel.h>

#include "base/philox.h"
#include "base/workers.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"

/* Random operands for products, with their exact values beside them. */
typedef struct tensor {
    orr_operand operand;
    orr_weight_rows rows;
    orr_row_segment *segments;
    char *bytes;
    double *values; /* row-major, as the operand's numbers say */
    int64_t n;
} tensor;

static float random_number(orr_random *r)
{
    return (float)(2 * orr_random_unit(r) - 1);
}

static int64_t spread_strides(tensor *t, orr_random *r, bool gaps)
{
    int64_t stride = 1;
    for (uint32_t d = t->operand.type.rank; d-- > 0;) {
        t->operand.stride[d] = stride;
        stride = stride * t->operand.type.dim[d] + (gaps ? (int64_t)orr_random_below(r, 5) : 0);
    }
    return stride;
}

static int64_t place_of(const orr_operand *o, int64_t i)
{
    int64_t place = 0;
    for (uint32_t d = o->type.rank; d-- > 0;) {
        place += i % o->type.dim[d] * o->stride[d];
        i /= o->type.dim[d];
    }
    return place;
}

static float number_at(const tensor *t, int64_t i)
{
    float value;
    const orr_dtype dtype = (orr_dtype)t->operand.type.dtype;
    const int64_t bytes = (int64_t)orr_dtype_bytes(dtype);
    orr_dtype_to_fp32(dtype, t->bytes + place_of(&t->operand, i) * bytes, 1, &value);
    return value;
}

/* A tensor of random numbers; `turned`: its last two dims lie the other way round in memory. */
static tensor tensor_of(orr_dtype dtype, uint32_t rank, const int64_t *dims, bool gaps, bool turned,
                        orr_random *r)
{
    tensor t = {.operand.type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank}, .n = 1};
    for (uint32_t d = 0; d < rank; d++) {
        t.operand.type.dim[d] = dims[d];
        t.n *= dims[d];
    }
    int64_t *dim = t.operand.type.dim, *stride = t.operand.stride;
    int64_t swap = dim[rank - 1];
    if (turned) {
        dim[rank - 1] = dim[rank - 2];
        dim[rank - 2] = swap;
    }
    const int64_t room = spread_strides(&t, r, gaps);
    if (turned) {
        swap = dim[rank - 1], dim[rank - 1] = dim[rank - 2], dim[rank - 2] = swap;
        swap = stride[rank - 1], stride[rank - 1] = stride[rank - 2], stride[rank - 2] = swap;
    }
    const int64_t bytes = (int64_t)orr_dtype_bytes(dtype);
    t.bytes = calloc((size_t)(room + 1), (size_t)bytes);
    t.values = calloc((size_t)t.n + 1, sizeof *t.values);
    for (int64_t i = 0; i < t.n; i++) {
        const float value = random_number(r);
        orr_dtype_from_fp32(dtype, &value, 1, t.bytes + place_of(&t.operand, i) * bytes);
        t.values[i] = (double)number_at(&t, i);
    }
    t.operand.data = t.bytes;
    return t;
}

/* Weights (K, N), or (N, K) with `turned`, or E of each, kept as rows of K numbers in segments. */
static tensor rows_of(orr_row_format format, orr_dtype dtype, int64_t experts, int64_t k, int64_t n,
                      bool turned, orr_random *r)
{
    enum { PIECES = 5 };
    const int64_t all = experts * n, row_bytes = orr_row_format_bytes(format, k) + 6;
    tensor t = {.operand.type = {.dtype = (uint8_t)dtype, .rank = 2}, .n = all * k};
    int64_t *dim = t.operand.type.dim;
    if (experts > 1) {
        dim[0] = experts;
        t.operand.type.rank = 3;
        dim++;
    }
    dim[0] = turned ? n : k;
    dim[1] = turned ? k : n;
    t.bytes = calloc((size_t)all + PIECES, (size_t)row_bytes);
    t.values = calloc((size_t)t.n + 1, sizeof *t.values);
    t.segments = calloc(PIECES, sizeof *t.segments);
    float *row = calloc((size_t)k + 1, sizeof *row);
    t.rows = (orr_weight_rows){
        .format = (uint8_t)format, .columns = k, .row_bytes = row_bytes, .segments = t.segments};
    for (int64_t first = 0; first < all && t.rows.n_segments < PIECES; t.rows.n_segments++) {
        const bool last = t.rows.n_segments == PIECES - 1;
        const int64_t count =
            last ? all - first : 1 + (int64_t)orr_random_below(r, (uint64_t)(all - first));
        char *data = t.bytes + (first + t.rows.n_segments) * row_bytes;
        t.segments[t.rows.n_segments] =
            (orr_row_segment){.data = data, .first = first, .count = count};
        for (int64_t i = 0; i < count; i++) {
            for (int64_t j = 0; j < k; j++)
                row[j] = random_number(r);
            orr_row_from_fp32(format, row, k, data + i * row_bytes);
            orr_row_to_fp32(format, data + i * row_bytes, k, row);
            for (int64_t j = 0; j < k; j++) {
                const int64_t e = (first + i) / n, in_n = (first + i) % n;
                t.values[e * n * k + (turned ? in_n * k + j : j * n + in_n)] = (double)row[j];
            }
        }
        first += count;
    }
    free(row);
    return t;
}

/* Points into itself: once it lies where it stays. */
static void settle(tensor *t)
{
    if (t->segments != NULL)
        t->operand.rows = &t->rows;
}

static void tensor_done(tensor *t)
{
    free(t->bytes);
    free(t->values);
    free(t->segments);
}

/* What a value may be off by. */
typedef struct tolerance {
    double magnitude; /* sum of absolute products                                                */
    double weights; /* sum of absolute weights, where tokens of up to 1 may be rounded by `token` */
    double token;
    int64_t k;
    bool coarse;     /* operands may be rounded to bf16 on the way */
    orr_dtype dtype; /* of the result */
} tolerance;

/* How far tokens are rounded where weights are of the format: half a step of int16 or int8. */
static inline double token_rounding(int format)
{
    if (orr_cpu_level() < ORR_CPU_AVX512_BF16 || format < ORR_ROW_FORMAT_Q8_0)
        return 0;
    return format == ORR_ROW_FORMAT_Q4_0 ? 0.51 / 127 : 0.51 / 16319;
}

static inline bool is_near(double got, double want, const tolerance *t)
{
    const double sum = t->magnitude * (double)(t->k + 8) * 0x1p-24;
    const double operands = (t->coarse ? t->magnitude * 0x1p-8 : 0) + t->weights * t->token;
    const double result = t->dtype == ORR_DTYPE_BF16   ? 0x1p-8
                          : t->dtype == ORR_DTYPE_FP16 ? 0x1p-10
                                                       : 0x1p-22;
    return fabs(got - want) <= sum + operands + result * fabs(want) + 1e-6;
}

static orr_status run_call(orr_kernel_call *call, int threads)
{
    orr_backend *backend;
    orr_error err = {0};
    orr_workers *workers = NULL;
    if (orr_backend_cpu(&backend, &err) != ORR_OK)
        abort();
    if (threads > 0 && orr_workers_new(threads, &workers, &err) != ORR_OK)
        abort();
    const orr_kernel_entry *entry = &backend->entries[call->op];
    call->workers = workers;
    const size_t bytes = entry->workspace != NULL ? entry->workspace(call) : 0;
    /* Exactly as many bytes as were asked for, so that a sanitizer sees one more. */
    char *space = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    memset(space, 0xff, bytes);
    call->workspace = space;
    const orr_status status = entry->run(call, &err);
    if (status != ORR_OK)
        fprintf(stderr, "%s\n", err.text);
    free(space);
    orr_workers_free(workers);
    return status;
}

#endif /* ORR_TEST_KERNEL_PRODUCTS_H */
