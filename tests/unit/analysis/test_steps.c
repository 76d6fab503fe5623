/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

/* Three steps; the work of a step runs when the next has begun, and belongs to the step that
 * launched it all the same. Work launched between steps belongs to none. */
static void add_steps(small *s)
{
    const uint32_t cpu = small_thread(s, 1), a = small_stream(s, 0, 7), b = small_stream(s, 0, 20);
    for (int i = 0; i < 3; i++) {
        const int64_t at = 1000 * i;
        const char name[] = {
            'P', 'r', 'o', 'f', 'i', 'l', 'e', 'r', 'S', 't', 'e', 'p', '#', (char)('5' + i), '\0'};
        const uint32_t step = small_node(s, ORR_NODE_ANNOTATION, name, cpu, at, 900, ORR_NONE);
        small_work(s, ORR_NODE_COMPUTE, "gemm", a, at + 950, 100,
                   small_call(s, cpu, at + 10, 5, step));
        small_work(s, ORR_NODE_COLLECTIVE, "nccl", b, at + 1030, 50,
                   small_call(s, cpu, at + 20, 5, step));
        small_work(s, ORR_NODE_COPY, "Memcpy", a, at + 1090, 10,
                   small_call(s, cpu, at + 30, 5, step));
    }
    small_work(s, ORR_NODE_COMPUTE, "between", a, 4500, 7, small_call(s, cpu, 950, 5, ORR_NONE));
    small_job(s);
}

static void assert_step(const orr_step_summary *row, int i)
{
    assert_int_equal(row->number, 5 + i);
    assert_int_equal(row->start_ns, 1000 * i);
    assert_int_equal(row->duration_ns, 900);
    assert_int_equal(row->device_span_ns, 150);
    assert_int_equal(row->compute_ns, 100);
    assert_int_equal(row->exposed_comm_ns, 30);
    assert_int_equal(row->idle_ns, 10);
}

static void test_steps(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_step_summary *rows;
    size_t n;
    add_steps(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_steps(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++)
        assert_step(&rows[i], i);
    assert_string_equal(rows[1].name, "ProfilerStep#6");
    small_end(&s);
}

static void test_some_steps(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_step_summary *rows;
    size_t n;
    orr_analysis_options options = small_options();
    add_steps(&s);
    options.step_first = 1;
    assert_int_equal(orr_analyze_steps(s.job, &options, s.arena, &rows, &n, &s.err), ORR_OK);
    assert_int_equal(n, 2);
    assert_step(&rows[0], 1);
    options.step_last = 1;
    assert_int_equal(orr_analyze_steps(s.job, &options, s.arena, &rows, &n, &s.err), ORR_OK);
    assert_int_equal(n, 1);
    options.annotation = "no such thing";
    assert_int_equal(orr_analyze_steps(s.job, &options, s.arena, &rows, &n, &s.err), ORR_OK);
    assert_int_equal(n, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_some_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
