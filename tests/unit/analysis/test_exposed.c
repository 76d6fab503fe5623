/* SPDX-License-Identifier: Apache-2.0 */
#include "comm_job.h"

static void test_by_group(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t compute = small_stream(&s, 0, 7), comm = small_stream(&s, 0, 20);
    const uint32_t other = small_stream(&s, 0, 21);
    const orr_group_id dp = small_group(&s, "1", "dp", 8), tp = small_group(&s, "2", "tp", 4);
    small_work(&s, ORR_NODE_COMPUTE, "gemm", compute, 0, 100, ORR_NONE);
    small_comm(&s, ORR_COLL_ALL_REDUCE, dp, 8, comm, 50, 100, 1000); /* half hidden */
    small_comm(&s, ORR_COLL_ALL_GATHER, tp, 4, comm, 200, 40, 10);
    small_comm(&s, ORR_COLL_ALL_GATHER, tp, 4, other, 220, 40, 10);    /* 20 of both at once */
    small_comm(&s, ORR_COLL_ALL_GATHER, tp, 4, comm, 80, 20, -1);      /* hidden */
    small_comm(&s, ORR_COLL_BARRIER, ORR_NONE, -1, comm, 300, 0, -1);  /* takes no time */
    small_work(&s, ORR_NODE_COPY, "copy", compute, 300, 10, ORR_NONE); /* hides nothing */
    small_job(&s);
    const orr_exposed *rows;
    size_t n;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_exposed(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 3);
    assert_string_equal(rows[0].group, "dp");
    assert_int_equal(rows[0].count, 1);
    assert_int_equal(rows[0].comm_ns, 100);
    assert_int_equal(rows[0].exposed_ns, 50);
    assert_int_equal(rows[0].bytes, 1000);
    assert_float_equal(rows[0].exposed_frac, 0.5, 1e-12);
    assert_string_equal(rows[1].group, "tp");
    assert_int_equal(rows[1].count, 3);
    assert_int_equal(rows[1].comm_ns, 80);
    assert_int_equal(rows[1].exposed_ns, 60);
    assert_int_equal(rows[1].bytes, 20);
    assert_string_equal(rows[2].group, "");
    assert_int_equal(rows[2].comm_ns, 0);
    assert_true(rows[2].exposed_frac == 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
