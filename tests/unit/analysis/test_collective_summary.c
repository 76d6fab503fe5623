/* SPDX-License-Identifier: Apache-2.0 */
#include "comm_job.h"

static void test_sums(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t gpu = small_stream(&s, 0, 7);
    const orr_group_id world = small_group(&s, "0", "default_pg", 2);
    small_comm(&s, ORR_COLL_ALL_REDUCE, world, 2, gpu, 0, 100, 1000);
    small_comm(&s, ORR_COLL_ALL_REDUCE, world, 2, gpu, 200, 400, 1000);
    small_comm(&s, ORR_COLL_ALL_REDUCE, world, 2, gpu, 700, 200, 1000);
    small_comm(&s, ORR_COLL_ALL_REDUCE, world, 2, gpu, 1000, 150, 4000);  /* another size */
    small_comm(&s, ORR_COLL_ALL_GATHER, world, 2, gpu, 1200, 9000, 4000); /* another kind */
    small_job(&s);
    const orr_collective_summary *rows;
    size_t n;
    SMALL_SURVIVES_NO_MEMORY(
        orr_analyze_collective_summary(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 3); /* most time first */
    assert_string_equal(rows[0].collective, "all_gather");
    assert_string_equal(rows[1].collective, "all_reduce");
    assert_string_equal(rows[1].group, "default_pg");
    assert_int_equal(rows[1].group_size, 2);
    assert_int_equal(rows[1].bytes, 1000);
    assert_int_equal(rows[1].count, 3);
    assert_int_equal(rows[1].sum_ns, 700);
    assert_int_equal(rows[1].skew_sum_ns, 0);
    assert_float_equal(rows[1].transfer_mean_ns, 700.0 / 3, 1e-9);
    /* 10, 2.5 and 5 GB/s; with two ranks the factor of an all-reduce is 1 */
    assert_float_equal(rows[1].algbw_bytes_per_s, 5e9, 1);
    assert_float_equal(rows[1].busbw_bytes_per_s, 5e9, 1);
    assert_int_equal(rows[2].bytes, 4000);
    small_end(&s);
}

static void test_skew_of_two_ranks(void **state)
{
    (void)state;
    small s = small_begin();
    for (int rank = 0; rank < 2; rank++) {
        const uint32_t gpu = small_stream(&s, 0, 7);
        const orr_group_id world = small_group(&s, "0", "", 2);
        small_comm(&s, ORR_COLL_ALL_REDUCE, world, 2, gpu, rank * 30, 100 - rank * 30, 1000);
        small_comm(&s, ORR_COLL_ALL_REDUCE, world, 2, gpu, 200 + rank * 50, 100 - rank * 50, 1000);
        small_node(&s, ORR_NODE_HOST_OP, "mark", small_thread(&s, 1), 0, 1, ORR_NONE);
        small_rank(&s);
    }
    small_job(&s);
    const orr_collective_summary *rows;
    size_t n;
    assert_int_equal(orr_analyze_collective_summary(s.job, NULL, s.arena, &rows, &n, &s.err),
                     ORR_OK);
    assert_int_equal(n, 1);
    assert_string_equal(rows[0].group, "0"); /* no description: the name */
    assert_int_equal(rows[0].count, 2);
    assert_int_equal(rows[0].skew_sum_ns, 80);
    assert_int_equal(rows[0].skew_max_ns, 50);
    assert_float_equal(rows[0].transfer_mean_ns, 60, 1e-9);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_skew_of_two_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
