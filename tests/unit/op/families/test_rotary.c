/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void turns_and_turns_back(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 16, 4, 8);
    TRY_OP(&t, ROTARY, TRY_ARGS(.value = 500000, .offset = 16), x);
    TRY_OUT(&t, 0, BF16, 2, 16, 4, 8);
    try_work(&t, 3 * 1024, 2048, 2048);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "rotary(d):3 input\n");
    assert_true(t.tape.calls[1].args.value == -500000);
    assert_int_equal(t.tape.calls[1].args.offset, 16);
    assert_false(orr_tape_is_saved(&t.tape, x));
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value odd = TRY_VALUE(&t, INPUT, BF16, 16, 4, 7),
                    flat = TRY_VALUE(&t, INPUT, BF16, 16, 8);
    TRY_FAIL(&t, ROTARY, NULL, "rotary: x (16, 4, 7): 7 columns do not make pairs", odd);
    TRY_FAIL(&t, ROTARY, NULL, "rotary: x (16, 8): 3 dims are needed, there are 2", flat);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_and_turns_back),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
