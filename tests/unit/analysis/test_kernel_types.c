/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

static const orr_kernel_type *analyze(small *s, size_t *n)
{
    const orr_kernel_type *rows;
    assert_int_equal(orr_analyze_kernel_types(s->job, NULL, s->arena, &rows, n, &s->err), ORR_OK);
    return rows;
}

static void assert_row(const orr_kernel_type *row, const char *type, int64_t sum_ns)
{
    assert_string_equal(row->type, type);
    assert_int_equal(row->sum_ns, sum_ns);
}

/* One rank: computation [0,100), communication [50,150), memory [90,200). A second rank:
 * communication [0,1000) alone. */
static void add_ranks(small *s)
{
    small_work(s, ORR_NODE_COMPUTE, "gemm", small_stream(s, 0, 1), 0, 60, ORR_NONE);
    small_work(s, ORR_NODE_COMPUTE, "gemm", small_stream(s, 0, 4), 60, 40, ORR_NONE);
    small_work(s, ORR_NODE_COLLECTIVE, "nccl", small_stream(s, 0, 2), 50, 100, ORR_NONE);
    small_work(s, ORR_NODE_COPY, "copy", small_stream(s, 0, 3), 90, 110, ORR_NONE);
    small_rank(s);
    small_work(s, ORR_NODE_COLLECTIVE, "nccl", small_stream(s, 0, 2), 0, 1000, ORR_NONE);
    small_rank(s);
    small_job(s);
}

static void test_all_sets(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    add_ranks(&s);
    const orr_kernel_type *rows = analyze(&s, &n);
    assert_int_equal(n, 6);
    assert_row(&rows[0], "COMMUNICATION", 1000);
    assert_row(&rows[1], "COMMUNICATION overlapping MEMORY", 50);
    assert_row(&rows[2], "COMPUTATION", 50);
    assert_row(&rows[3], "MEMORY", 50);
    assert_row(&rows[4], "COMPUTATION overlapping COMMUNICATION", 40);
    assert_row(&rows[5], "COMPUTATION overlapping COMMUNICATION overlapping MEMORY", 10);
    double frac = 0;
    for (size_t i = 0; i < n; i++)
        frac += rows[i].frac;
    assert_float_equal(frac, 1, 1e-12);
    small_end(&s);
}

static void test_allocation_failure(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    const orr_kernel_type *rows;
    add_ranks(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_kernel_types(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 6);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sets),
        cmocka_unit_test(test_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
