/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

/* A call that launches two kernels (a graph), one longer than its kernel, one orphan. */
static void add_launches(small *s)
{
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    const uint32_t graph = small_call(s, cpu, 0, 100000, ORR_NONE);
    const uint32_t one = small_call(s, cpu, 200000, 4000, ORR_NONE);
    small_work(s, ORR_NODE_COMPUTE, "a", gpu, 110000, 20000, graph);
    small_work(s, ORR_NODE_COMPUTE, "b", gpu, 150000, 30000, graph);
    small_work(s, ORR_NODE_SET, "c", gpu, 202000, 1000, one); /* before its call ended */
    small_work(s, ORR_NODE_COMPUTE, "d", gpu, 50, 10, ORR_NONE);
    small_work(s, ORR_NODE_COMPUTE, "e", gpu, 400000, 10, small_call(s, cpu, 210000, 10, ORR_NONE));
    small_job(s);
}

static void test_rows(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_launch *rows;
    size_t n;
    add_launches(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_launches(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 4);
    const int64_t delays[] = {10000, 50000, 0, 189990};
    const char *const names[] = {"a", "b", "c", "e"};
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(rows[i].name, names[i]);
        assert_int_equal(rows[i].launch_delay_ns, delays[i]);
    }
    assert_int_equal(rows[2].cpu_duration_ns, 4000);
    assert_int_equal(rows[2].gpu_duration_ns, 1000);
    small_end(&s);
}

static void test_summary(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_launch_summary *row;
    size_t n;
    add_launches(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_launch_summary(s.job, NULL, s.arena, &row, &n, &s.err));
    assert_int_equal(n, 1);
    assert_int_equal(row->launches, 4);
    assert_int_equal(row->orphans, 1);
    assert_int_equal(row->short_kernels, 3);
    assert_int_equal(row->long_calls, 1); /* the graph launch, once */
    assert_int_equal(row->long_delays, 1);
    assert_int_equal(row->cpu_ns, 100000 + 4000 + 10);
    assert_int_equal(row->gpu_ns, 51010);
    assert_int_equal(row->delay_ns, 249990);
    assert_int_equal(row->delay_median_ns, 30000);
    assert_int_equal(row->delay_p90_ns, 147993); /* 0.7 of the way from 50000 to 189990 */
    assert_int_equal(row->delay_max_ns, 189990);
    small_end(&s);
}

static void test_no_device(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_launch *rows;
    const orr_launch_summary *summary;
    size_t n;
    small_node(&s, ORR_NODE_HOST_OP, "aten::mm", small_thread(&s, 1), 0, 5, ORR_NONE);
    small_job(&s);
    assert_int_equal(orr_analyze_launches(s.job, NULL, s.arena, &rows, &n, &s.err), ORR_OK);
    assert_int_equal(n, 0);
    assert_int_equal(orr_analyze_launch_summary(s.job, NULL, s.arena, &summary, &n, &s.err),
                     ORR_OK);
    assert_int_equal(n, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_no_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
