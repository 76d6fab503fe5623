/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_SPECIAL_H
#define TESTS_KERNEL_SPECIAL_H

#include "kernel_bench.h"

/* Kernels that no tape of gradients asks for: optimizers, numbers that are drawn, and rounding. */

static inline void special_begin(kernel_bench *k, orr_op op, const char *name, uint64_t seed)
{
    orr_arena_reset(k->arena);
    memset(k->rooms, 0, sizeof k->rooms);
    k->seed = seed;
    k->name = name;
    k->random = orr_random_of(seed, (uint64_t)op);
    k->now = (orr_kernel_call){.op = (uint8_t)op, .args = orr_arena_one(k->arena, orr_op_args)};
    assert_non_null(k->now.args);
    memset((orr_op_args *)(uintptr_t)k->now.args, 0, sizeof *k->now.args);
    k->covered[op] = true;
}
static inline orr_op_args *special_args(kernel_bench *k)
{
    return (orr_op_args *)(uintptr_t)k->now.args;
}

/* An input of numbers between `least` and `most`, rounded to their dtype; as doubles. */
static inline double *special_in(kernel_bench *k, const orr_type *type, bool gaps, double least,
                                 double most)
{
    kernel_room *room = &k->rooms[k->now.n_in];
    double *at = orr_arena_array(k->arena, double, (size_t)naive_size(type) + 1);
    assert_non_null(at);
    kernel_lay(k, room, type, gaps);
    for (int64_t i = 0; i < naive_size(type); i++) {
        at[i] = least + (most - least) * orr_random_unit(&k->random);
        at[i] = kernel_is_integer(type->dtype) ? floor(at[i]) : at[i];
        kernel_put(&room->operand, room->before, i, at[i]);
        at[i] = kernel_get(&room->operand, room->before, i);
    }
    k->in[k->now.n_in++] = room->operand;
    return at;
}
static inline kernel_room *special_out(kernel_bench *k, const orr_type *type, bool gaps)
{
    kernel_room *room = kernel_out(k, k->now.n_out);
    kernel_lay(k, room, type, gaps);
    k->out[k->now.n_out++] = room->operand;
    return room;
}

/* What inputs shall be after the call; NULL: as they were. */
static const double *special_want[ORR_CALL_IN];
static inline void special_update(kernel_bench *k)
{
    orr_error err;
    if (kernel_run(k, NULL, &err) != ORR_OK)
        kernel_fail(k, "%s", err.text);
    for (uint32_t i = 0; i < k->now.n_in; i++)
        if (special_want[i] != NULL)
            kernel_compare_room(k, &k->rooms[i], special_want[i], false);
    kernel_same_bits(k);
}

/* Loshchilov and Hutter, arXiv 1711.05101, algorithm 2. */
static inline void naive_adamw(const orr_update *u, int64_t n, const double *g, double *p,
                               double *m, double *v)
{
    for (int64_t i = 0; i < n; i++) {
        const double grad = g[i] * u->gradient_scale;
        m[i] = u->beta1 * m[i] + (1 - u->beta1) * grad;
        v[i] = u->beta2 * v[i] + (1 - u->beta2) * grad * grad;
        const double mean = m[i] / (1 - pow(u->beta1, (double)u->step)),
                     square = v[i] / (1 - pow(u->beta2, (double)u->step));
        p[i] = p[i] - u->rate * u->decay * p[i] - u->rate * mean / (sqrt(square) + u->epsilon);
    }
}

static inline void naive_sgd(const orr_update *u, int64_t n, const double *g, double *p, double *v)
{
    for (int64_t i = 0; i < n; i++) {
        double step = g[i] * u->gradient_scale + u->decay * p[i];
        if (v != NULL)
            step = v[i] = u->momentum * v[i] + step;
        p[i] -= u->rate * step;
    }
}

/* Gradients of the same row are one; its mean square goes into the state first. */
static inline void naive_adagrad(const orr_update *u, int64_t rows, int64_t columns, int64_t n,
                                 const double *g, const double *ids, double *table, double *state)
{
    double sum[512];
    for (int64_t row = 0; row < rows; row++) {
        bool touched = false;
        double square = 0;
        memset(sum, 0, sizeof sum);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; (int64_t)ids[i] == row && j < columns; j++) {
                sum[j] += g[i * columns + j] * u->gradient_scale;
                touched = true;
            }
        for (int64_t j = 0; j < columns; j++)
            square += sum[j] * sum[j] / (double)columns;
        state[row] += square;
        for (int64_t j = 0; touched && j < columns; j++)
            table[row * columns + j] -= u->rate * sum[j] / (sqrt(state[row]) + u->epsilon);
    }
}

static const orr_update SPECIAL_UPDATE = {.rate = 0.02,
                                          .beta1 = 0.9,
                                          .beta2 = 0.95,
                                          .epsilon = 1e-6,
                                          .decay = 0.1,
                                          .momentum = 0.8,
                                          .step = 3,
                                          .gradient_scale = 0.25};

static inline orr_type special_type(orr_dtype dtype, int64_t rows, int64_t columns)
{
    return (orr_type){.dtype = (uint8_t)dtype, .rank = 2, .dim = {rows, columns}};
}

/* Parameters in fp32, gradients in any dtype, with and without a copy. */
static inline void special_adamw(kernel_bench *k, uint64_t seed)
{
    static const orr_dtype GRADIENTS[] = {ORR_DTYPE_FP32, ORR_DTYPE_BF16, ORR_DTYPE_FP16};
    special_begin(k, ORR_OP_ADAMW, "adamw", seed);
    const int64_t rows = 1 + (int64_t)orr_random_below(&k->random, 70),
                  columns = 1 + (int64_t)orr_random_below(&k->random, 1500);
    const orr_type wide = special_type(ORR_DTYPE_FP32, rows, columns),
                   grad = special_type(GRADIENTS[seed % 3], rows, columns),
                   copy = special_type(ORR_DTYPE_BF16, rows, columns);
    const bool gaps = seed % 2, copies = seed % 4 > 1;
    k->now.update = &SPECIAL_UPDATE;
    memset(special_want, 0, sizeof special_want);
    double *p = special_in(k, &wide, gaps, -1, 1), *g = special_in(k, &grad, gaps, -1, 1),
           *m = special_in(k, &wide, gaps, -0.1, 0.1), *v = special_in(k, &wide, gaps, 0, 0.1);
    if (copies)
        (void)special_in(k, &copy, gaps, 0, 1);
    naive_adamw(&SPECIAL_UPDATE, rows * columns, g, p, m, v);
    special_want[0] = p;
    special_want[2] = m;
    special_want[3] = v;
    special_want[4] = copies ? p : NULL;
    kernel_each_level(k, special_update);
}

static inline void special_sgd(kernel_bench *k, uint64_t seed)
{
    special_begin(k, ORR_OP_SGD, "sgd", seed);
    const int64_t rows = 1 + (int64_t)orr_random_below(&k->random, 70),
                  columns = 1 + (int64_t)orr_random_below(&k->random, 1500);
    const orr_type wide = special_type(ORR_DTYPE_FP32, rows, columns),
                   grad = special_type(seed % 2 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP32, rows, columns);
    const bool gaps = seed % 3;
    k->now.update = &SPECIAL_UPDATE;
    memset(special_want, 0, sizeof special_want);
    double *p = special_in(k, &wide, gaps, -1, 1), *g = special_in(k, &grad, gaps, -1, 1),
           *v = seed % 4 > 1 ? special_in(k, &wide, gaps, -1, 1) : NULL;
    naive_sgd(&SPECIAL_UPDATE, rows * columns, g, p, v);
    special_want[0] = p;
    special_want[2] = v;
    kernel_each_level(k, special_update);
}

static inline void special_adagrad(kernel_bench *k, uint64_t seed)
{
    special_begin(k, ORR_OP_ROWWISE_ADAGRAD, "row-wise adagrad", seed);
    const int64_t rows = 1 + (int64_t)orr_random_below(&k->random, 90),
                  columns = 1 + (int64_t)orr_random_below(&k->random, 300),
                  n = 1 + (int64_t)orr_random_below(&k->random, 200);
    const orr_type table = special_type(ORR_DTYPE_FP32, rows, columns),
                   grad = special_type(seed % 2 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP32, n, columns),
                   state = {.dtype = ORR_DTYPE_FP32, .rank = 1, .dim = {rows}},
                   ids = {.dtype = seed % 4 > 1 ? ORR_DTYPE_INT32 : ORR_DTYPE_INT64,
                          .rank = 1,
                          .dim = {n}};
    k->now.update = &SPECIAL_UPDATE;
    memset(special_want, 0, sizeof special_want);
    double *t = special_in(k, &table, false, -1, 1), *g = special_in(k, &grad, false, -1, 1),
           *s = special_in(k, &state, false, 0, 1),
           *i = special_in(k, &ids, false, 0, (double)rows);
    naive_adagrad(&SPECIAL_UPDATE, rows, columns, n, g, i, t, s);
    special_want[0] = t;
    special_want[2] = s;
    kernel_each_level(k, special_update);
}

/* What is kept is kept by its number alone, is about as much as was asked for, and grows to make
 * up. */
static inline void special_drawn(kernel_bench *k)
{
    const orr_type *type = &k->in[0].type;
    const kernel_room *y = kernel_out(k, 0), *mask = kernel_out(k, 1);
    double kept = 0;
    orr_error err;
    if (kernel_run(k, NULL, &err) != ORR_OK)
        kernel_fail(k, "%s", err.text);
    for (int64_t i = 0; i < naive_size(type); i++) {
        uint32_t words[4];
        const uint64_t block = (uint64_t)i / 4;
        orr_philox4x32((const uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), 0, 0},
                       (const uint32_t[]){(uint32_t)k->now.seed, (uint32_t)(k->now.seed >> 32)},
                       words);
        const double keep = words[i % 4] >= k->now.args->value * 0x1p32,
                     x = kernel_get(&k->in[0], k->rooms[0].bytes, i),
                     want = keep * x / (1 - k->now.args->value),
                     got = kernel_get(&y->operand, y->bytes, i);
        kept += keep;
        if (kernel_get(&mask->operand, mask->bytes, i) != keep)
            kernel_fail(k, "number %lld of the mask", (long long)i);
        if (fabs(got - want) > fabs(want) * 0x1p-8)
            kernel_fail(k, "number %lld is %.9g and should be %.9g", (long long)i, got, want);
    }
    const double n = (double)naive_size(type), drop = k->now.args->value;
    if (fabs(kept - n * (1 - drop)) > 6 * sqrt(n * drop * (1 - drop)) + 1)
        kernel_fail(k, "%.0f of %.0f are kept", kept, n);
    kernel_check_gaps(k);
    kernel_same_bits(k);
}

static inline void special_dropout(kernel_bench *k, uint64_t seed)
{
    special_begin(k, ORR_OP_DROPOUT, "dropout", seed);
    const orr_type x = special_type(seed % 2 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP32,
                                    1 + (int64_t)orr_random_below(&k->random, 50),
                                    1 + (int64_t)orr_random_below(&k->random, 2100));
    orr_type mask = x;
    mask.dtype = ORR_DTYPE_INT8;
    special_args(k)->value = orr_random_unit(&k->random) * 0.9;
    k->now.seed = orr_random_u64(&k->random);
    (void)special_in(k, &x, seed % 3, -1, 1);
    (void)special_out(k, &x, seed % 3);
    (void)special_out(k, &mask, seed % 3);
    kernel_each_level(k, special_drawn);
}

/* There and back: within half a step of the dtype, of the largest of the block for INT8, of itself
 * or of the smallest there is for floats; and scales may be rounded by their own dtype. */
static inline void special_round_trip(kernel_bench *k)
{
    const orr_op_args *args = k->now.args;
    const orr_operand x = k->in[0];
    kernel_room there = *kernel_out(k, 0), scale = *kernel_out(k, 1), back = *kernel_out(k, 2);
    orr_error err;
    k->now.n_out = 2;
    if (kernel_run(k, k->workers[2], &err) != ORR_OK)
        kernel_fail(k, "%s", err.text);
    kernel_same_bits(k);
    memcpy(there.before, there.bytes, there.size);
    memcpy(scale.before, scale.bytes, scale.size);
    k->now.op = ORR_OP_DEQUANTIZE;
    k->now.n_in = 2;
    k->now.n_out = 1;
    k->in[0] = there.operand;
    k->in[1] = scale.operand;
    k->out[0] = back.operand;
    const orr_status status = kernel_run(k, k->workers[2], &err);
    k->now.op = ORR_OP_QUANTIZE;
    k->now.n_in = 1;
    k->in[0] = x;
    k->out[0] = there.operand;
    if (status != ORR_OK)
        kernel_fail(k, "%s", err.text);
    const int64_t columns = x.type.dim[1],
                  block = args->size > 0 ? args->size : naive_size(&x.type);
    for (int64_t i = 0; i < naive_size(&x.type); i++) {
        const int64_t first =
            args->size > 0 ? i / columns * columns + i % columns / block * block : 0;
        double largest = 0;
        for (int64_t j = first; j < first + block && j < naive_size(&x.type) &&
                                (args->size == 0 || j / columns == i / columns);
             j++)
            largest = fmax(largest, fabs(kernel_get(&x, k->rooms[0].bytes, j)));
        const double was = kernel_get(&x, k->rooms[0].bytes, i),
                     is = kernel_get(&back.operand, back.bytes, i);
        const double of_itself = args->dtype == ORR_DTYPE_INT8  ? 0
                                 : args->dtype == ORR_DTYPE_FP8 ? 0x1p-4
                                                                : 0x1p-2;
        const double of_largest = args->dtype == ORR_DTYPE_INT8  ? 0.51 / 127
                                  : args->dtype == ORR_DTYPE_FP8 ? 0x1p-15
                                                                 : 0.26 / 6;
        /* A scale that is rounded moves the largest: by up to 1/16 in FP8, by up to a fourth where
         * the power of two leaves it beyond 6 (OCP Microscaling 1.0, section 6.3). */
        const double by_scale = args->size == 16 ? 0x1p-4 : args->size == 32 ? 0.26 : 0;
        if (fabs(was - is) >
            of_itself * fabs(was) + 2 * of_largest * largest + by_scale * largest + 1e-6)
            kernel_fail(k, "%.9g comes back as %.9g, the largest is %.9g", was, is, largest);
    }
}

static inline void special_quantize(kernel_bench *k, uint64_t seed)
{
    static const uint8_t DTYPES[] = {ORR_DTYPE_FP8, ORR_DTYPE_INT8, ORR_DTYPE_FP4};
    static const uint32_t SIZES[] = {0, 16, 32, 128};
    special_begin(k, ORR_OP_QUANTIZE, "quantize", seed);
    const orr_type x = special_type(seed % 2 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP32,
                                    1 + (int64_t)orr_random_below(&k->random, 20),
                                    2 * (1 + (int64_t)orr_random_below(&k->random, 600)));
    orr_op_args *args = special_args(k);
    args->dtype = DTYPES[seed % 3];
    args->size = SIZES[seed / 3 % 4];
    orr_type out[ORR_CALL_OUT];
    orr_error err;
    const orr_op_signature site = {
        .op = ORR_OP_QUANTIZE, .args = args, .n_in = 1, .n_out = 2, .in = &x, .out = out};
    assert_int_equal(orr_op_of(ORR_OP_QUANTIZE)->shape(&site, out, &err), ORR_OK);
    (void)special_in(k, &x, seed % 5 > 2, -3, 3);
    (void)special_out(k, &out[0], false);
    (void)special_out(k, &out[1], false);
    (void)special_out(k, &x, seed % 5 > 2);
    k->covered[ORR_OP_DEQUANTIZE] = true;
    kernel_each_level(k, special_round_trip);
}

#endif /* TESTS_KERNEL_SPECIAL_H */
