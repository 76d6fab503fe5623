/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

static void test_by_order_in_each_collective(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, -1, -1, 0}, {0, 2, A2A, -1, -1, -1, 1},    {0, 4, REDUCE, -1, -1, -1, 2},
        {1, 2, A2A, -1, -1, -1, 1},    {1, 0, REDUCE, -1, -1, -1, 0}, {1, 4, REDUCE, -1, -1, -1, 2},
    };
    MATCH(rows, NULL);
}

static void test_group_sizes_are_kept_apart(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, 3, -1, -1, 0}, {0, 2, REDUCE, 2, -1, -1, 1}, {1, 2, REDUCE, 2, -1, -1, 1},
        {1, 0, REDUCE, 3, -1, -1, 0}, {2, 0, REDUCE, 3, -1, -1, 0},
    };
    MATCH(rows, NULL);
}

static void test_more_members_than_the_group_has_is_no_match(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, 2, -1, -1, -1},
        {1, 0, REDUCE, 2, -1, -1, -1},
        {2, 0, REDUCE, 2, -1, -1, -1},
    };
    MATCH(rows, NULL);
    MATCH(rows, (&(orr_group){.size = 2, .start = -1}));
}

static void test_by_number(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, 7, -1, 0}, {0, 2, REDUCE, -1, 8, -1, 1}, {0, 4, REDUCE, -1, 9, -1, -1},
        {1, 0, REDUCE, -1, 8, -1, 1}, {1, 2, REDUCE, -1, 7, -1, 0}, {2, 0, REDUCE, -1, 8, -1, 1},
    };
    MATCH(rows, (&(orr_group){.size = 3, .start = 0, .stride = 1}));
}

static void test_one_number_for_several(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, 7, -1, 0}, {0, 2, REDUCE, -1, 7, -1, 1}, {0, 4, REDUCE, -1, 8, -1, 2},
        {1, 0, REDUCE, -1, 7, -1, 0}, {1, 2, REDUCE, -1, 7, -1, 1}, {1, 4, REDUCE, -1, 8, -1, 2},
    };
    MATCH(rows, (&(orr_group){.size = 2, .start = 0, .stride = 1}));
}

static void test_one_number_again_later(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, 7, -1, 0}, {0, 2, REDUCE, -1, 8, -1, 1}, {0, 4, REDUCE, -1, 7, -1, 2},
        {1, 0, REDUCE, -1, 7, -1, 0}, {1, 2, REDUCE, -1, 7, -1, 2}, {1, 4, REDUCE, -1, 8, -1, 1},
    };
    MATCH(rows, (&(orr_group){.size = 2, .start = 0, .stride = 1}));
}

static void test_number_missing_falls_back_to_order(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, 7, -1, 0},
        {0, 2, REDUCE, -1, -1, -1, 1},
        {1, 0, REDUCE, -1, 70, -1, 0},
        {1, 2, REDUCE, -1, 80, -1, 1},
    };
    MATCH(rows, (&(orr_group){.size = 2, .start = 0, .stride = 1}));
}

static void test_recording_that_began_late(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, -1, -1, -1}, {0, 10, REDUCE, -1, -1, -1, 0},
        {0, 13, REDUCE, -1, -1, -1, 1}, {0, 30, REDUCE, -1, -1, -1, 2},
        {1, 10, REDUCE, -1, -1, -1, 0}, {1, 13, REDUCE, -1, -1, -1, 1},
        {1, 30, REDUCE, -1, -1, -1, 2},
    };
    MATCH(rows, NULL);
}

static void test_recording_that_ended_early(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, REDUCE, -1, -1, -1, 0},  {0, 10, REDUCE, -1, -1, -1, 1},
        {1, 0, REDUCE, -1, -1, -1, 0},  {1, 10, REDUCE, -1, -1, -1, 1},
        {1, 13, REDUCE, -1, -1, -1, 2}, {1, 30, REDUCE, -1, -1, -1, 3},
        {2, 1, REDUCE, -1, -1, -1, 0},  {2, 11, REDUCE, -1, -1, -1, 1},
        {2, 14, REDUCE, -1, -1, -1, 2}, {2, 31, REDUCE, -1, -1, -1, 3},
    };
    MATCH(rows, NULL);
}

/* The clock of rank 1 is 1000 ms ahead, as the barriers say; the rhythm of the all-reduces alone
 * fits better the wrong way round. */
static void test_lengths_differ_and_so_do_clocks(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, ORR_COLL_BARRIER, -1, -1, -1, 9},
        {0, 10, REDUCE, -1, -1, -1, -1},
        {0, 20, REDUCE, -1, -1, -1, 0},
        {0, 31, REDUCE, -1, -1, -1, 1},
        {0, 38, REDUCE, -1, -1, -1, 2},
        {0, 52, REDUCE, -1, -1, -1, 3},
        {1, 1000, ORR_COLL_BARRIER, -1, -1, -1, 9},
        {1, 1020, REDUCE, -1, -1, -1, 0},
        {1, 1030, REDUCE, -1, -1, -1, 1},
        {1, 1040, REDUCE, -1, -1, -1, 2},
        {1, 1050, REDUCE, -1, -1, -1, 3},
    };
    MATCH(rows, NULL);
}

/* Nothing is certain, but the rhythm of the all-to-alls tells the clocks, and those then tell the
 * place of the one all-reduce, which by itself seems nearer to the wrong one. */
static void test_long_lines_come_before_short_ones(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 1001, A2A, -1, -1, -1, -1},   {0, 1010, REDUCE, -1, -1, -1, -1},
        {0, 1020, REDUCE, -1, -1, -1, 0}, {0, 1100, A2A, -1, -1, -1, 1},
        {0, 1130, A2A, -1, -1, -1, 2},    {0, 1190, A2A, -1, -1, -1, 3},
        {0, 1210, A2A, -1, -1, -1, 4},    {1, 20, REDUCE, -1, -1, -1, 0},
        {1, 100, A2A, -1, -1, -1, 1},     {1, 130, A2A, -1, -1, -1, 2},
        {1, 190, A2A, -1, -1, -1, 3},     {1, 210, A2A, -1, -1, -1, 4},
    };
    MATCH(rows, NULL);
}

static void test_send_and_recv(void **state)
{
    (void)state;
    const row rows[] = {
        {0, 0, SEND, -1, 1, 1, 0},  {0, 2, SEND, -1, 2, 2, 1},   {0, 4, SEND, -1, 3, 1, 2},
        {0, 6, RECV, -1, 4, 1, 3},  {0, 8, RECV, -1, 5, -1, -1}, /* from whom? */
        {1, 0, RECV, -1, 9, 0, 0},  {1, 4, RECV, -1, 9, 0, 2},   {1, 6, SEND, -1, 9, 0, 3},
        {1, 8, SEND, -1, 9, 2, -1}, /* nobody receives it */
        {2, 2, RECV, -1, 9, 0, 1},
    };
    MATCH(rows, NULL);
}

static void test_peers_are_ranks_of_the_group(void **state)
{
    (void)state;
    const row rows[] = {
        {4, 0, SEND, -1, -1, 1, 0},
        {6, 0, RECV, -1, -1, 0, 0},
    };
    MATCH(rows, (&(orr_group){.size = 2, .start = 4, .stride = 2}));
    const row alone[] = {
        {4, 0, SEND, -1, -1, 1, -1},
        {6, 0, RECV, -1, -1, 0, -1},
    };
    MATCH(alone, (&(orr_group){.size = 2, .start = 4, .stride = 1})); /* 4 and 5 */
}

static void test_without_times_by_node(void **state)
{
    (void)state;
    const row rows[] = {
        {0, -1, REDUCE, -1, -1, -1, 0}, {0, -1, REDUCE, -1, -1, -1, 1},
        {1, -1, REDUCE, -1, -1, -1, 0}, {1, -1, REDUCE, -1, -1, -1, 1},
        {2, -1, REDUCE, -1, -1, -1, 0},
    };
    MATCH(rows, NULL);
}

static void test_one_rank_matches_nothing(void **state)
{
    (void)state;
    const row rows[] = {{3, 0, REDUCE, -1, -1, -1, -1}, {3, 5, REDUCE, -1, -1, -1, -1}};
    MATCH(rows, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_order_in_each_collective),
        cmocka_unit_test(test_group_sizes_are_kept_apart),
        cmocka_unit_test(test_more_members_than_the_group_has_is_no_match),
        cmocka_unit_test(test_by_number),
        cmocka_unit_test(test_one_number_for_several),
        cmocka_unit_test(test_one_number_again_later),
        cmocka_unit_test(test_number_missing_falls_back_to_order),
        cmocka_unit_test(test_recording_that_began_late),
        cmocka_unit_test(test_recording_that_ended_early),
        cmocka_unit_test(test_lengths_differ_and_so_do_clocks),
        cmocka_unit_test(test_long_lines_come_before_short_ones),
        cmocka_unit_test(test_send_and_recv),
        cmocka_unit_test(test_peers_are_ranks_of_the_group),
        cmocka_unit_test(test_without_times_by_node),
        cmocka_unit_test(test_one_rank_matches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
