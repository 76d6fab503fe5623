/* SPDX-License-Identifier: Apache-2.0 */
#include "../model_text.h"

static void points_are_read_with_their_place(void **state)
{
    (void)state;
    static const char TEXT[] =
        BODY(TABLE(GEMM, SERIES(POINT("5000", "64") "," POINT("7000.25", "128"))));
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_cost_file *file;
    orr_error err;

    assert_int_equal(model_from(TEXT, sizeof TEXT - 1, arena, &file, &err), ORR_OK);
    assert_int_equal(file->table->n, 1);
    const orr_table_series *series = file->table->series;
    assert_int_equal(series->n, 2);
    assert_int_equal(series->dtype, ORR_DTYPE_FP16);
    assert_true(series->points[1].ns == 7000.25);
    assert_int_equal(series->points[1].count, 3);
    assert_int_equal(series->points[1].dims[1], 128);
    assert_true(series->points[1].coord[1] == 7);
    assert_true(series->low[1] == 6 && series->high[1] == 7);
    const orr_table_family *family = &file->table->families[ORR_FAMILY_GEMM];
    assert_true(family->present && family->neighbours == 2 && !family->trend);
    assert_true(isnan(family->error_frac) && family->repeat_frac == 0.5);
    orr_arena_free(arena);
}

#define ONE(series) BODY(TABLE(GEMM, series))

static void hostile_tables_are_refused(void **state)
{
    (void)state;
    refuse(BODY(TABLE("{}", "")), "a family without its name");
    refuse(BODY(TABLE(GEMM "," GEMM, "")), "or twice");
    refuse(BODY(TABLE("{\"family\":\"gemmm\"}", "")), "family: it is none");
    refuse(BODY(TABLE("{\"family\":\"gemm\",\"neighbours\":9}", "")),
           "neighbours: a whole number from 0 to 8");
    refuse(BODY(TABLE("{\"family\":\"gemm\",\"neighbours\":-1}", "")), "neighbours");
    refuse(BODY(TABLE("{\"family\":\"gemm\",\"error_frac\":-1}", "")), "error_frac");
    refuse(BODY(TABLE("{\"family\":\"gemm\",\"trend\":1}", "")), "trend: true or false");
    refuse(BODY(TABLE("{\"family\":\"gemm\",\"magic\":1}", "")), "no family of a table has");
    refuse(BODY(TABLE("", SERIES(POINT("1", "1")))), "a family that the table does not list");
    refuse(ONE(SERIES("")), "a series without points");
    refuse(ONE("{\"family\":\"gemm\"}"), "a series without points");
    refuse(ONE("{\"points\":[]}"), "does not say what it is of");
    refuse(ONE("{\"family\":\"gemm\",\"n_dims\":9}"), "n_dims: a whole number from 0 to 8");
    refuse(ONE("{\"copy\":4}"), "copy: a whole number from 0 to 3");
    refuse(ONE("{\"dtype\":\"fp17\"}"), "dtype: it is none");
    refuse(ONE(SERIES(POINT("0", "1"))), "ns of a point");
    refuse(ONE(SERIES(POINT("-5", "1"))), "ns of a point");
    refuse(ONE(SERIES(POINT("1e300", "1"))), "ns of a point");
    refuse(ONE(SERIES(POINT("null", "1"))), "ns of a point");
    refuse(ONE(SERIES(POINT("NaN", "1"))), "byte ");
    refuse(ONE(SERIES(POINT("5", "-1"))), "dim of a point");
    refuse(ONE(SERIES(POINT("5", "1e99"))), "dim of a point");
    refuse(ONE(SERIES("[1,0,1,1,1,1,1,1,1]")), "count of a point");
    refuse(ONE(SERIES("[1,3,1,1,1,1,1,1]")), "a point of 8 numbers, 9 are due");
    refuse(ONE(SERIES("[1,3,1,1,1,1,1,1,1,1]")), "too many numbers");
    refuse(ONE(SERIES("[]")), "a point of 0 numbers");
    refuse(ONE(SERIES(POINT("5", "2") "," POINT("5", "1"))), "points out of order");
    refuse(ONE(SERIES(POINT("5", "2") "," POINT("6", "2"))), "points out of order");
    refuse(ONE(SERIES(POINT("5", "2")) "," SERIES(POINT("5", "2"))), "series out of order");
    refuse(BODY("\"table\":{\"series\":[],\"series\":[]}"), "or twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_read_with_their_place),
        cmocka_unit_test(hostile_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
