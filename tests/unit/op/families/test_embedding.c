/* SPDX-License-Identifier: Apache-2.0 */
#include "../try_op.h"

/* 6 ids of a table of 100 rows, 8 columns in bf16. */
static void rows_come_out_and_are_read_once(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, BF16, 100, 8);
    const orr_value ids = TRY_VALUE(&t, INPUT, INT32, 2, 3);
    TRY_OP(&t, EMBEDDING, NULL, table, ids);
    TRY_OUT(&t, 0, BF16, 2, 3, 8);
    try_work(&t, 0, 6 * 4 + 6 * 16, 6 * 16);

    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, table);
    TRY_OUT(&t, 0, BF16, 100, 8);
    /* Zeros over the whole table, then 6 rows read, added to, written. */
    try_work(&t, 6 * 8, 6 * 16 + 6 * 4 + 6 * 16, 100 * 16 + 6 * 16);
    try_end(&t);
}

static void a_small_table_is_read_no_more_than_once(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, FP32, 2, 8);
    const orr_value ids = TRY_VALUE(&t, INPUT, INT64, 1000);
    TRY_OP(&t, EMBEDDING, NULL, table, ids);
    try_work(&t, 0, 1000 * 8 + 2 * 32, 1000 * 32);
    try_end(&t);
}

/* A slice of the vocabulary keeps where it begins, in its gradient too. */
static void a_slice_of_the_vocabulary(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, BF16, 50, 8);
    const orr_value ids = TRY_VALUE(&t, INPUT, INT32, 6);
    TRY_OP(&t, EMBEDDING, TRY_ARGS(.begin = 50, .count = 50), table, ids);
    try_gradient(&t);
    const orr_tape_call *backward = &t.tape.calls[t.tape.n_calls - 1];
    assert_int_equal(backward->op, ORR_OP_EMBEDDING_BACKWARD);
    assert_int_equal(backward->args.begin, 50);
    assert_int_equal(backward->args.count, 50);
    TRY_FAIL(&t, EMBEDDING, TRY_ARGS(.count = 49),
             "embedding: table (50, 8) and ids (6): a slice of 49 rows is asked of a table of 50",
             table, ids);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, BF16, 50, 8);
    const orr_value flat = TRY_VALUE(&t, PARAMETER, BF16, 50);
    const orr_value ids = TRY_VALUE(&t, INPUT, INT32, 6);
    const orr_value grad = TRY_VALUE(&t, INPUT, BF16, 7, 8);
    TRY_FAIL(&t, EMBEDDING, NULL,
             "embedding: table (50) and ids (6): a table has two dims, rows and columns", flat,
             ids);
    TRY_FAIL(&t, EMBEDDING, NULL, "embedding: table (50, 8) and ids (7, 8): ids are int32 or int64",
             table, grad);
    TRY_FAIL(&t, EMBEDDING_BACKWARD, TRY_ARGS(.count = 50),
             "embedding_backward: dy (7, 8) and ids (6): the gradient has a row for each id", grad,
             ids);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_out_and_are_read_once),
        cmocka_unit_test(a_small_table_is_read_no_more_than_once),
        cmocka_unit_test(a_slice_of_the_vocabulary),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
