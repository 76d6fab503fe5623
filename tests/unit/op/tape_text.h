/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TAPE_TEXT_H
#define TESTS_TAPE_TEXT_H

#include <inttypes.h>
#include <stdio.h>

#include "try_op.h"

/* A tape as text, to be compared call by call:
 *
 *   matmul(x, w'):4 weight
 *
 * the operator with its inputs, ' behind the transposed ones; the value that it makes, further ones
 * behind a comma; the pass, unless that is forward. Values go by name, nameless ones by number. */
static inline int print_value(const orr_tape *tape, orr_value v, char *at, size_t room)
{
    const char *name = tape->values[v].name;
    return name[0] != '\0' ? snprintf(at, room, "%s", name) : snprintf(at, room, "%" PRIu32, v);
}

static inline const char *tape_text(const orr_tape *tape, uint32_t from, char *text, size_t room)
{
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t c = from; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        n += (size_t)snprintf(text + n, room - n, "%s(", orr_op_of((orr_op)call->op)->name);
        for (uint32_t k = 0; k < call->n_in; k++) {
            const bool turned = k == 0 ? call->args.transpose_a : k == 1 && call->args.transpose_b;
            n += (size_t)snprintf(text + n, room - n, "%s", k > 0 ? ", " : "");
            n += (size_t)print_value(tape, call->in[k], text + n, room - n);
            n += (size_t)snprintf(text + n, room - n, "%s", turned ? "'" : "");
        }
        n += (size_t)snprintf(text + n, room - n, ")");
        for (uint32_t k = 0; k < call->n_out; k++) {
            n += (size_t)snprintf(text + n, room - n, "%s", k > 0 ? "," : ":");
            n += (size_t)print_value(tape, call->out[k], text + n, room - n);
        }
        if (call->pass != ORR_PASS_FORWARD)
            n += (size_t)snprintf(text + n, room - n, " %s",
                                  call->pass == ORR_PASS_INPUT       ? "input"
                                  : call->pass == ORR_PASS_WEIGHT    ? "weight"
                                  : call->pass == ORR_PASS_RECOMPUTE ? "again"
                                                                     : "optimizer");
        n += (size_t)snprintf(text + n, room - n, "\n");
        assert_true(n < room);
    }
    return text;
}
#define TAPE_IS(t, from, want)                                                                     \
    do {                                                                                           \
        char text_[8192];                                                                          \
        assert_string_equal(tape_text(&(t)->tape, (from), text_, sizeof text_), (want));           \
    } while (0)

/* Named values: NAMED(&t, PARAMETER, BF16, "w", 8, 512). */
#define NAMED(t, role, dtype, name_, ...)                                                          \
    name_value((t), TRY_VALUE((t), role, dtype, __VA_ARGS__), (name_))
static inline orr_value name_value(try_op *t, orr_value value, const char *name)
{
    t->tape.values[value].name = name;
    return value;
}

/* Two values of one dtype and the same dims. */
#define SAME_TYPE(t, a, b) same_type(&(t)->tape.values[a].type, &(t)->tape.values[b].type)
static inline void same_type(const orr_type *a, const orr_type *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, a->rank * sizeof a->dim[0]);
}

/* A seed named "d" for a value, and the gradients of all that is trained and of `wanted`. */
static inline void try_backward(try_op *t, orr_value out, const orr_value *wanted, uint32_t n,
                                orr_value *ret_wanted)
{
    orr_value seed;
    assert_int_equal(orr_tape_value_new(&t->tape, ORR_VALUE_GRADIENT, &t->tape.values[out].type,
                                        "d", &seed, &t->err),
                     ORR_OK);
    if (orr_tape_gradient(&t->tape, &out, &seed, 1, wanted, n, ret_wanted, &t->err) != ORR_OK)
        fail_msg("%s", t->err.text);
}

#endif /* TESTS_TAPE_TEXT_H */
