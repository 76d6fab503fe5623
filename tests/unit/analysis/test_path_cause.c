/* SPDX-License-Identifier: Apache-2.0 */
#include "path_check.h"

/* Causes that the recording does not state: work that began when other work ended, launches that
 * are missing, threads that wait for a communication on another. The default of
 * options->kernel_wait_ns, 30 us, is what "just" means. */

static void launched(small *s, uint32_t cpu, uint32_t lane, const char *name, int64_t call_ns,
                     int64_t start_ns, int64_t duration_ns)
{
    small_work(s, ORR_NODE_COMPUTE, name, lane, start_ns, duration_ns,
               small_call(s, cpu, call_ns, 2, ORR_NONE));
}

/* b is launched at 10 and begins at 200002, just when a of the other stream is over. */
static void test_released_by_another_stream(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    launched(&s, cpu, small_stream(&s, 0, 7), "a", 0, 5, 199995);
    launched(&s, cpu, small_stream(&s, 0, 20), "b", 10, 200002, 100);
    launched(&s, cpu, small_stream(&s, 1, 7), "other device", 20, 30, 199971);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("a", LAUNCH, true, 0, 5), PIECE("a", COMPUTE, false, 5, 200000),
               PIECE("b", KERNEL_GAP, true, 200000, 200002),
               PIECE("b", COMPUTE, false, 200002, 200102));
    small_end(&s);
}

/* A device clock that is behind: the kernel seems to start before its launch and before the end
 * of what its stream did before. Both count as of its start, and there the stream decides. */
static void test_clocks_that_disagree(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t first = small_call(&s, cpu, 0, 5, ORR_NONE);
    const uint32_t second = small_call(&s, cpu, 60, 5, ORR_NONE);
    const uint32_t a = small_work(&s, ORR_NODE_COMPUTE, "a", gpu, 10, 45, first);
    const uint32_t b = small_work(&s, ORR_NODE_COMPUTE, "b", gpu, 50, 50, second);
    small_dep(&s, b, a, ORR_DEP_STREAM);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("a", LAUNCH, true, 0, 10), PIECE("a", COMPUTE, false, 10, 50),
               PIECE("b", COMPUTE, false, 50, 100));
    small_end(&s);
}

/* Nothing ended then: a slow launch stays a launch, and a gap in a full queue has no cause. */
static void test_late_for_no_known_reason(void **state)
{
    (void)state;
    small s = small_begin();
    uint32_t cpu = small_thread(&s, 1);
    launched(&s, cpu, small_stream(&s, 0, 7), "a", 0, 5, 1000);
    launched(&s, cpu, small_stream(&s, 0, 20), "b", 10, 200002, 100);
    orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("cudaLaunchKernel", CPU, false, 0, 2),
               PIECE("cudaLaunchKernel", HOST_GAP, true, 2, 10),
               PIECE("b", LAUNCH, true, 10, 200002), PIECE("b", COMPUTE, false, 200002, 200102));
    small_end(&s);

    s = small_begin();
    cpu = small_thread(&s, 1);
    const uint32_t gpu = small_stream(&s, 0, 7);
    const uint32_t a =
        small_work(&s, ORR_NODE_COMPUTE, "a", gpu, 5, 1000, small_call(&s, cpu, 0, 2, ORR_NONE));
    const uint32_t b = small_work(&s, ORR_NODE_COMPUTE, "b", gpu, 200002, 100,
                                  small_call(&s, cpu, 10, 2, ORR_NONE));
    small_dep(&s, b, a, ORR_DEP_STREAM);
    path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("a", LAUNCH, true, 0, 5), PIECE("a", COMPUTE, false, 5, 1005),
               PIECE("b", NONE, true, 1005, 200002), PIECE("b", COMPUTE, false, 200002, 200102));
    small_end(&s);
}

/* Launches missing: close behind its stream it was queued, else the host was late. */
static void test_launch_not_recorded(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    small_node(&s, ORR_NODE_HOST_OP, "op", cpu, 0, 90000, ORR_NONE);
    const uint32_t a = small_work(&s, ORR_NODE_COMPUTE, "a", gpu, 10000, 10000, ORR_NONE);
    const uint32_t b = small_work(&s, ORR_NODE_COMPUTE, "b", gpu, 80000, 10000, ORR_NONE);
    const uint32_t c = small_work(&s, ORR_NODE_COMPUTE, "c", gpu, 100000, 10000, ORR_NONE);
    small_dep(&s, b, a, ORR_DEP_STREAM);
    small_dep(&s, c, b, ORR_DEP_STREAM);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("op", CPU, false, 0, 80000), PIECE("b", COMPUTE, false, 80000, 90000),
               PIECE("c", KERNEL_GAP, true, 90000, 100000),
               PIECE("c", COMPUTE, false, 100000, 110000));
    small_end(&s);
}

/* gloo: the thread that asked is silent while another one communicates, and goes on after it. */
static orr_critical_path wait_for_gloo(small *s, int64_t gloo_end_ns)
{
    *s = small_begin();
    const uint32_t cpu = small_thread(s, 1), gloo = small_thread(s, 2);
    const uint32_t step = small_node(s, ORR_NODE_ANNOTATION, "step", cpu, 0, 400000, ORR_NONE);
    small_node(s, ORR_NODE_HOST_OP, "forward", cpu, 0, 50000, step);
    small_node(s, ORR_NODE_HOST_OP, "ask", cpu, 100000, 10000, step);
    small_node(s, ORR_NODE_COLLECTIVE, "gloo:first", gloo, 20000, 10000, ORR_NONE);
    small_node(s, ORR_NODE_COLLECTIVE, "gloo:all_reduce", gloo, 105000, gloo_end_ns - 105000,
               ORR_NONE);
    small_node(s, ORR_NODE_HOST_OP, "use", cpu, 300000, 20000, step);
    return find_path(s, NULL);
}

static void test_silence_of_a_thread(void **state)
{
    (void)state;
    small s;
    orr_critical_path path = wait_for_gloo(&s, 290000);
    /* the collective was handed over by who was at work when it began: not by what its own thread
     * did long before */
    CHECK_PATH(&path, PIECE("forward", CPU, false, 0, 50000),
               PIECE("ask", HOST_GAP, true, 50000, 100000),
               PIECE("ask", CPU, false, 100000, 105000),
               PIECE("gloo:all_reduce", COMMUNICATION, false, 105000, 290000),
               PIECE("use", CPU, true, 290000, 300000), PIECE("use", CPU, false, 300000, 320000));
    small_end(&s);

    path = wait_for_gloo(&s, 150000); /* over early in the silence: not what was waited for */
    CHECK_PATH(
        &path, PIECE("forward", CPU, false, 0, 50000), PIECE("ask", HOST_GAP, true, 50000, 100000),
        PIECE("ask", CPU, false, 100000, 110000), PIECE("use", HOST_GAP, true, 110000, 300000),
        PIECE("use", CPU, false, 300000, 320000));
    small_end(&s);
}

/* Very many lanes and very much work without a cause: it gives up searching, not the time. */
static void test_searches_are_bounded(void **state)
{
    (void)state;
    enum { LANES = 2000, NODES = 2000 };
    small s = small_begin();
    for (int i = 0; i < LANES; i++)
        small_node(&s, ORR_NODE_HOST_OP, "op", small_thread(&s, i), i, 1, ORR_NONE);
    for (int i = 0; i < NODES; i++)
        small_work(&s, ORR_NODE_COMPUTE, "k", small_stream(&s, 0, i), 1000000 + 100000 * i, 1000,
                   ORR_NONE);
    const orr_critical_path path = find_path(&s, NULL);
    check_sound(&path);
    assert_int_equal(path.start_ns, 0);
    assert_true(path.bound_ns[ORR_BOUND_COMPUTE] > 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released_by_another_stream),
        cmocka_unit_test(test_clocks_that_disagree),
        cmocka_unit_test(test_late_for_no_known_reason),
        cmocka_unit_test(test_launch_not_recorded),
        cmocka_unit_test(test_silence_of_a_thread),
        cmocka_unit_test(test_searches_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
