/* SPDX-License-Identifier: Apache-2.0 */
#include "path_check.h"

static uint32_t sync_call(small *s, uint32_t lane, int64_t start_ns, int64_t duration_ns,
                          uint32_t on)
{
    const uint32_t v = small_node(s, ORR_NODE_RUNTIME, "cudaDeviceSynchronize", lane, start_ns,
                                  duration_ns, ORR_NONE);
    small_dep(s, v, on, ORR_DEP_SYNC);
    return v;
}

static void record_syncs(small *s) /* HTA knows of synchronisation only where it is recorded */
{
    small_node(s, ORR_NODE_SYNC, "Context Sync", small_stream(s, 0, -1), 0, 0, ORR_NONE);
}

/* Both ways from the launch to the end of the call: on the host 10 of recorded work and a gap
 * that weighs nothing, on the device 10 of launch delay and 30 of kernel. */
static void test_gaps_weigh_nothing(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    small_node(&s, ORR_NODE_HOST_OP, "before", cpu, 0, 20, ORR_NONE);
    const uint32_t call = small_call(&s, cpu, 25, 5, ORR_NONE);
    const uint32_t kernel = small_work(&s, ORR_NODE_COMPUTE, "kernel", gpu, 35, 30, call);
    small_node(&s, ORR_NODE_HOST_OP, "work", cpu, 40, 5, ORR_NONE);
    sync_call(&s, cpu, 70, 20, kernel);
    record_syncs(&s);
    const orr_critical_path path = find_longest(&s);
    CHECK_PATH(&path, PIECE("before", CPU, false, 0, 20),
               PIECE("cudaLaunchKernel", NONE, true, 20, 25), PIECE("kernel", LAUNCH, true, 25, 35),
               PIECE("kernel", COMPUTE, false, 35, 65),
               PIECE("cudaDeviceSynchronize", NONE, true, 65, 90));
    assert_int_equal(path.n_nodes, 10);
    assert_int_equal(path.n_edges, 7 + 1 + 1 + 1);
    small_end(&s);
}

static void test_host_work_can_be_longer(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t call = small_call(&s, cpu, 0, 5, ORR_NONE);
    const uint32_t kernel = small_work(&s, ORR_NODE_COMPUTE, "kernel", gpu, 10, 20, call);
    small_node(&s, ORR_NODE_HOST_OP, "work", cpu, 5, 60, ORR_NONE);
    sync_call(&s, cpu, 70, 20, kernel);
    record_syncs(&s);
    const orr_critical_path path = find_longest(&s);
    CHECK_PATH(&path, PIECE("cudaLaunchKernel", CPU, false, 0, 5), PIECE("work", CPU, false, 5, 65),
               PIECE("cudaDeviceSynchronize", NONE, true, 65, 90));
    small_end(&s);
}

/* k2 is launched when k1 is over: its launch counts, unless the next launch comes before it
 * starts; then it hangs on k1, or, more than 1 ms away, on nothing. */
static orr_critical_path two_kernels(small *s, int64_t second_ns, int64_t third_ns)
{
    *s = small_begin();
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    small_work(s, ORR_NODE_COMPUTE, "k1", gpu, 10000, 90000, small_call(s, cpu, 0, 10, ORR_NONE));
    small_work(s, ORR_NODE_COMPUTE, "k2", gpu, second_ns + 5000, 80000,
               small_call(s, cpu, second_ns, 10, ORR_NONE));
    small_work(s, ORR_NODE_COMPUTE, "k3", gpu, second_ns + 100000, 50,
               small_call(s, cpu, third_ns, 10, ORR_NONE));
    return find_longest(s);
}

static void test_order_of_a_stream(void **state)
{
    (void)state;
    small s;
    orr_critical_path path = two_kernels(&s, 110000, 120000); /* k2 starts first: launches */
    assert_int_equal(path.bound_ns[ORR_BOUND_KERNEL_GAP], 15000);
    assert_int_equal(path.bound_ns[ORR_BOUND_LAUNCH], 5000);
    assert_int_equal(path.bound_ns[ORR_BOUND_COMPUTE], 80050);
    small_end(&s);
    path = two_kernels(&s, 110000, 112000); /* k3 is queued before k2 starts: tied to k1 */
    assert_int_equal(path.bound_ns[ORR_BOUND_KERNEL_GAP], 15000 + 15000);
    assert_int_equal(path.bound_ns[ORR_BOUND_LAUNCH], 10000);
    assert_int_equal(path.bound_ns[ORR_BOUND_COMPUTE], 90000 + 80050);
    small_end(&s);
    path = two_kernels(&s, 1110000, 1112000); /* too far from k1: 100000 before, 95050 after */
    assert_int_equal(path.bound_ns[ORR_BOUND_COMPUTE], 90000);
    assert_int_equal(path.bound_ns[ORR_BOUND_LAUNCH], 10000);
    assert_int_equal(path.bound_ns[ORR_BOUND_NONE], path.end_ns - path.start_ns - 100000);
    check_sound(&path);
    small_end(&s);
}

static void test_event_has_no_weight(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 20);
    const uint32_t k1 =
        small_work(&s, ORR_NODE_COMPUTE, "k1", a, 10, 40, small_call(&s, cpu, 0, 2, ORR_NONE));
    const uint32_t k2 =
        small_work(&s, ORR_NODE_COMPUTE, "k2", b, 60, 40, small_call(&s, cpu, 3, 2, ORR_NONE));
    small_dep(&s, k2, k1, ORR_DEP_EVENT);
    record_syncs(&s);
    const orr_critical_path path = find_longest(&s);
    CHECK_PATH(&path, PIECE("k1", LAUNCH, true, 0, 10), PIECE("k1", COMPUTE, false, 10, 50),
               PIECE("k2", NONE, true, 50, 60), PIECE("k2", COMPUTE, false, 60, 100));
    small_end(&s);
}

/* One thread has autograd, one other the forward pass: both are one, and the path goes through
 * both. With autograd on two threads it is not known which, and the longer thread is the path. */
static void test_forward_and_backward_are_one(void **state)
{
    (void)state;
    for (int several = 0; several < 2; several++) {
        small s = small_begin();
        const uint32_t main = small_thread(&s, 1), backward = small_thread(&s, 2);
        small_node(&s, ORR_NODE_HOST_OP, "forward", main, 0, 30, ORR_NONE);
        small_node(&s, ORR_NODE_HOST_OP, "autograd::A", backward, 40, 40, ORR_NONE);
        small_node(&s, ORR_NODE_HOST_OP, several ? "autograd::B" : "step", main, 90, 5, ORR_NONE);
        const orr_critical_path path = find_longest(&s);
        assert_int_equal(path.bound_ns[ORR_BOUND_CPU], several ? 40 : 30 + 40 + 5);
        small_end(&s);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    small s;
    two_kernels(&s, 110000, 112000);
    orr_analysis_options options = small_options();
    options.path_hta = true;
    orr_critical_path path;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_critical_path(s.job, &options, s.arena, &path, &s.err));
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaps_weigh_nothing),
        cmocka_unit_test(test_host_work_can_be_longer),
        cmocka_unit_test(test_order_of_a_stream),
        cmocka_unit_test(test_event_has_no_weight),
        cmocka_unit_test(test_forward_and_backward_are_one),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
