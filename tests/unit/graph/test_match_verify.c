/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

static const orr_group both = {.size = 2, .start = 0, .stride = 1};

/* Two ranks of many, as many calls each, but some of groups that the other is not in. */
static void test_groups_that_nobody_recorded(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, A2A, -1, -1, -1, -1}, {0, 20, A2A, -1, -1, -1, 0}, {0, 60, A2A, -1, -1, -1, 1},
        {0, 80, A2A, -1, -1, -1, 2}, {1, 20, A2A, -1, -1, -1, 0}, {1, 40, A2A, -1, -1, -1, -1},
        {1, 60, A2A, -1, -1, -1, 1}, {1, 80, A2A, -1, -1, -1, 2},
    };
    MATCH(rows, NULL);
}

/* The last ones touch, and their ends are 5 ms apart: by order just possible, but order has been
 * wrong before in this bucket, and time leaves as many. */
static void test_time_is_believed_where_order_was_wrong(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, A2A, -1, -1, -1, -1},     {0, 20, A2A, -1, -1, -1, 0},
        {0, 100, A2A, -1, -1, -1, -1},   {0, 200, REDUCE, -1, -1, -1, 1},
        {0, 230, REDUCE, -1, -1, -1, 2}, {0, 240, REDUCE, -1, -1, -1, 3},
        {1, 20, A2A, -1, -1, -1, 0},     {1, 40, A2A, -1, -1, -1, -1},
        {1, 105, A2A, -1, -1, -1, -1},   {1, 200, REDUCE, -1, -1, -1, 1},
        {1, 230, REDUCE, -1, -1, -1, 2}, {1, 240, REDUCE, -1, -1, -1, 3},
    };
    MATCH(rows, NULL);
}

static void test_one_call_of_each_rank(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, A2A, -1, -1, -1, -1},  {0, 20, A2A, -1, -1, -1, 0}, {0, 21, A2A, -1, -1, -1, 1},
        {0, 60, A2A, -1, -1, -1, 2},  {1, 20, A2A, -1, -1, -1, 0}, {1, 21, A2A, -1, -1, -1, 1},
        {1, 40, A2A, -1, -1, -1, -1}, {1, 60, A2A, -1, -1, -1, 2},
    };
    MATCH(rows, NULL);
}

/* One had ended when the other began, though their ends are near. */
static void test_near_is_not_together(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, A2A, -1, -1, -1, -1}, {0, 20, A2A, -1, -1, -1, -1}, {0, 60, A2A, -1, -1, -1, 0},
        {0, 80, A2A, -1, -1, -1, 1}, {1, 21, A2A, -1, -1, -1, -1}, {1, 40, A2A, -1, -1, -1, -1},
        {1, 60, A2A, -1, -1, -1, 0}, {1, 80, A2A, -1, -1, -1, 1},
    };
    MATCH_SETTING(rows, .lasts_ms = 0);
}

static void test_pairs_in_one_bucket(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, -1, -1, 0},
        {0, 40, REDUCE, -1, -1, -1, 2},
        {0, 90, ORR_COLL_BARRIER, -1, -1, -1, 4},
        {1, 0, REDUCE, -1, -1, -1, 0},
        {1, 40, REDUCE, -1, -1, -1, 2},
        {1, 90, ORR_COLL_BARRIER, -1, -1, -1, 4},
        {2, 20, REDUCE, -1, -1, -1, 1},
        {2, 75, REDUCE, -1, -1, -1, 3},
        {2, 90, ORR_COLL_BARRIER, -1, -1, -1, 4},
        {3, 20, REDUCE, -1, -1, -1, 1},
        {3, 75, REDUCE, -1, -1, -1, 3},
        {3, 90, ORR_COLL_BARRIER, -1, -1, -1, 4},
    };
    MATCH(rows, NULL);
}

static void test_windows_that_are_shifted(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, -1, -1, -1},          {0, 20, REDUCE, -1, -1, -1, 0},
        {0, 50, REDUCE, -1, -1, -1, 1},          {0, 60, REDUCE, -1, -1, -1, 2},
        {0, 0, ORR_COLL_BARRIER, -1, -1, -1, 4}, {1, 20, REDUCE, -1, -1, -1, 0},
        {1, 50, REDUCE, -1, -1, -1, 1},          {1, 60, REDUCE, -1, -1, -1, 2},
        {1, 90, REDUCE, -1, -1, -1, -1},         {1, 0, ORR_COLL_BARRIER, -1, -1, -1, 4},
    };
    row shared[sizeof rows / sizeof *rows];
    memcpy(shared, rows, sizeof rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (shared[i].collective == ORR_COLL_BARRIER)
            shared[i].seq = 3; /* certain: the clocks are the same */
    MATCH(shared, &both);
}

static void test_a_known_group_may_be_uneven(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, A2A, -1, -1, -1, 0}, {0, 20, A2A, -1, -1, -1, 1}, {0, 40, A2A, -1, -1, -1, 2},
        {1, 0, A2A, -1, -1, -1, 0}, {1, 30, A2A, -1, -1, -1, 1}, {1, 40, A2A, -1, -1, -1, 2},
    };
    MATCH(rows, &both);
}

/* The ends are too far apart to be found by time, yet only one match is impossible. */
static void test_only_the_impossible_is_dropped(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, A2A, -1, -1, -1, 0},   {0, 20, A2A, -1, -1, -1, 1}, {0, 40, A2A, -1, -1, -1, -1},
        {0, 80, A2A, -1, -1, -1, 2},  {1, 3, A2A, -1, -1, -1, 0},  {1, 17, A2A, -1, -1, -1, 1},
        {1, 60, A2A, -1, -1, -1, -1}, {1, 80, A2A, -1, -1, -1, 2},
    };
    MATCH(rows, NULL);
}

static void test_where_the_clocks_cannot_tell(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, A2A, -1, -1, -1, 0},  {0, 20, A2A, -1, -1, -1, 1}, {0, 60, A2A, -1, -1, -1, 2},
        {1, 20, A2A, -1, -1, -1, 0}, {1, 40, A2A, -1, -1, -1, 1}, {1, 60, A2A, -1, -1, -1, 2},
    };
    MATCH_SETTING(rows, .lasts_ms = 5, .on_host = true);
    row broadcast[sizeof rows / sizeof *rows];
    memcpy(broadcast, rows, sizeof rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        broadcast[i].collective = ORR_COLL_BROADCAST; /* the root need not wait */
    MATCH(broadcast, NULL);
    row numbered[sizeof rows / sizeof *rows];
    memcpy(numbered, rows, sizeof rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        numbered[i].seq = rows[i].want; /* were recorded as one */
    MATCH(numbered, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_that_nobody_recorded),
        cmocka_unit_test(test_time_is_believed_where_order_was_wrong),
        cmocka_unit_test(test_one_call_of_each_rank),
        cmocka_unit_test(test_near_is_not_together),
        cmocka_unit_test(test_pairs_in_one_bucket),
        cmocka_unit_test(test_windows_that_are_shifted),
        cmocka_unit_test(test_a_known_group_may_be_uneven),
        cmocka_unit_test(test_only_the_impossible_is_dropped),
        cmocka_unit_test(test_where_the_clocks_cannot_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
