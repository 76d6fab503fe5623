/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void the_mask_is_kept(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 64);
    TRY_OP(&t, DROPOUT, TRY_ARGS(.value = 0.1), x);
    TRY_OUT(&t, 0, BF16, 8, 64);
    TRY_OUT(&t, 1, INT8, 8, 64);
    try_work(&t, 1024, 1024, 1024 + 512);
    const orr_value mask = name_value(&t, t.out[1], "mask");
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "dropout(d, mask):4 input\n");
    assert_true(t.tape.calls[1].args.value == 0.1);
    try_work(&t, 1024, 1024 + 512, 1024);
    assert_true(orr_tape_is_saved(&t.tape, mask));
    assert_false(orr_tape_is_saved(&t.tape, x));
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8), mask = TRY_VALUE(&t, INPUT, INT8, 9);
    TRY_FAIL(&t, DROPOUT, TRY_ARGS(.value = 1), "dropout: x (8): 1 is no probability of dropping",
             x);
    TRY_FAIL(&t, DROPOUT, NULL, "dropout: x (8) and mask (9): the dims differ", x, mask);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mask_is_kept),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
