/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "cost/models/table.h"

enum { MOST = 400, ASKED = 200 };

/* Coordinates out of few values, so that many points are equally far; some do not vary at all. */
static uint32_t draw(orr_random *random, orr_table_series *series, orr_table_point *points)
{
    const uint32_t n = 1 + (uint32_t)orr_random_below(random, MOST);
    const uint64_t values = 1 + orr_random_below(random, 9);
    const uint32_t fixed = (uint32_t)orr_random_below(random, 6);

    memset(points, 0, n * sizeof *points);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < 4; c++)
            points[i].coord[c] = c == fixed ? 3 : (double)orr_random_below(random, values);
    *series = (orr_table_series){.family = ORR_FAMILY_GEMM, .n_dims = 4, .points = points, .n = n};
    return n;
}

static uint32_t brute_force(const orr_table_series *series, const orr_table_point *wanted,
                            uint32_t most, orr_table_neighbour *found)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < series->n; i++) {
        double squared = 0;
        for (int c = 0; c < 4; c++)
            squared += pow(series->points[i].coord[c] - wanted->coord[c], 2);
        if (n == most && squared >= found[n - 1].squared)
            continue;
        uint32_t at = n < most ? n++ : n - 1;
        for (; at > 0 && squared < found[at - 1].squared; at--)
            found[at] = found[at - 1];
        found[at] = (orr_table_neighbour){squared, i};
    }
    return n;
}

static void the_same_as_looking_at_all(void **state)
{
    (void)state;
    static orr_table_point points[MOST];
    orr_random random = orr_random_of(11, 0);

    for (int round = 0; round < 300; round++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_table_series series;
        draw(&random, &series, points);
        assert_int_equal(orr_table_index(&series, arena, NULL), ORR_OK);
        for (int i = 0; i < ASKED / 10; i++) {
            orr_table_neighbour want[ORR_TABLE_NEIGHBOURS_MAX], got[ORR_TABLE_NEIGHBOURS_MAX];
            const uint32_t most = 1 + (uint32_t)orr_random_below(&random, ORR_TABLE_NEIGHBOURS_MAX);
            orr_table_point wanted = {0};
            for (int c = 0; c < 4; c++) /* in the box, as who asks is */
                wanted.coord[c] = series.low[c] + (series.high[c] - series.low[c]) *
                                                      (double)orr_random_below(&random, 9) / 8;
            const uint32_t n = brute_force(&series, &wanted, most, want);
            assert_int_equal(orr_table_nearest(&series, &wanted, most, got), n);
            for (uint32_t k = 0; k < n; k++) {
                assert_true(got[k].squared == want[k].squared);
                assert_int_equal(got[k].point, want[k].point);
            }
        }
        orr_arena_free(arena);
    }
}

static void the_box_is_around_all(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_table_point points[] = {{.coord = {0, 5, 2, 9}}, {.coord = {0, 3, 7, 8}}};
    orr_table_series series = {.family = ORR_FAMILY_GEMM, .n_dims = 4, .points = points, .n = 2};

    assert_int_equal(orr_table_index(&series, arena, NULL), ORR_OK);
    assert_true(series.low[1] == 3 && series.high[1] == 5);
    assert_true(series.low[0] == 0 && series.high[0] == 0);
    assert_true(series.low[3] == 8 && series.high[3] == 9);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_as_looking_at_all),
        cmocka_unit_test(the_box_is_around_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
