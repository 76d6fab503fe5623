/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GRADIENT_BENCH_H
#define TESTS_GRADIENT_BENCH_H

#include "../naive/run.h"
#include "seeds.h"

/* A tape that grows call by call with numbers for what no call makes; its gradients are held
 * against finite differences of its outputs, each weighed by a random seed. */
enum { BENCH_VALUES = 4096, BENCH_LEAVES = 32, BENCH_OUTPUTS = 8 };
typedef struct bench {
    uint64_t seed;
    orr_random random;
    orr_arena *arena;
    orr_tape tape;
    orr_error err;
    orr_dtype dtype;                /* of numbers that are drawn; FP64, which is 0: as asked */
    double *data[BENCH_VALUES];     /* of what no call makes */
    orr_value leaves[BENCH_LEAVES]; /* that gradients are asked of */
    orr_value ids_of[BENCH_LEAVES]; /* of a table with a sparse gradient: its ids; or ORR_NONE */
    orr_value grads[BENCH_LEAVES];
    orr_value outputs[BENCH_OUTPUTS], seeds[BENCH_OUTPUTS];
    uint32_t n_leaves, n_outputs;
    orr_value out[ORR_CALL_OUT]; /* of the last call */
} bench;

static inline void bench_begin(bench *b, uint64_t seed, uint64_t stream)
{
    memset(b, 0, sizeof *b);
    b->seed = seed;
    b->random = orr_random_of(seed, stream);
    b->arena = orr_arena_new(0, 0);
    assert_non_null(b->arena);
    orr_tape_init(&b->tape, b->arena);
}
static inline void bench_end(bench *b)
{
    orr_arena_free(b->arena);
}

/* 1 .. most */
static inline int64_t bench_size(bench *b, uint64_t most)
{
    return 1 + (int64_t)orr_random_below(&b->random, most);
}

static inline double *bench_numbers(bench *b, int64_t n)
{
    double *at = orr_arena_array(b->arena, double, (size_t)n);
    assert_non_null(at);
    return at;
}

static inline orr_value bench_value(bench *b, orr_value_role role, orr_dtype dtype, size_t rank,
                                    const int64_t *dims)
{
    orr_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    orr_value value;
    memcpy(type.dim, dims, rank * sizeof *dims);
    if (orr_tape_value_new(&b->tape, role, &type, "", &value, &b->err) != ORR_OK)
        seed_fail(b->seed, "%s", b->err.text);
    assert_true(value < BENCH_VALUES);
    b->data[value] = bench_numbers(b, naive_size(&type));
    return value;
}

/* Between -1 and 1; with a gradient, unless it is a CONSTANT. */
static inline orr_value bench_number(bench *b, orr_value_role role, orr_dtype dtype, size_t rank,
                                     const int64_t *dims)
{
    const orr_value value =
        bench_value(b, role, b->dtype != ORR_DTYPE_FP64 ? b->dtype : dtype, rank, dims);
    for (int64_t i = 0; i < naive_size(&b->tape.values[value].type); i++)
        b->data[value][i] = 2 * orr_random_unit(&b->random) - 1;
    if (role != ORR_VALUE_CONSTANT && role != ORR_VALUE_GRADIENT) {
        assert_true(b->n_leaves < BENCH_LEAVES);
        b->ids_of[b->n_leaves] = ORR_NONE;
        b->leaves[b->n_leaves++] = value;
    }
    return value;
}
#define DIMS(...)                                                                                  \
    (sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), ((const int64_t[]){__VA_ARGS__})
#define NUMBER(b, ...)   bench_number((b), ORR_VALUE_INPUT, ORR_DTYPE_FP32, DIMS(__VA_ARGS__))
#define WEIGHT(b, ...)   bench_number((b), ORR_VALUE_PARAMETER, ORR_DTYPE_FP32, DIMS(__VA_ARGS__))
#define CONSTANT(b, ...) bench_number((b), ORR_VALUE_CONSTANT, ORR_DTYPE_FP32, DIMS(__VA_ARGS__))

/* Other numbers for it: no two of them, and none and 0, nearer than 5e-4: for what has an edge
 * there. */
static inline orr_value bench_spread(bench *b, orr_value value)
{
    enum { PRIME = 1009 };
    const int64_t n = naive_size(&b->tape.values[value].type), step = bench_size(b, PRIME - 1),
                  first = bench_size(b, PRIME);
    assert_true(n <= PRIME);
    for (int64_t i = 0; i < n; i++)
        b->data[value][i] = 2 * ((double)((first + i * step) % PRIME) + 0.25) / PRIME - 1;
    return value;
}

static inline orr_value bench_index(bench *b, int64_t below, size_t rank, const int64_t *dims)
{
    const orr_value value = bench_value(b, ORR_VALUE_INPUT, ORR_DTYPE_INT32, rank, dims);
    for (int64_t i = 0; i < naive_size(&b->tape.values[value].type); i++)
        b->data[value][i] = (double)orr_random_below(&b->random, (uint64_t)below);
    return value;
}
#define INDEX(b, below, ...) bench_index((b), (below), DIMS(__VA_ARGS__))

static inline orr_value bench_apply(bench *b, orr_op op, const orr_op_args *args,
                                    const orr_value *in, uint32_t n)
{
    if (orr_tape_call_op(&b->tape, op, args, in, n, "", b->out, &b->err) != ORR_OK)
        seed_fail(b->seed, "%s", b->err.text);
    return b->out[0];
}
#define ARGS(...) (&(orr_op_args){__VA_ARGS__})
#define APPLY(b, op, args, ...)                                                                    \
    bench_apply((b), ORR_OP_##op, (args), (const orr_value[]){__VA_ARGS__},                        \
                sizeof((const orr_value[]){__VA_ARGS__}) / sizeof(orr_value))

static inline void bench_output(bench *b, orr_value value)
{
    assert_true(b->n_outputs < BENCH_OUTPUTS);
    b->outputs[b->n_outputs++] = value;
}

/* Records the backward pass. */
static inline void bench_reverse(bench *b)
{
    orr_value wanted[BENCH_LEAVES], got[BENCH_LEAVES];
    uint32_t n = 0;
    for (uint32_t k = 0; k < b->n_outputs; k++) {
        const orr_type type = b->tape.values[b->outputs[k]].type;
        b->seeds[k] = bench_number(b, ORR_VALUE_GRADIENT, ORR_DTYPE_FP32, type.rank, type.dim);
        b->tape.values[b->seeds[k]].type.dtype = type.dtype;
    }
    for (uint32_t k = 0; k < b->n_leaves; k++)
        if (b->tape.values[b->leaves[k]].role == ORR_VALUE_INPUT)
            wanted[n++] = b->leaves[k];
    if (orr_tape_gradient(&b->tape, b->outputs, b->seeds, b->n_outputs, wanted, n, got, &b->err) !=
        ORR_OK)
        seed_fail(b->seed, "%s", b->err.text);
    n = 0;
    for (uint32_t k = 0; k < b->n_leaves; k++) {
        const bool given = b->tape.values[b->leaves[k]].role == ORR_VALUE_INPUT;
        b->grads[k] = given ? got[n++] : ORR_NONE;
        for (orr_value v = 0; !given && v < b->tape.n_values; v++)
            if (b->tape.values[v].role == ORR_VALUE_PARAMETER_GRADIENT &&
                b->tape.values[v].of == b->leaves[k])
                b->grads[k] = v;
    }
}

/* Room for the elements of all values; leaves have theirs. */
static inline naive_rank bench_rank(bench *b)
{
    naive_rank rank = {.tape = &b->tape};
    rank.at = orr_arena_array(b->arena, double *, b->tape.n_values);
    assert_non_null(rank.at);
    for (orr_value v = 0; v < b->tape.n_values; v++)
        rank.at[v] = v < BENCH_VALUES && b->data[v] != NULL
                         ? b->data[v]
                         : bench_numbers(b, naive_size(&b->tape.values[v].type));
    return rank;
}

/* What the seeds are the gradient of. */
static inline double bench_loss(const bench *b, const naive_rank *rank)
{
    double sum = 0;
    for (uint32_t k = 0; k < b->n_outputs; k++)
        sum += naive_dot(rank->at[b->seeds[k]], rank->at[b->outputs[k]],
                         naive_size(&b->tape.values[b->outputs[k]].type));
    return sum;
}

/* Element i of the gradient of leaf k. A sparse one has a row for each id. */
static inline double bench_gradient(const bench *b, const naive_rank *rank, uint32_t k, int64_t i)
{
    if (b->grads[k] == ORR_NONE)
        return 0;
    const double *grad = rank->at[b->grads[k]];
    if (b->ids_of[k] == ORR_NONE)
        return grad[i];
    const int64_t columns = naive_columns(&b->tape.values[b->leaves[k]].type);
    const double *ids = rank->at[b->ids_of[k]];
    double sum = 0;
    for (int64_t j = 0; j < naive_size(&b->tape.values[b->ids_of[k]].type); j++)
        sum += (int64_t)ids[j] == i / columns ? grad[j * columns + i % columns] : 0;
    return sum;
}

/* Central differences: with steps of 1e-5 and losses of order 1 to 100 they are right to about
 * 1e-9; a gradient that is wrong is wrong by far more than 1e-6 of itself. */
#define BENCH_STEP      1e-5
#define BENCH_TOLERANCE 1e-6
static inline bool bench_close(double a, double b)
{
    return fabs(a - b) <= BENCH_TOLERANCE * (1 + fabs(a) + fabs(b));
}

#endif /* TESTS_GRADIENT_BENCH_H */
