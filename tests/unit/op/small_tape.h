/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMALL_TAPE_H
#define SMALL_TAPE_H

/* Tapes put down by hand: no shapes, no gradients but what the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/op.h>

enum { SMALL_VALUES = 64, SMALL_CALLS = 64 };
typedef struct small_tape {
    orr_tape tape;
    orr_tape_value values[SMALL_VALUES];
    orr_tape_call calls[SMALL_CALLS];
} small_tape;

static inline void small_init(small_tape *s)
{
    memset(s, 0, sizeof *s);
    s->tape.values = s->values;
    s->tape.calls = s->calls;
    s->tape.room_values = SMALL_VALUES;
    s->tape.room_calls = SMALL_CALLS;
}

/* A value of so many bytes. */
static inline orr_value small_value(small_tape *s, orr_value_role role, int64_t bytes)
{
    assert_true(s->tape.n_values < SMALL_VALUES);
    s->values[s->tape.n_values] = (orr_tape_value){
        .type = {.dtype = ORR_DTYPE_INT8, .rank = 1, .dim = {bytes}},
        .role = (uint8_t)role,
        .made_by = ORR_NONE,
        .of = ORR_NONE,
        .view_of = ORR_NONE,
        .name = "",
    };
    return s->tape.n_values++;
}

/* A call that reads up to three values and makes `out`. */
static inline void small_call(small_tape *s, orr_op op, orr_pass pass, orr_value a, orr_value b,
                              orr_value c, orr_value out)
{
    assert_true(s->tape.n_calls < SMALL_CALLS);
    orr_tape_call *call = &s->calls[s->tape.n_calls];
    *call = (orr_tape_call){
        .op = (uint8_t)op, .pass = (uint8_t)pass, .n_out = 1, .out = {out}, .name = ""};
    const orr_value in[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        if (in[i] != ORR_NONE)
            call->in[call->n_in++] = in[i];
    s->values[out].made_by = s->tape.n_calls++;
}

#endif /* SMALL_TAPE_H */
