/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

/* What its backward pass reads: the input, or what the operator gave. */
static void one(orr_op op, double flops, double backward_flops, const char *want)
{
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 64);
    assert_int_equal(orr_tape_call_op(&t.tape, op, NULL, &x, 1, "", t.out, &t.err), ORR_OK);
    TRY_OUT(&t, 0, BF16, 8, 64);
    try_work(&t, flops * 512, 1024, 1024);
    name_value(&t, t.out[0], "y");
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, want);
    assert_int_equal(t.tape.calls[1].args.op, op);
    try_work(&t, backward_flops * 512, 2048, 1024);
    try_end(&t);
}

static void all(void **state)
{
    (void)state;
    one(ORR_OP_GELU, 5, 10, "activation_backward(d, x):3 input\n");
    one(ORR_OP_SILU, 5, 8, "activation_backward(d, x):3 input\n");
    one(ORR_OP_RELU, 1, 1, "activation_backward(d, y):3 input\n");
    one(ORR_OP_SIGMOID, 4, 3, "activation_backward(d, y):3 input\n");
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8, 64), y = TRY_VALUE(&t, INPUT, BF16, 8, 32);
    TRY_FAIL(&t, ACTIVATION_BACKWARD, TRY_ARGS(.op = ORR_OP_GELU),
             "activation_backward: dy (8, 64) and x (8, 32): the dims differ", x, y);
    TRY_FAIL(&t, ACTIVATION_BACKWARD, TRY_ARGS(.op = ORR_OP_MATMUL),
             "activation_backward: dy (8, 64) and x (8, 64): `op` names no activation of one input",
             x, x);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
