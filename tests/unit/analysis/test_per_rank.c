/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/common.h"

static orr_status two_rows_a_rank(orr_analysis_run *frame, const orr_view *view)
{
    for (int i = 0; i < 2; i++) {
        uint32_t *row = orr_analysis_add_row(frame);
        if (row == NULL)
            return orr_fail_memory(frame->err);
        assert_int_equal(*row, 0);
        *row = 10 * view->rank + (uint32_t)i;
    }
    return ORR_OK;
}

static orr_status fails_at_rank_1(orr_analysis_run *frame, const orr_view *view)
{
    if (view->rank == 1)
        return orr_fail(frame->err, ORR_INVALID, "rank 1");
    return two_rows_a_rank(frame, view);
}

static void three_ranks(small *s)
{
    for (int i = 0; i < 3; i++) {
        small_work(s, ORR_NODE_COMPUTE, "k", small_stream(s, 0, 7), 0, 10, ORR_NONE);
        small_rank(s);
    }
    small_job(s);
}

static void test_rows_in_order_of_rank(void **state)
{
    (void)state;
    small s = small_begin();
    const void *rows;
    size_t n;
    three_ranks(&s);
    const orr_analysis_request request = {s.job, NULL, s.arena, &s.err};
    assert_int_equal(orr_analyze_ranks(&request, sizeof(uint32_t), two_rows_a_rank, &rows, &n),
                     ORR_OK);
    assert_int_equal(n, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(((const uint32_t *)rows)[i], 10 * (i / 2) + i % 2);
    small_end(&s);
}

static void test_failure_writes_nothing(void **state)
{
    (void)state;
    small s = small_begin();
    const void *rows = NULL;
    size_t n = 42;
    three_ranks(&s);
    const orr_analysis_request request = {s.job, NULL, s.arena, &s.err};
    assert_int_equal(orr_analyze_ranks(&request, sizeof(uint32_t), fails_at_rank_1, &rows, &n),
                     ORR_INVALID);
    assert_null(rows);
    assert_int_equal(n, 42);
    assert_string_equal(s.err.text, "rank 1");
    small_end(&s);
}

static void test_allocation_failure(void **state)
{
    (void)state;
    small s = small_begin();
    const void *rows;
    size_t n;
    three_ranks(&s);
    SMALL_SURVIVES_NO_MEMORY(
        orr_analyze_ranks(&(orr_analysis_request){s.job, NULL, s.arena, &s.err}, sizeof(uint32_t),
                          two_rows_a_rank, &rows, &n));
    assert_int_equal(n, 6);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_in_order_of_rank),
        cmocka_unit_test(test_failure_writes_nothing),
        cmocka_unit_test(test_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
