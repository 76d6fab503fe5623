/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

static void test_shares(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 20);
    small_work(&s, ORR_NODE_COMPUTE, "gemm", a, 0, 100, ORR_NONE);
    small_work(&s, ORR_NODE_COLLECTIVE, "nccl", b, 75, 100, ORR_NONE);
    small_work(&s, ORR_NODE_COPY, "Memcpy", b, 200, 50, ORR_NONE);
    small_rank(&s);
    /* no communication: a share of nothing is 0, not NaN */
    small_work(&s, ORR_NODE_COMPUTE, "gemm", small_stream(&s, 0, 7), 0, 100, ORR_NONE);
    small_rank(&s);
    small_job(&s);
    const orr_overlap *rows;
    size_t n;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_overlap(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    assert_int_equal(rows[0].comm_ns, 100);
    assert_int_equal(rows[0].overlapped_ns, 25);
    assert_float_equal(rows[0].overlap_frac, 0.25, 1e-12);
    assert_int_equal(rows[1].rank, 1);
    assert_int_equal(rows[1].comm_ns, 0);
    assert_true(rows[1].overlap_frac == 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
