/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void rms(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 4, 8, 64),
                    w = NAMED(&t, PARAMETER, BF16, "w", 64);
    TRY_OP(&t, RMS_NORM, TRY_ARGS(.value = 1e-5), x, w);
    TRY_OUT(&t, 0, BF16, 4, 8, 64);
    TRY_OUT(&t, 1, FP32, 4, 8);
    try_work(&t, 4 * 2048, 4096 + 128, 4096 + 128);
    name_value(&t, t.out[1], "r");
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "rms_norm_backward(d, x, r, w):5,6 input\n");
    try_work(&t, 8 * 2048, 2 * 4096 + 128 + 128, 4096 + 128);
    assert_int_equal(try_gradient_of(&t, w), 6);
    assert_true(t.tape.calls[1].args.value == 1e-5);
    try_end(&t);
}

static void frozen_or_no_weights(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 64), w = NAMED(&t, PARAMETER, BF16, "w", 64);
    t.tape.values[w].frozen = true;
    TRY_OP(&t, RMS_NORM, NULL, x, w);
    TRY_OP(&t, RMS_NORM, NULL, t.out[0]);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 2, "rms_norm_backward(d, 2, 5):7 input\nrms_norm_backward(7, x, 3, w):8 input\n");
    try_end(&t);
}

static void layer(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP32, "x", 4, 8, 64),
                    w = NAMED(&t, PARAMETER, FP32, "w", 64);
    const orr_value b = NAMED(&t, PARAMETER, FP32, "b", 64);
    TRY_OP(&t, LAYER_NORM, NULL, x, w, b);
    TRY_OUT(&t, 2, FP32, 4, 8);
    try_work(&t, 7 * 2048, 8192 + 512, 8192 + 256);
    name_value(&t, t.out[1], "m");
    name_value(&t, t.out[2], "r");
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "layer_norm_backward(d, x, m, r, w):7,8 input\nsum(d):9 weight\n");
    assert_int_equal(try_gradient_of(&t, w), 8);
    assert_int_equal(try_gradient_of(&t, b), 9);
    assert_int_equal(t.tape.values[9].type.rank, 1);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8, 64), w = TRY_VALUE(&t, PARAMETER, BF16, 32);
    TRY_FAIL(&t, RMS_NORM, NULL,
             "rms_norm: x (8, 64) and weight (32): weights are one for each of 64 columns", x, w);
    TRY_FAIL(&t, LAYER_NORM, NULL,
             "layer_norm: x (8, 64) and weight (32): weights are one for each of 64 columns", x, w);
    TRY_FAIL(&t, RMS_NORM_BACKWARD, NULL,
             "rms_norm_backward: dy (32), x (8, 64) and r (32): the dims of dy and x differ", w, x,
             w);
    const orr_value scalar = try_value(&t, ORR_VALUE_INPUT, ORR_DTYPE_FP32, 0, (int64_t[]){0});
    TRY_FAIL(&t, RMS_NORM, NULL, "rms_norm: x (): there is no dim to take the mean of", scalar);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms),
        cmocka_unit_test(frozen_or_no_weights),
        cmocka_unit_test(layer),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
