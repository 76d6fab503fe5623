/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PROGRAM_FIXTURE_H
#define TESTS_PROGRAM_FIXTURE_H

#include "../../property/support/program_bench.h"

#include "engine/run/program_state.h"

/* Tapes of a few calls over small numbers: 0, 1, 2, ... */

typedef struct fixture {
    orr_arena *arena;
    orr_tape tape;
    orr_backend backend;
    orr_binding bindings[64];
    orr_program_call calls[64];
    orr_program_source source;
    orr_program *program;
    orr_error err;
    orr_value out[ORR_CALL_OUT];
} fixture;

static inline void begin(fixture *f)
{
    memset(f, 0, sizeof *f);
    f->arena = orr_arena_new(0, 0);
    assert_non_null(f->arena);
    orr_tape_init(&f->tape, f->arena);
    f->backend = bench_backend();
    f->source = (orr_program_source){
        .tape = &f->tape, .calls = f->calls, .bindings = f->bindings, .backend = &f->backend};
}
static inline void end(fixture *f)
{
    orr_program_free(f->program);
    f->program = NULL;
    orr_arena_free(f->arena);
}
#define TYPE(...)                                                                                  \
    (&(orr_type){.dtype = ORR_DTYPE_FP64,                                                          \
                 .rank = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                 \
                 .dim = {__VA_ARGS__}})

/* Bound to 0, 1, 2, ... */
static inline orr_value given(fixture *f, const orr_type *type)
{
    orr_value v;
    assert_int_equal(orr_tape_value_new(&f->tape, ORR_VALUE_INPUT, type, "x", &v, &f->err), ORR_OK);
    double *data = orr_arena_array(f->arena, double, (size_t)orr_type_elements(type));
    for (int64_t i = 0; i < orr_type_elements(type); i++)
        data[i] = (double)i;
    f->bindings[v].data = data;
    return v;
}
static inline orr_value apply(fixture *f, orr_op op, const orr_op_args *args, orr_value x)
{
    if (orr_tape_call_op(&f->tape, op, args, &x, 1, "", f->out, &f->err) != ORR_OK)
        fail_msg("%s", f->err.text);
    return f->out[0];
}
static inline orr_value apply2(fixture *f, orr_op op, const orr_op_args *args, orr_value x,
                               orr_value y)
{
    const orr_value in[] = {x, y};
    if (orr_tape_call_op(&f->tape, op, args, in, 2, "", f->out, &f->err) != ORR_OK)
        fail_msg("%s", f->err.text);
    return f->out[0];
}
#define ARGS(...) (&(orr_op_args){__VA_ARGS__})

static inline void make(fixture *f)
{
    if (orr_program_make(&f->source, &f->program, &f->err) != ORR_OK)
        fail_msg("%s", f->err.text);
}
static inline void run(fixture *f)
{
    if (orr_program_execute(f->program, NULL, &f->err) != ORR_OK)
        fail_msg("%s", f->err.text);
}
static inline void refuse(fixture *f, orr_status status, const char *text)
{
    assert_int_equal(orr_program_make(&f->source, &f->program, &f->err), status);
    assert_string_equal(f->err.text, text);
    f->program = NULL;
}
static inline double number(const fixture *f, orr_value v, int64_t i)
{
    return ((const double *)orr_program_data(f->program, v))[i];
}

#endif /* TESTS_PROGRAM_FIXTURE_H */
