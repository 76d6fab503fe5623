/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TRY_OP_H
#define TESTS_TRY_OP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/op.h>

/* One operator after the other on a tape: what comes out, its work, its gradient's calls. */
typedef struct try_op {
    orr_arena *arena;
    orr_tape tape;
    orr_error err;
    orr_value out[ORR_CALL_OUT];
} try_op;

static inline void try_begin(try_op *t)
{
    *t = (try_op){.arena = orr_arena_new(0, 0)};
    assert_non_null(t->arena);
    orr_tape_init(&t->tape, t->arena);
}
static inline void try_end(try_op *t)
{
    orr_arena_free(t->arena);
}

/* A value of so many dims: TRY_VALUE(&t, INPUT, FP32, 8, 512). */
static inline orr_value try_value(try_op *t, orr_value_role role, orr_dtype dtype, size_t rank,
                                  const int64_t *dims)
{
    orr_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    memcpy(type.dim, dims, rank * sizeof *dims);
    orr_value value;
    assert_int_equal(orr_tape_value_new(&t->tape, role, &type, "", &value, &t->err), ORR_OK);
    return value;
}
#define TRY_VALUE(t, role, dtype, ...)                                                             \
    try_value((t), ORR_VALUE_##role, ORR_DTYPE_##dtype,                                            \
              sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

/* The operator goes through: TRY_OP(&t, EMBEDDING, TRY_ARGS(.count = 8), table, ids). */
#define TRY_ARGS(...) (&(orr_op_args){__VA_ARGS__})
#define TRY_IN(...)                                                                                \
    (const orr_value[]){__VA_ARGS__}, sizeof((orr_value[]){__VA_ARGS__}) / sizeof(orr_value)
#define TRY_OP(t, op, args, ...)                                                                   \
    do {                                                                                           \
        if (orr_tape_call_op(&(t)->tape, ORR_OP_##op, (args), TRY_IN(__VA_ARGS__), "", (t)->out,   \
                             &(t)->err) != ORR_OK)                                                 \
            fail_msg("%s", (t)->err.text);                                                         \
    } while (0)
/* It does not, and says so. */
#define TRY_FAIL(t, op, args, text_, ...)                                                          \
    do {                                                                                           \
        assert_int_equal(orr_tape_call_op(&(t)->tape, ORR_OP_##op, (args), TRY_IN(__VA_ARGS__),    \
                                          "", (t)->out, &(t)->err),                                \
                         ORR_INVALID);                                                             \
        assert_string_equal((t)->err.text, (text_));                                               \
    } while (0)

/* Output k has this dtype and these dims: TRY_OUT(&t, 0, FP32, 8, 512). */
static inline void try_out(const try_op *t, uint32_t k, orr_dtype dtype, size_t rank,
                           const int64_t *dims)
{
    const orr_type *type = &t->tape.values[t->out[k]].type;
    assert_int_equal(type->dtype, dtype);
    assert_int_equal(type->rank, rank);
    for (size_t d = 0; d < rank; d++)
        assert_int_equal(type->dim[d], dims[d]);
}
#define TRY_OUT(t, k, dtype, ...)                                                                  \
    try_out((t), (k), ORR_DTYPE_##dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),       \
            (int64_t[]){__VA_ARGS__})

/* The work of the last call. */
static inline void try_work(const try_op *t, double flops, double read_bytes, double write_bytes)
{
    orr_op_work work;
    orr_tape_work(&t->tape, t->tape.n_calls - 1, &work);
    assert_true(work.flops == flops);
    assert_true(work.read_bytes == read_bytes);
    assert_true(work.write_bytes == write_bytes);
}

/* Gradients of all parameters, output 0 of the last call seeded with a gradient of its own type. */
static inline void try_gradient(try_op *t)
{
    orr_value seed;
    const orr_value out = t->out[0];
    assert_int_equal(orr_tape_value_new(&t->tape, ORR_VALUE_GRADIENT, &t->tape.values[out].type,
                                        "seed", &seed, &t->err),
                     ORR_OK);
    if (orr_tape_gradient(&t->tape, &out, &seed, 1, NULL, 0, NULL, &t->err) != ORR_OK)
        fail_msg("%s", t->err.text);
}
/* The gradient of a parameter. */
static inline orr_value try_gradient_of(const try_op *t, orr_value parameter)
{
    for (orr_value v = 0; v < t->tape.n_values; v++)
        if (t->tape.values[v].role == ORR_VALUE_PARAMETER_GRADIENT &&
            t->tape.values[v].of == parameter)
            return v;
    fail_msg("value %u has no gradient", parameter);
    return ORR_NONE;
}

#endif /* TESTS_TRY_OP_H */
