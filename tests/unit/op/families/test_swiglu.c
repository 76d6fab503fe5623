/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void two_tensors(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value gate = NAMED(&t, INPUT, BF16, "g", 8, 64),
                    up = NAMED(&t, INPUT, BF16, "u", 8, 64);
    TRY_OP(&t, SWIGLU, NULL, gate, up);
    TRY_OUT(&t, 0, BF16, 8, 64);
    try_work(&t, 6 * 512, 2048, 1024);
    orr_value wanted[2] = {gate, up}, grads[2];
    try_backward(&t, t.out[0], wanted, 2, grads);
    TAPE_IS(&t, 1, "swiglu_backward(d, g, u):4,5 input\n");
    assert_int_equal(grads[0], 4);
    assert_int_equal(grads[1], 5);
    try_work(&t, 11 * 512, 3072, 2048);
    try_end(&t);
}

static void halves_of_one(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 128);
    TRY_OP(&t, SWIGLU, NULL, x);
    TRY_OUT(&t, 0, BF16, 8, 64);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "swiglu_backward(d, x):3 input\n");
    assert_int_equal(t.tape.values[dx].type.dim[1], 128);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value odd = TRY_VALUE(&t, INPUT, BF16, 8, 65), x = TRY_VALUE(&t, INPUT, BF16, 8, 64);
    TRY_FAIL(&t, SWIGLU, NULL, "swiglu: gate (8, 65): 65 columns have no halves", odd);
    TRY_FAIL(&t, SWIGLU, NULL, "swiglu: gate (8, 65) and up (8, 64): the dims differ", odd, x);
    TRY_FAIL(
        &t, SWIGLU_BACKWARD, NULL,
        "swiglu_backward: dy (8, 64) and gate (8, 64): dy does not have the dims of what swiglu gives",
        x, x);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_tensors),
        cmocka_unit_test(halves_of_one),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
