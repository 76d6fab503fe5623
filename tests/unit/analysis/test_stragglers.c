/* SPDX-License-Identifier: Apache-2.0 */
#include "comm_job.h"

static const orr_straggler *analyze(small *s, const orr_analysis_options *options, size_t *n)
{
    const orr_straggler *rows;
    assert_int_equal(orr_analyze_stragglers(s->job, options, s->arena, &rows, n, &s->err), ORR_OK);
    return rows;
}

/* Each rank arrives at its time, and all leave at 1000. */
static void ranks(small *s, const int64_t *arrival_ns, uint32_t n)
{
    *s = small_begin();
    for (uint32_t rank = 0; rank < n; rank++) {
        const uint32_t gpu = small_stream(s, 0, 7);
        const orr_group_id world = small_group(s, "0", "", n);
        small_node(s, ORR_NODE_HOST_OP, "mark", small_thread(s, 1), 0, 1, ORR_NONE);
        small_comm(s, ORR_COLL_ALL_REDUCE, world, (int32_t)n, gpu, arrival_ns[rank],
                   1000 - arrival_ns[rank], 8);
        small_rank(s);
    }
    small_job(s);
}

static void test_late_ranks_wait_least(void **state)
{
    (void)state;
    small s;
    ranks(&s, (int64_t[]){200, 200, 900, 180, 600}, 5);
    const orr_straggler *rows;
    size_t n;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_stragglers(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    assert_int_equal(rows[0].rank, 2);
    assert_int_equal(rows[0].comm_ns, 100);
    assert_int_equal(rows[0].late_ns, 700); /* after the median, 200 */
    assert_float_equal(rows[0].score, 700.0 / 800, 1e-12);
    assert_int_equal(rows[1].rank, 4);
    assert_int_equal(rows[1].late_ns, 400);

    orr_analysis_options options = small_options();
    options.straggler_count = 0; /* all */
    rows = analyze(&s, &options, &n);
    assert_int_equal(n, 5);
    assert_int_equal(rows[4].rank, 3);
    assert_int_equal(rows[4].late_ns, 0);
    assert_true(rows[4].score < 0);
    small_end(&s);
}

static void test_nobody_to_compare_with(void **state)
{
    (void)state;
    small s;
    size_t n;
    ranks(&s, (int64_t[]){0}, 1);
    analyze(&s, NULL, &n);
    assert_int_equal(n, 0);
    small_end(&s);

    s = small_begin(); /* ranks that do not communicate */
    for (int rank = 0; rank < 2; rank++) {
        small_work(&s, ORR_NODE_COMPUTE, "gemm", small_stream(&s, 0, 7), 0, 10, ORR_NONE);
        small_rank(&s);
    }
    small_job(&s);
    analyze(&s, NULL, &n);
    assert_int_equal(n, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_ranks_wait_least),
        cmocka_unit_test(test_nobody_to_compare_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
