/* SPDX-License-Identifier: Apache-2.0 */
#include "../try_op.h"

static void experts_are_chosen(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value logits = TRY_VALUE(&t, PARAMETER, FP32, 2, 5, 64);
    const orr_value bias = TRY_VALUE(&t, CONSTANT, FP32, 64);
    TRY_OP(&t, TOP_K, TRY_ARGS(.top_k = 8, .op = ORR_OP_SIGMOID, .count = 8, .begin = 4), logits,
           bias);
    TRY_OUT(&t, 0, FP32, 2, 5, 8);
    TRY_OUT(&t, 1, INT32, 2, 5, 8);
    try_work(&t, 12 * 640, 4 * 640 + 4 * 64, 8 * 80);

    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, logits);
    TRY_OUT(&t, 0, FP32, 2, 5, 64);
    try_work(&t, 4 * 640 + 4 * 80, 4 * 640 + 8 * 80, 4 * 640);
    try_end(&t);
}

static void a_choice_that_cannot_be_made(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value logits = TRY_VALUE(&t, PARAMETER, FP32, 10, 64);
    TRY_FAIL(&t, TOP_K, TRY_ARGS(.top_k = 65), "top_k: logits (10, 64): 65 of 64 experts", logits);
    TRY_FAIL(&t, TOP_K, NULL, "top_k: logits (10, 64): 0 of 64 experts", logits);
    TRY_FAIL(&t, TOP_K, TRY_ARGS(.top_k = 2, .count = 5, .begin = 1),
             "top_k: logits (10, 64): the best 1 of 5 groups of 64 experts", logits);
    try_end(&t);
}

/* There and back: 10 tokens of 16 columns, 2 experts each. */
static void tokens_go_and_come_back(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, PARAMETER, BF16, 10, 16);
    const orr_value indices = TRY_VALUE(&t, INPUT, INT32, 10, 2);
    const orr_value scores = TRY_VALUE(&t, PARAMETER, FP32, 10, 2);
    TRY_OP(&t, DISPATCH, NULL, x, indices);
    TRY_OUT(&t, 0, BF16, 20, 16);
    assert_int_equal(t.out[1], ORR_NONE);
    try_work(&t, 0, 20 * 32 + 20 * 4, 20 * 32);
    TRY_OP(&t, COMBINE, NULL, t.out[0], indices, scores);
    TRY_OUT(&t, 0, BF16, 10, 16);
    try_work(&t, 2 * 20 * 16, 20 * 32 + 20 * 4 + 20 * 4, 10 * 32);

    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, x);
    TRY_OUT(&t, 0, BF16, 10, 16);
    t.out[0] = try_gradient_of(&t, scores);
    TRY_OUT(&t, 0, FP32, 10, 2);
    uint32_t dispatches = 0, combines = 0;
    for (uint32_t c = 0; c < t.tape.n_calls; c++) {
        dispatches += t.tape.calls[c].op == ORR_OP_DISPATCH;
        combines += t.tape.calls[c].op == ORR_OP_COMBINE;
    }
    assert_int_equal(dispatches, 2);
    assert_int_equal(combines, 3); /* one gives the gradient of the scores */
    try_end(&t);
}

/* Llama 4 weighs what goes into an expert; room is made for 24 rows. */
static void weights_on_the_way_there(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, PARAMETER, BF16, 2, 5, 16);
    const orr_value indices = TRY_VALUE(&t, INPUT, INT32, 2, 5, 2);
    const orr_value scores = TRY_VALUE(&t, PARAMETER, FP32, 2, 5, 2);
    TRY_OP(&t, DISPATCH, TRY_ARGS(.count = 24, .experts = 8), x, indices, scores);
    TRY_OUT(&t, 0, BF16, 24, 16);
    TRY_OUT(&t, 1, INT32, 8);
    try_work(&t, 24 * 16, 24 * 32 + 20 * 4 + 20 * 4, 24 * 32 + 8 * 4);
    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, x);
    TRY_OUT(&t, 0, BF16, 2, 5, 16);
    t.out[0] = try_gradient_of(&t, scores);
    TRY_OUT(&t, 0, FP32, 2, 5, 2);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, PARAMETER, BF16, 10, 16);
    const orr_value indices = TRY_VALUE(&t, INPUT, INT32, 9, 2);
    TRY_FAIL(&t, DISPATCH, NULL,
             "dispatch: x (10, 16) and indices (9, 2): every token has its indices", x, indices);
    TRY_FAIL(&t, COMBINE, NULL,
             "combine: sorted (10, 16) and indices (9, 2): 18 rows are to be combined", x, indices);
    TRY_FAIL(&t, DISPATCH, NULL,
             "dispatch: x (10, 16) and indices (10, 16): indices are int32 or "
             "int64",
             x, x);
    static const uint32_t position[] = {1, 0};
    TRY_FAIL(&t, DISPATCH, TRY_ARGS(.expert_position = position),
             "dispatch: x (10, 16) and indices (9, 2): the order of how many experts?", x, indices);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_chosen),
        cmocka_unit_test(a_choice_that_cannot_be_made),
        cmocka_unit_test(tokens_go_and_come_back),
        cmocka_unit_test(weights_on_the_way_there),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
