/* SPDX-License-Identifier: Apache-2.0 */
#include "../try_op.h"

static void cross_entropy_reads_the_logits_once(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value logits = TRY_VALUE(&t, PARAMETER, BF16, 2, 3, 1000);
    const orr_value targets = TRY_VALUE(&t, INPUT, INT64, 2, 3);
    TRY_OP(&t, CROSS_ENTROPY, NULL, logits, targets);
    TRY_OUT(&t, 0, FP32, 2, 3);
    TRY_OUT(&t, 1, FP32, 2, 3);
    try_work(&t, 4 * 6000 + 3 * 6, 2 * 6000 + 8 * 6, 2 * 4 * 6);

    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, logits);
    TRY_OUT(&t, 0, BF16, 2, 3, 1000);
    try_work(&t, 3 * 6000 + 6, 2 * 6000 + (8 + 4 + 4) * 6, 2 * 6000);
    try_end(&t);
}

/* The first pass over a slice reads it; the second, which knows all slices, hardly anything. */
static void a_slice_of_the_vocabulary_in_two_calls(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value logits = TRY_VALUE(&t, PARAMETER, FP32, 6, 250);
    const orr_value targets = TRY_VALUE(&t, INPUT, INT64, 6);
    const orr_value lses = TRY_VALUE(&t, INPUT, FP32, 4, 6);
    const orr_op_args args = {.members = 4, .begin = 500};
    TRY_OP(&t, CROSS_ENTROPY, &args, logits, targets);
    try_work(&t, 4 * 1500 + 3 * 6, 4 * 1500 + 8 * 6, 2 * 4 * 6);
    TRY_OP(&t, CROSS_ENTROPY, &args, logits, targets, lses);
    TRY_OUT(&t, 0, FP32, 6);
    try_work(&t, 4 * 24 + 3 * 6, 4 * 24 + 8 * 6 + 4 * 6, 2 * 4 * 6);

    try_gradient(&t);
    const orr_tape_call *backward = &t.tape.calls[t.tape.n_calls - 1];
    assert_int_equal(backward->op, ORR_OP_CROSS_ENTROPY_BACKWARD);
    assert_int_equal(backward->args.begin, 500);
    assert_int_equal(backward->n_in, 4);
    TRY_FAIL(&t, CROSS_ENTROPY, TRY_ARGS(.members = 5),
             "cross_entropy: logits (6, 250), targets (6) and lses (4, 6): lses are one for each "
             "of 5 slices and target",
             logits, targets, lses);
    try_end(&t);
}

static void targets_fit_the_logits(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value logits = TRY_VALUE(&t, PARAMETER, FP32, 6, 250);
    const orr_value targets = TRY_VALUE(&t, INPUT, INT64, 7);
    TRY_FAIL(&t, CROSS_ENTROPY, NULL,
             "cross_entropy: logits (6, 250) and targets (7): there is a target for each row of "
             "logits",
             logits, targets);
    TRY_FAIL(&t, CROSS_ENTROPY, NULL,
             "cross_entropy: logits (6, 250) and targets (6, 250): targets are int32 or int64",
             logits, logits);
    try_end(&t);
}

static void binary_cross_entropy(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value logits = TRY_VALUE(&t, PARAMETER, FP16, 32, 1);
    const orr_value targets = TRY_VALUE(&t, INPUT, FP32, 32, 1);
    TRY_OP(&t, BCE_LOSS, NULL, logits, targets);
    TRY_OUT(&t, 0, FP32, 32, 1);
    try_work(&t, 7 * 32, (2 + 4) * 32, 4 * 32);
    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, logits);
    TRY_OUT(&t, 0, FP16, 32, 1);
    try_work(&t, 5 * 32, (2 + 4 + 4) * 32, 2 * 32);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_reads_the_logits_once),
        cmocka_unit_test(a_slice_of_the_vocabulary_in_two_calls),
        cmocka_unit_test(targets_fit_the_logits),
        cmocka_unit_test(binary_cross_entropy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
