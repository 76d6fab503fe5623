/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void forward_and_backward(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP32, "x", 4, 8, 100);
    TRY_OP(&t, SOFTMAX, NULL, x);
    TRY_OUT(&t, 0, FP32, 4, 8, 100);
    try_work(&t, 5 * 3200, 12800, 12800);
    name_value(&t, t.out[0], "y");
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "softmax_backward(d, y):3 input\n");
    try_work(&t, 4 * 3200, 2 * 12800, 12800);
    assert_false(orr_tape_is_saved(&t.tape, x));
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, FP32, 8), y = TRY_VALUE(&t, INPUT, FP32, 9);
    TRY_FAIL(&t, SOFTMAX, TRY_ARGS(.mask = ORR_MASK_CAUSAL),
             "softmax: x (8): 2 dims are needed, there are 1", x);
    TRY_FAIL(&t, SOFTMAX_BACKWARD, NULL, "softmax_backward: dy (8) and y (9): the dims differ", x,
             y);
    const orr_value square = TRY_VALUE(&t, INPUT, FP32, 8, 8);
    TRY_FAIL(&t, SOFTMAX, TRY_ARGS(.mask = ORR_MASK_CHUNKED),
             "softmax: x (8, 8): chunks of 0 tokens", square);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_backward),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
