/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void rows_of_pictures_stand_among_words(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 2, 16, 8),
                    ids = TRY_VALUE(&t, INPUT, INT64, 2, 16),
                    pictures = TRY_VALUE(&t, INPUT, BF16, 5, 8);
    TRY_OP(&t, MASKED_SCATTER, TRY_ARGS(.begin = 200092), x, ids, pictures);
    TRY_OUT(&t, 0, BF16, 2, 16, 8);
    try_work(&t, 0, 2 * 16 * 8 * 2 + 2 * 16 * 8, 2 * 16 * 8 * 2);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 2, 16, 8),
                    ids = TRY_VALUE(&t, INPUT, INT64, 2, 16),
                    numbers = TRY_VALUE(&t, INPUT, FP32, 2, 16),
                    short_ids = TRY_VALUE(&t, INPUT, INT64, 2, 15),
                    pictures = TRY_VALUE(&t, INPUT, BF16, 5, 8),
                    narrow = TRY_VALUE(&t, INPUT, BF16, 5, 7),
                    wide = TRY_VALUE(&t, INPUT, FP32, 5, 8);
    TRY_FAIL(
        &t, MASKED_SCATTER, NULL,
        "masked_scatter: x (2, 16, 8), ids (2, 16) and pictures (5, 8): ids are int32 or int64", x,
        numbers, pictures);
    TRY_FAIL(
        &t, MASKED_SCATTER, NULL,
        "masked_scatter: x (2, 16, 8), ids (2, 15) and pictures (5, 8): there is an id for each row of x",
        x, short_ids, pictures);
    TRY_FAIL(
        &t, MASKED_SCATTER, NULL,
        "masked_scatter: x (2, 16, 8), ids (2, 16) and pictures (5, 7): pictures are rows of 8 columns",
        x, ids, narrow);
    TRY_FAIL(&t, MASKED_SCATTER, NULL,
             "masked_scatter: x (2, 16, 8), ids (2, 16) and pictures (5, 8): the dtypes differ", x,
             ids, wide);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_pictures_stand_among_words),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
