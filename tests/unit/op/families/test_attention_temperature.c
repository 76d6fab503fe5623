/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void its_gradient_is_itself(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 16, 4, 8);
    TRY_OP(&t, ATTENTION_TEMPERATURE, TRY_ARGS(.value = 0.1, .window = 8192, .offset = 16), x);
    TRY_OUT(&t, 0, BF16, 2, 16, 4, 8);
    try_work(&t, 1024, 2048, 2048);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "attention_temperature(d):3 input\n");
    assert_int_equal(t.tape.calls[1].args.offset, 16);
    assert_int_equal(t.tape.calls[1].args.window, 8192);
    assert_false(orr_tape_is_saved(&t.tape, x));
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 16, 4, 8),
                    flat = TRY_VALUE(&t, INPUT, BF16, 16, 8);
    TRY_FAIL(&t, ATTENTION_TEMPERATURE, NULL,
             "attention_temperature: x (16, 4, 8): steps of 0 tokens", x);
    TRY_FAIL(&t, ATTENTION_TEMPERATURE, TRY_ARGS(.window = 4),
             "attention_temperature: x (16, 8): 3 dims are needed, there are 2", flat);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_gradient_is_itself),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
