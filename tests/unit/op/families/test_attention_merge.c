/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void the_gradient_goes_to_both_as_it_is(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value a = NAMED(&t, INPUT, BF16, "a", 2, 16, 4, 8),
                    b = NAMED(&t, INPUT, BF16, "b", 2, 16, 4, 8);
    const orr_value la = TRY_VALUE(&t, INPUT, FP32, 2, 4, 16),
                    lb = TRY_VALUE(&t, INPUT, FP32, 2, 4, 16);
    TRY_OP(&t, ATTENTION_MERGE, NULL, a, la, b, lb);
    TRY_OUT(&t, 0, BF16, 2, 16, 4, 8);
    TRY_OUT(&t, 1, FP32, 2, 4, 16);
    try_work(&t, 5 * 1024, 2 * 2048 + 2 * 512, 2048 + 512);
    orr_value wanted[] = {a, b}, grads[2];
    try_backward(&t, t.out[0], wanted, 2, grads);
    assert_int_equal(t.tape.n_calls, 1);
    assert_int_equal(grads[0], grads[1]);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value y = TRY_VALUE(&t, INPUT, BF16, 2, 16, 4, 8),
                    l = TRY_VALUE(&t, INPUT, FP32, 2, 4, 16),
                    turned = TRY_VALUE(&t, INPUT, FP32, 2, 16, 4);
    TRY_FAIL(
        &t, ATTENTION_MERGE, NULL,
        "attention_merge: y (2, 16, 4, 8), logsumexp (2, 16, 4), y2 (2, 16, 4, 8) and logsumexp2 (2, 16, "
        "4): two outputs of attention and their logsumexps",
        y, turned, y, turned);
    TRY_FAIL(
        &t, ATTENTION_MERGE, NULL,
        "attention_merge: y (2, 4, 16), logsumexp (2, 4, 16), y2 (2, 4, 16) and logsumexp2 (2, 4, 16): "
        "four dims are needed: batch, tokens, heads, columns",
        l, l, l, l);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_goes_to_both_as_it_is),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
