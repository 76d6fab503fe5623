/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void channels_of_pictures(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP32, "x", 2, 3, 4, 5),
                    w = NAMED(&t, PARAMETER, FP32, "w", 3);
    const orr_value b = NAMED(&t, PARAMETER, FP32, "b", 3);
    TRY_OP(&t, BATCH_NORM, NULL, x, w, b);
    TRY_OUT(&t, 0, FP32, 2, 3, 4, 5);
    TRY_OUT(&t, 1, FP32, 3);
    try_work(&t, 7 * 120, 2 * 480 + 24, 480 + 24);
    name_value(&t, t.out[1], "m");
    name_value(&t, t.out[2], "r");
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1,
            "batch_norm_backward(d, x, m, r, w):7,8 input\nsum(d):9 weight\nsum(9):10 weight\n");
    assert_int_equal(t.tape.values[9].type.rank, 2);
    assert_int_equal(try_gradient_of(&t, b), 10);
    assert_int_equal(t.tape.values[10].type.dim[0], 3);
    orr_op_work work;
    orr_tape_work(&t.tape, 1, &work);
    assert_true(work.flops == 11 * 120 && work.read_bytes == 4 * 480 + 36);
    try_end(&t);
}

static void frozen_weights(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP32, "x", 2, 3), w = NAMED(&t, PARAMETER, FP32, "w", 3);
    t.tape.values[w].frozen = true;
    TRY_OP(&t, BATCH_NORM, NULL, x, w, w);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "batch_norm_backward(d, x, 3, 4, w):6 input\n");
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, FP32, 2, 3, 4), w = TRY_VALUE(&t, PARAMETER, FP32, 4);
    TRY_FAIL(
        &t, BATCH_NORM, NULL,
        "batch_norm: x (2, 3, 4), weight (4) and bias (4): weights are one for each of 3 channels",
        x, w, w);
    TRY_FAIL(&t, BATCH_NORM, NULL,
             "batch_norm: x (4), weight (4) and bias (4): x has a batch and channels", w, w, w);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channels_of_pictures),
        cmocka_unit_test(frozen_weights),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
