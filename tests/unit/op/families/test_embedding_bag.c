/* SPDX-License-Identifier: Apache-2.0 */
#include "../try_op.h"

/* 4 samples, 3 tables of 100 rows stacked, 5 lookups a bag, 16 columns of fp32. */
static void bags_of_one_size(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, FP32, 300, 16);
    const orr_value ids = TRY_VALUE(&t, INPUT, INT64, 4, 3, 5);
    TRY_OP(&t, EMBEDDING_BAG, NULL, table, ids);
    TRY_OUT(&t, 0, FP32, 4, 3, 16);
    try_work(&t, 60 * 16, 60 * 8 + 60 * 64, 12 * 64);

    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, table);
    TRY_OUT(&t, 0, FP32, 60, 16); /* sparse: a row for each id */
    try_work(&t, 0, 60 * 8 + 12 * 64, 60 * 64);
    try_end(&t);
}

/* Ids are padded to 5 a bag; there are 2.5 in the mean. */
static void the_mean_pooling_factor_counts(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, FP32, 100, 16);
    const orr_value ids = TRY_VALUE(&t, INPUT, INT32, 4, 5);
    TRY_OP(&t, EMBEDDING_BAG, TRY_ARGS(.count = 2560), table, ids);
    TRY_OUT(&t, 0, FP32, 4, 16);
    try_work(&t, 10 * 16, 10 * 4 + 10 * 64, 4 * 64);
    try_end(&t);
}

static void bags_by_where_they_begin(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, FP32, 100, 16);
    const orr_value ids = TRY_VALUE(&t, INPUT, INT32, 11);
    const orr_value offsets = TRY_VALUE(&t, INPUT, INT32, 4, 2);
    TRY_OP(&t, EMBEDDING_BAG, NULL, table, ids, offsets);
    TRY_OUT(&t, 0, FP32, 4, 2, 16);
    try_work(&t, 11 * 16, 11 * 4 + 8 * 4 + 11 * 64, 8 * 64);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, FP32, 100, 16);
    const orr_value ids = TRY_VALUE(&t, INPUT, INT32, 11);
    TRY_FAIL(&t, EMBEDDING_BAG, NULL,
             "embedding_bag: table (100, 16) and ids (11): without offsets, ids are (B, P) or "
             "(B, F, P)",
             table, ids);
    TRY_FAIL(&t, EMBEDDING_BAG, NULL,
             "embedding_bag: table (100, 16), ids (11) and offsets (100, 16): ids and offsets are "
             "int32 or int64",
             table, ids, table);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bags_of_one_size),
        cmocka_unit_test(the_mean_pooling_factor_counts),
        cmocka_unit_test(bags_by_where_they_begin),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
