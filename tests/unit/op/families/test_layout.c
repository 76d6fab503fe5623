/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void views_share_bytes(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 3, 64);
    TRY_OP(&t, VIEW, TRY_ARGS(.shape = &(orr_type){.rank = 2, .dim = {6, 64}}), x);
    TRY_OUT(&t, 0, BF16, 6, 64);
    try_work(&t, 0, 0, 0);
    TRY_OP(&t, VIEW, TRY_ARGS(.shape = &(orr_type){.rank = 1, .dim = {384}}), t.out[0]);
    assert_int_equal(t.tape.values[t.out[0]].view_of, x);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 2, "view(d):4 input\nview(4):5 input\n");
    SAME_TYPE(&t, dx, x);
    assert_int_equal(t.tape.values[dx].view_of, 3);
    try_end(&t);
}

static void dims_change_places(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 3, 64);
    TRY_OP(&t, TRANSPOSE, TRY_ARGS(.dim = 0, .to_dim = 2), x);
    TRY_OUT(&t, 0, BF16, 64, 3, 2);
    try_work(&t, 0, 768, 768);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "transpose(d):3 input\n");
    assert_int_equal(t.tape.values[dx].type.dim[0], 2);
    try_end(&t);
}

static void pads_are_cut_off(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 3);
    TRY_OP(&t, PAD, TRY_ARGS(.dim = 1, .begin = 2, .count = 4), x);
    TRY_OUT(&t, 0, BF16, 2, 9);
    try_work(&t, 0, 12, 36);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "slice(d):3 input\n");
    assert_int_equal(t.tape.calls[1].args.begin, 2);
    assert_int_equal(t.tape.values[dx].type.dim[1], 3);
    try_end(&t);
}

static void repeats_are_summed(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 3);
    TRY_OP(&t, EXPAND, TRY_ARGS(.dim = 1, .count = 5), x);
    TRY_OUT(&t, 0, BF16, 2, 5, 3);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "sum(d):3 input\n");
    SAME_TYPE(&t, dx, x);
    TRY_OP(&t, EXPAND, TRY_ARGS(.dim = 2, .count = 5), x);
    TRY_OUT(&t, 0, BF16, 2, 3, 5);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 2, 3);
    TRY_FAIL(&t, VIEW, TRY_ARGS(.shape = &(orr_type){.rank = 1, .dim = {7}}),
             "view: x (2, 3): (7) does not have as many elements", x);
    TRY_FAIL(&t, VIEW, NULL, "view: x (2, 3): `shape` is not said", x);
    TRY_FAIL(&t, TRANSPOSE, TRY_ARGS(.dim = 2), "transpose: x (2, 3): there is no dim 2", x);
    TRY_FAIL(&t, PAD, TRY_ARGS(.begin = -1), "pad: x (2, 3): fewer than no zeros are asked for", x);
    TRY_FAIL(&t, PAD, TRY_ARGS(.count = INT64_MAX),
             "pad: x (2, 3): the padded dim does not fit 63 bits", x);
    TRY_FAIL(&t, EXPAND, TRY_ARGS(.dim = 3, .count = 2),
             "expand: x (2, 3): no dim 3 of 2 can be put in", x);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_share_bytes),          cmocka_unit_test(dims_change_places),
        cmocka_unit_test(pads_are_cut_off),           cmocka_unit_test(repeats_are_summed),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
