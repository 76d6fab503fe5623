/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void joined_parts(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value a = NAMED(&t, INPUT, BF16, "a", 2, 3), b = NAMED(&t, INPUT, BF16, "b", 2, 5);
    const orr_value c = NAMED(&t, INPUT, BF16, "c", 2, 1);
    TRY_OP(&t, CONCAT, TRY_ARGS(.dim = 1), a, b, c);
    TRY_OUT(&t, 0, BF16, 2, 9);
    try_work(&t, 0, 36, 36);
    orr_value wanted[2] = {a, c}, grads[2];
    try_backward(&t, t.out[0], wanted, 2, grads);
    TAPE_IS(&t, 1, "slice(d):5 input\nslice(d):6 input\n");
    assert_int_equal(t.tape.calls[2].args.begin, 8);
    assert_int_equal(t.tape.values[grads[1]].type.dim[1], 1);
    assert_int_equal(t.tape.values[grads[0]].view_of, 4); /* of the seed */
    try_end(&t);
}

/* Queries, keys and values out of one product; of the keys nothing is asked. */
static void parts_share_bytes(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 4, 24);
    TRY_OP(&t, SPLIT, TRY_ARGS(.dim = 1, .shape = &(orr_type){.rank = 3, .dim = {16, 4, 4}}), x);
    TRY_OUT(&t, 0, BF16, 4, 16);
    TRY_OUT(&t, 2, BF16, 4, 4);
    assert_int_equal(t.out[3], ORR_NONE);
    assert_int_equal(t.tape.values[t.out[2]].view_of, x);
    try_work(&t, 0, 0, 0);
    const orr_value parts[2] = {t.out[0], t.out[2]};
    const orr_value seeds[2] = {NAMED(&t, GRADIENT, BF16, "dq", 4, 16),
                                NAMED(&t, GRADIENT, BF16, "dv", 4, 4)};
    orr_value dx;
    assert_int_equal(orr_tape_gradient(&t.tape, parts, seeds, 2, &x, 1, &dx, &t.err), ORR_OK);
    TAPE_IS(&t, 1, "fill():6 input\nconcat(dq, 6, dv):7 input\n");
    SAME_TYPE(&t, dx, x);
    try_end(&t);
}

static void slices(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 10, 3);
    TRY_OP(&t, SLICE, TRY_ARGS(.dim = 0, .begin = 2, .count = 5), x);
    TRY_OUT(&t, 0, BF16, 5, 3);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "pad(d):3 input\n");
    assert_int_equal(t.tape.calls[1].args.begin, 2);
    assert_int_equal(t.tape.calls[1].args.count, 3);
    SAME_TYPE(&t, dx, x);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 2, 3), y = TRY_VALUE(&t, INPUT, BF16, 4, 3);
    const orr_value z = TRY_VALUE(&t, INPUT, FP32, 2, 3);
    TRY_FAIL(&t, CONCAT, TRY_ARGS(.dim = 1),
             "concat: a (2, 3) and b (4, 3): dtypes and all dims but dim 1 are to be alike", x, y);
    TRY_FAIL(&t, CONCAT, NULL,
             "concat: a (2, 3) and b (2, 3): dtypes and all dims but dim 0 are to be alike", x, z);
    TRY_FAIL(&t, SPLIT, TRY_ARGS(.dim = 1, .shape = &(orr_type){.rank = 2, .dim = {2, 2}}),
             "split: x (2, 3): parts (2, 2) do not make up 3", x);
    TRY_FAIL(&t, SPLIT, TRY_ARGS(.dim = 1, .shape = &(orr_type){.rank = 3, .dim = {4, -2, 1}}),
             "split: x (2, 3): parts (4, -2, 1) do not make up 3", x);
    TRY_FAIL(&t, SPLIT, TRY_ARGS(.dim = 1),
             "split: x (2, 3): `shape` says the sizes of two to four parts", x);
    TRY_FAIL(&t, SLICE, TRY_ARGS(.dim = 0, .begin = 1, .count = 2),
             "slice: x (2, 3): 2 from 1 on are not among 2", x);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_parts),
        cmocka_unit_test(parts_share_bytes),
        cmocka_unit_test(slices),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
