/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void sums_pass_gradients_on(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value a = NAMED(&t, INPUT, BF16, "a", 8, 64), b = NAMED(&t, INPUT, FP32, "b", 8, 64);
    TRY_OP(&t, ADD, NULL, a, b);
    TRY_OUT(&t, 0, FP32, 8, 64);
    try_work(&t, 512, 1024 + 2048, 2048);
    orr_value wanted[2] = {a, b}, grads[2];
    try_backward(&t, t.out[0], wanted, 2, grads);
    TAPE_IS(&t, 1, "cast(d):4 input\n"); /* to the dtype of a */
    assert_int_equal(grads[0], 4);
    assert_int_equal(grads[1], 3);
    try_end(&t);
}

static void products_that_repeat_are_summed(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value a = NAMED(&t, INPUT, BF16, "a", 8, 3, 64),
                    b = NAMED(&t, INPUT, BF16, "b", 8, 1, 1);
    TRY_OP(&t, MUL, NULL, a, b);
    TRY_OUT(&t, 0, BF16, 8, 3, 64);
    try_work(&t, 1536, 3072 + 16, 3072);
    orr_value wanted[2] = {a, b}, grads[2];
    try_backward(&t, t.out[0], wanted, 2, grads);
    TAPE_IS(&t, 1,
            "mul(d, b):4 input\nmul(d, a):5 input\nsum(5):6 input\nsum(6):7 input\n"
            "view(7):8 input\n");
    SAME_TYPE(&t, grads[1], b);
    try_end(&t);
}

static void one_factor_is_wanted(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value a = NAMED(&t, INPUT, BF16, "a", 8), b = NAMED(&t, INPUT, BF16, "b", 8);
    orr_value db;
    TRY_OP(&t, MUL, NULL, a, b);
    try_backward(&t, t.out[0], &b, 1, &db);
    TAPE_IS(&t, 1, "mul(d, a):4 input\n");
    assert_false(orr_tape_is_saved(&t.tape, b));
    try_end(&t);
}

static void biases(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 4, 8, 64),
                    b = NAMED(&t, PARAMETER, BF16, "b", 64);
    const orr_value positions = NAMED(&t, PARAMETER, BF16, "p", 8, 64);
    TRY_OP(&t, BIAS, NULL, x, b);
    try_work(&t, 2048, 4096 + 128, 4096);
    TRY_OP(&t, BIAS, NULL, t.out[0], positions);
    TRY_OUT(&t, 0, BF16, 4, 8, 64);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 2, "sum(d):6 weight\nsum(d):7 weight\n");
    assert_int_equal(try_gradient_of(&t, positions), 6);
    assert_int_equal(t.tape.values[6].type.rank, 2);
    assert_int_equal(try_gradient_of(&t, b), 7);
    assert_int_equal(dx, 5);
    try_end(&t);
}

static void sums_over_dims(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP32, "x", 2, 3, 4, 5);
    TRY_OP(&t, SUM, TRY_ARGS(.dim = 1, .count = 2), x);
    TRY_OUT(&t, 0, FP32, 2, 5);
    try_work(&t, 120, 480, 40);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "expand(d):3 input\nview(3):4 input\n");
    SAME_TYPE(&t, dx, x);
    TRY_OP(&t, SUM, TRY_ARGS(.count = 4), x);
    assert_int_equal(t.tape.values[t.out[0]].type.rank, 0);
    try_end(&t);
}

static void factors_and_fills(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP32, "x", 8);
    TRY_OP(&t, SCALE, TRY_ARGS(.value = 0.5), x);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "scale(d):3 input\n");
    assert_true(t.tape.calls[1].args.value == 0.5);
    orr_type shape = {.dtype = ORR_DTYPE_BF16, .rank = 2, .dim = {3, 4}};
    const orr_op_args args = {.shape = &shape, .value = 1};
    assert_int_equal(orr_tape_call_op(&t.tape, ORR_OP_FILL, &args, NULL, 0, "", t.out, &t.err),
                     ORR_OK);
    shape.rank = 1; /* the tape has a copy */
    TRY_OUT(&t, 0, BF16, 3, 4);
    assert_int_equal(t.tape.calls[2].args.shape->rank, 2);
    try_work(&t, 0, 0, 24);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8, 64), y = TRY_VALUE(&t, INPUT, BF16, 8, 32);
    TRY_FAIL(&t, ADD, NULL, "add: a (8, 64) and b (8, 32): the dims differ", x, y);
    TRY_FAIL(&t, MUL, NULL, "mul: a (8, 64) and b (8, 32): each dim of b is that of a, or 1", x, y);
    TRY_FAIL(&t, BIAS, NULL,
             "bias: x (8, 64) and bias (8, 32): the dims of the bias are not the last ones of x", x,
             y);
    TRY_FAIL(&t, SUM, TRY_ARGS(.dim = 2), "sum: x (8, 64): there is no dim 2", x);
    TRY_FAIL(&t, SUM, TRY_ARGS(.dim = 1, .count = 2),
             "sum: x (8, 64): there are no 2 dims from dim 1 on", x);
    assert_int_equal(orr_tape_call_op(&t.tape, ORR_OP_FILL, NULL, NULL, 0, "", t.out, &t.err),
                     ORR_INVALID);
    assert_string_equal(t.err.text, "fill: `shape` is not said");
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_pass_gradients_on),
        cmocka_unit_test(products_that_repeat_are_summed),
        cmocka_unit_test(one_factor_is_wanted),
        cmocka_unit_test(biases),
        cmocka_unit_test(sums_over_dims),
        cmocka_unit_test(factors_and_fills),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
