/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

/* Stream 7: [0,100) [200,300) [310,400) [50400,50500), the second launched at 150 (the host was
 * late), the third and fourth in time. Stream 9: one kernel. */
static void add_streams(small *s)
{
    const uint32_t cpu = small_thread(s, 1), a = small_stream(s, 0, 7);
    const uint32_t calls[] = {
        small_call(s, cpu, 0, 1, ORR_NONE), small_call(s, cpu, 150, 1, ORR_NONE),
        small_call(s, cpu, 160, 1, ORR_NONE), small_call(s, cpu, 170, 1, ORR_NONE)};
    small_work(s, ORR_NODE_COMPUTE, "k", a, 0, 100, calls[0]);
    small_work(s, ORR_NODE_COMPUTE, "k", a, 200, 100, calls[1]);
    small_work(s, ORR_NODE_COMPUTE, "k", a, 310, 90, calls[2]);
    small_work(s, ORR_NODE_COMPUTE, "k", a, 50400, 100, calls[3]);
    small_work(s, ORR_NODE_COPY, "Memcpy", small_stream(s, 0, 9), 0, 10, ORR_NONE);
    small_job(s);
}

static void test_causes(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_idle *rows;
    size_t n;
    add_streams(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_idle(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 6);
    const char *const causes[] = {"host_wait", "kernel_wait", "other"};
    const int64_t want[] = {100, 10, 50000, 0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(rows[i].stream, i < 3 ? "7" : "9");
        assert_string_equal(rows[i].cause, causes[i % 3]);
        assert_int_equal(rows[i].idle_ns, want[i]);
        assert_float_equal(rows[i].frac, (double)want[i] / 50110, 1e-12);
    }
    small_end(&s);
}

static void test_threshold(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_idle *rows;
    size_t n;
    orr_analysis_options options = small_options();
    options.kernel_wait_ns = 10; /* a gap of exactly that long is none */
    add_streams(&s);
    assert_int_equal(orr_analyze_idle(s.job, &options, s.arena, &rows, &n, &s.err), ORR_OK);
    assert_int_equal(rows[1].idle_ns, 0);
    assert_int_equal(rows[2].idle_ns, 50010);
    small_end(&s);
}

/* Streams of some devices run work side by side: a gap is where nothing runs. */
static void test_overlapping_work(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t a = small_stream(&s, 0, 7);
    const orr_idle *rows;
    size_t n;
    small_work(&s, ORR_NODE_COMPUTE, "long", a, 0, 1000, ORR_NONE);
    small_work(&s, ORR_NODE_COMPUTE, "short", a, 100, 50, ORR_NONE);
    small_work(&s, ORR_NODE_COMPUTE, "next", a, 1005, 10, ORR_NONE);
    small_job(&s);
    assert_int_equal(orr_analyze_idle(s.job, NULL, s.arena, &rows, &n, &s.err), ORR_OK);
    assert_int_equal(rows[0].idle_ns, 0);
    assert_int_equal(rows[1].idle_ns, 5);
    assert_int_equal(rows[2].idle_ns, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_overlapping_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
