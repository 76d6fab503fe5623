/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "../tape_text.h"

static void values_and_calls(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8, 512),
                    w = TRY_VALUE(&t, PARAMETER, BF16, 512, 64);
    assert_int_equal(t.tape.values[x].role, ORR_VALUE_INPUT);
    assert_int_equal(t.tape.values[x].made_by, ORR_NONE);
    orr_value y[ORR_CALL_OUT];
    const orr_value in[2] = {x, w};
    assert_int_equal(orr_tape_call_op(&t.tape, ORR_OP_MATMUL, NULL, in, 2, "up", y, &t.err),
                     ORR_OK);
    assert_int_equal(t.tape.n_calls, 1);
    const orr_tape_call *call = &t.tape.calls[0];
    assert_int_equal(call->op, ORR_OP_MATMUL);
    assert_int_equal(call->pass, ORR_PASS_FORWARD);
    assert_string_equal(call->name, "up");
    assert_int_equal(call->in[1], w);
    assert_int_equal(call->out[0], y[0]);
    assert_int_equal(t.tape.values[y[0]].made_by, 0);
    assert_int_equal(t.tape.values[y[0]].role, ORR_VALUE_ACTIVATION);
    assert_int_equal(t.tape.values[y[0]].view_of, ORR_NONE);
    orr_op_signature_types room;
    const orr_op_signature site = orr_tape_signature(&t.tape, 0, &room);
    assert_int_equal(site.n_in, 2);
    assert_int_equal(site.n_out, 1);
    assert_int_equal(site.in[1].dim[1], 64);
    assert_int_equal(site.out[0].dim[0], 8);
    try_end(&t);
}

static void roles_go_by_the_pass(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8);
    TRY_OP(&t, COPY, NULL, x);
    const orr_value y = t.out[0];
    assert_false(orr_tape_is_saved(&t.tape, x));
    t.tape.pass = ORR_PASS_INPUT;
    TRY_OP(&t, COPY, NULL, x);
    assert_int_equal(t.tape.values[t.out[0]].role, ORR_VALUE_GRADIENT);
    assert_true(orr_tape_is_saved(&t.tape, x));
    TRY_OP(&t, COPY, NULL, t.out[0]);
    assert_false(
        orr_tape_is_saved(&t.tape, t.tape.calls[1].out[0])); /* made after the forward pass */
    t.tape.pass = ORR_PASS_OPTIMIZER;
    TRY_OP(&t, COPY, NULL, y);
    assert_int_equal(t.tape.values[t.out[0]].role, ORR_VALUE_STATE);
    assert_false(orr_tape_is_saved(&t.tape, y));
    try_end(&t);
}

static void a_view_keeps_what_it_views(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8);
    TRY_OP(&t, COPY, NULL, x);
    const orr_value y = t.out[0];
    TRY_OP(&t, VIEW, TRY_ARGS(.shape = &(orr_type){.rank = 2, .dim = {2, 4}}), y);
    const orr_value view = t.out[0];
    t.tape.pass = ORR_PASS_WEIGHT;
    TRY_OP(&t, COPY, NULL, view);
    assert_true(orr_tape_is_saved(&t.tape, y));
    assert_false(orr_tape_is_saved(&t.tape, view));
    assert_false(orr_tape_is_saved(&t.tape, x));
    try_end(&t);
}

static void what_cannot_be_is_told(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    orr_value v = 77;
    const orr_type negative = {.rank = 2, .dim = {8, -1}};
    assert_int_equal(orr_tape_value_new(&t.tape, ORR_VALUE_INPUT, &negative, "x", &v, &t.err),
                     ORR_INVALID);
    assert_string_equal(t.err.text, "x: no tensor has the dims (8, -1)");
    const orr_type huge = {.rank = 2, .dim = {INT64_MAX, 2}};
    assert_int_equal(orr_tape_value_new(&t.tape, ORR_VALUE_INPUT, &huge, NULL, &v, &t.err),
                     ORR_INVALID);
    assert_int_equal(v, 77);
    const orr_value column = TRY_VALUE(&t, INPUT, BF16, INT64_MAX / 4, 1);
    const orr_value row = TRY_VALUE(&t, INPUT, BF16, 1, INT64_MAX / 4);
    TRY_FAIL(&t, MATMUL, NULL,
             "matmul: no tensor has the dims (2305843009213693951, 2305843009213693951)", column,
             row);
    TRY_FAIL(&t, COPY, NULL, "copy: input 0 is no value of the tape", 1000);
    TRY_FAIL(&t, COPY, NULL, "copy takes 1 to 1 inputs, not 2", row, row);
    assert_int_equal(t.tape.n_calls, 0);
    assert_int_equal(t.tape.n_values, 2);
    try_end(&t);
}

static void tapes_grow(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    orr_value x = TRY_VALUE(&t, INPUT, BF16, 8);
    for (int i = 0; i < 1000; i++) {
        TRY_OP(&t, COPY, NULL, x);
        x = t.out[0];
    }
    for (uint32_t c = 0; c < 1000; c++) {
        assert_int_equal(t.tape.calls[c].in[0], c);
        assert_int_equal(t.tape.values[c + 1].made_by, c);
    }
    try_end(&t);
}

static orr_status chain(orr_arena *arena, orr_error *err)
{
    orr_tape tape;
    orr_tape_init(&tape, arena);
    const orr_type type = {.dtype = ORR_DTYPE_BF16, .rank = 1, .dim = {8}};
    orr_value x;
    ORR_TRY(orr_tape_value_new(&tape, ORR_VALUE_INPUT, &type, "x", &x, err));
    const orr_op_args args = {.shape = &type};
    for (int i = 0; i < 200; i++)
        ORR_TRY(orr_tape_call_op(&tape, ORR_OP_VIEW, &args, &x, 1, "", &x, err));
    return ORR_OK;
}

static void out_of_memory_is_survived(void **state)
{
    (void)state;
    for (uint64_t i = 1; i > 0; i++) {
        orr_arena *arena = orr_arena_new(256, 0);
        assert_non_null(arena);
        orr_error err;
        orr_alloc_fail_from(i);
        const orr_status status = chain(arena, &err);
        const bool over = orr_alloc_count() < i;
        orr_alloc_fail_from(0);
        assert_true(over ? status == ORR_OK : status == ORR_NO_MEMORY);
        orr_arena_free(arena);
        if (over)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_calls),
        cmocka_unit_test(roles_go_by_the_pass),
        cmocka_unit_test(a_view_keeps_what_it_views),
        cmocka_unit_test(what_cannot_be_is_told),
        cmocka_unit_test(tapes_grow),
        cmocka_unit_test(out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
