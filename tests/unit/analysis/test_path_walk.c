/* SPDX-License-Identifier: Apache-2.0 */
#include "path_check.h"

/* One operator that launches a kernel and waits for it:
 *
 *   host    |-op---------------------------------|   0..100
 *              |call|              |-sync----|       10..15, `sync_at`..90
 *   stream             |-kernel-|                    30..80
 */
static void launch_and_wait(small *s, int64_t sync_at)
{
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    const uint32_t op = small_node(s, ORR_NODE_HOST_OP, "op", cpu, 0, 100, ORR_NONE);
    const uint32_t call = small_call(s, cpu, 10, 5, op);
    const uint32_t kernel = small_work(s, ORR_NODE_COMPUTE, "kernel", gpu, 30, 50, call);
    const uint32_t sync = small_node(s, ORR_NODE_RUNTIME, "sync", cpu, sync_at, 90 - sync_at, op);
    small_dep(s, sync, kernel, ORR_DEP_SYNC);
}

static void test_host_waits_for_device(void **state)
{
    (void)state;
    small s = small_begin();
    launch_and_wait(&s, 60);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("op", CPU, false, 0, 10), PIECE("kernel", LAUNCH, true, 10, 30),
               PIECE("kernel", COMPUTE, false, 30, 80), PIECE("sync", CPU, true, 80, 90),
               PIECE("op", CPU, false, 90, 100));
    assert_int_equal(path.n_nodes, 8);
    assert_int_equal(path.n_edges, 4 + 2);
    small_end(&s);
}

static void test_device_done_before_the_call(void **state)
{
    (void)state;
    small s = small_begin();
    launch_and_wait(&s, 85);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("op", CPU, false, 0, 10), PIECE("cudaLaunchKernel", CPU, false, 10, 15),
               PIECE("op", CPU, false, 15, 85), PIECE("sync", CPU, false, 85, 90),
               PIECE("op", CPU, false, 90, 100));
    small_end(&s);
}

/* Two kernels queued early; a copy on another stream waits for the second. */
static void test_stream_and_event(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 20);
    const uint32_t call = small_call(&s, cpu, 0, 5, ORR_NONE);
    const uint32_t k1 = small_work(&s, ORR_NODE_COMPUTE, "k1", a, 10, 40, call);
    const uint32_t k2 =
        small_work(&s, ORR_NODE_COMPUTE, "k2", a, 53, 20, small_call(&s, cpu, 6, 5, ORR_NONE));
    const uint32_t copy =
        small_work(&s, ORR_NODE_COPY, "copy", b, 80, 30, small_call(&s, cpu, 12, 5, ORR_NONE));
    small_dep(&s, k2, k1, ORR_DEP_STREAM);
    small_dep(&s, copy, k2, ORR_DEP_EVENT);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("k1", LAUNCH, true, 0, 10), PIECE("k1", COMPUTE, false, 10, 50),
               PIECE("k2", KERNEL_GAP, true, 50, 53), PIECE("k2", COMPUTE, false, 53, 73),
               PIECE("copy", KERNEL_GAP, true, 73, 80), PIECE("copy", MEMORY, false, 80, 110));
    small_end(&s);
}

/* The queue ran dry: the second launch came after the first kernel had ended. */
static void test_launch_binds_an_empty_stream(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t k1 =
        small_work(&s, ORR_NODE_COMPUTE, "k1", gpu, 10, 10, small_call(&s, cpu, 0, 5, ORR_NONE));
    const uint32_t k2 =
        small_work(&s, ORR_NODE_COMPUTE, "k2", gpu, 60, 10, small_call(&s, cpu, 50, 5, ORR_NONE));
    small_dep(&s, k2, k1, ORR_DEP_STREAM);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("cudaLaunchKernel", CPU, false, 0, 5),
               PIECE("cudaLaunchKernel", HOST_GAP, true, 5, 50), PIECE("k2", LAUNCH, true, 50, 60),
               PIECE("k2", COMPUTE, false, 60, 70));
    small_end(&s);
}

static void test_handoff_between_threads(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t main_thread = small_thread(&s, 1), autograd = small_thread(&s, 2);
    const uint32_t forward =
        small_node(&s, ORR_NODE_HOST_OP, "forward", main_thread, 0, 40, ORR_NONE);
    const uint32_t outer = small_node(&s, ORR_NODE_HOST_OP, "evaluate", autograd, 45, 40, ORR_NONE);
    const uint32_t backward = small_node(&s, ORR_NODE_HOST_OP, "backward", autograd, 50, 30, outer);
    const uint32_t step = small_node(&s, ORR_NODE_HOST_OP, "step", main_thread, 90, 10, ORR_NONE);
    small_dep(&s, outer, forward, ORR_DEP_HANDOFF);
    small_dep(&s, backward, forward, ORR_DEP_HANDOFF);
    small_dep(&s, step, outer, ORR_DEP_HANDOFF);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("forward", CPU, false, 0, 40), PIECE("evaluate", CPU, true, 40, 45),
               PIECE("evaluate", CPU, false, 45, 50), PIECE("backward", CPU, false, 50, 80),
               PIECE("evaluate", CPU, false, 80, 85), PIECE("step", CPU, true, 85, 90),
               PIECE("step", CPU, false, 90, 100));
    small_end(&s);
}

/* Nothing says why the second thread began: what the first did before is next. */
static void test_thread_without_a_cause(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t a = small_thread(&s, 1), b = small_thread(&s, 2);
    small_node(&s, ORR_NODE_HOST_OP, "first", a, 0, 20, ORR_NONE);
    small_node(&s, ORR_NODE_HOST_OP, "second", b, 30, 20, ORR_NONE);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("first", CPU, false, 0, 20), PIECE("second", NONE, true, 20, 30),
               PIECE("second", CPU, false, 30, 50));
    small_end(&s);

    s = small_begin(); /* it ran while the second began */
    const uint32_t c = small_thread(&s, 1), d = small_thread(&s, 2);
    small_node(&s, ORR_NODE_HOST_OP, "first", c, 0, 40, ORR_NONE);
    small_node(&s, ORR_NODE_HOST_OP, "second", d, 30, 20, ORR_NONE);
    const orr_critical_path other = find_path(&s, NULL);
    CHECK_PATH(&other, PIECE("first", CPU, false, 0, 30), PIECE("second", CPU, false, 30, 50));
    small_end(&s);
}

static void test_device_work_without_a_launch(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t gpu = small_stream(&s, 0, 7), other = small_stream(&s, 0, 8);
    small_work(&s, ORR_NODE_COMPUTE, "early", other, 0, 10, ORR_NONE);
    small_work(&s, ORR_NODE_COLLECTIVE, "late", gpu, 30, 20, ORR_NONE);
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("late", NONE, true, 0, 30),
               PIECE("late", COMMUNICATION, false, 30, 50));
    small_end(&s);
}

/* A clock that is off: the kernel seems to start before its launch, and the host to go on before
 * the kernel ended. Time still never runs backward, and the walk ends. */
static void test_skewed_clocks(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t op = small_node(&s, ORR_NODE_HOST_OP, "op", cpu, 0, 10, ORR_NONE);
    const uint32_t call = small_call(&s, cpu, 20, 5, ORR_NONE);
    const uint32_t kernel = small_work(&s, ORR_NODE_COMPUTE, "kernel", gpu, 15, 50, call);
    const uint32_t sync = small_node(&s, ORR_NODE_RUNTIME, "sync", cpu, 30, 30, ORR_NONE);
    small_node(&s, ORR_NODE_HOST_OP, "tail", cpu, 60, 40, ORR_NONE);
    small_dep(&s, sync, kernel, ORR_DEP_SYNC);
    (void)op;
    const orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("op", CPU, false, 0, 10),
               PIECE("cudaLaunchKernel", HOST_GAP, true, 10, 15),
               PIECE("kernel", COMPUTE, false, 15, 60), PIECE("tail", CPU, false, 60, 100));
    small_end(&s);
}

static void test_names_of_stretches(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t step =
        small_node(&s, ORR_NODE_ANNOTATION, "ProfilerStep#1", cpu, 0, 100, ORR_NONE);
    const char *loader_name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter";
    const uint32_t loader = small_node(&s, ORR_NODE_ANNOTATION, loader_name, cpu, 10, 30, step);
    small_node(&s, ORR_NODE_HOST_OP, "aten::stack", cpu, 20, 10, loader);
    small_node(&s, ORR_NODE_HOST_OP, "aten::mm", cpu, 60, 30, step);
    const orr_critical_path path = find_path(&s, NULL);
    /* it begins and ends with what executes: annotations only name the time */
    CHECK_PATH(&path, PIECE("aten::stack", DATA_LOADING, false, 20, 30),
               PIECE("aten::mm", DATA_LOADING, true, 30, 40),
               PIECE("aten::mm", HOST_GAP, true, 40, 60), PIECE("aten::mm", CPU, false, 60, 90));

    orr_analysis_options options = small_options();
    options.step_first = options.step_last = 0;
    const orr_critical_path window = find_path(&s, &options);
    assert_int_equal(window.start_ns, 0); /* a step begins where it says */
    assert_int_equal(window.end_ns, 90);
    assert_int_equal(window.bound_ns[ORR_BOUND_DATA_LOADING], 30);
    assert_int_equal(window.bound_ns[ORR_BOUND_CPU], 30);
    assert_int_equal(window.bound_ns[ORR_BOUND_HOST_GAP], 30);
    check_sound(&window);
    small_end(&s);
}

/* The second step explains its own time only, with device work that it launched and that
 * ends after it; a kernel of the first step that is in the way is followed down to its start. */
static void test_window_of_a_step(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t one =
        small_node(&s, ORR_NODE_ANNOTATION, "ProfilerStep#1", cpu, 0, 100, ORR_NONE);
    const uint32_t k1 =
        small_work(&s, ORR_NODE_COMPUTE, "k1", gpu, 20, 130, small_call(&s, cpu, 10, 5, one));
    const uint32_t two =
        small_node(&s, ORR_NODE_ANNOTATION, "ProfilerStep#2", cpu, 100, 50, ORR_NONE);
    const uint32_t k2 =
        small_work(&s, ORR_NODE_COMPUTE, "k2", gpu, 160, 40, small_call(&s, cpu, 110, 5, two));
    small_dep(&s, k2, k1, ORR_DEP_STREAM);
    orr_analysis_options options = small_options();
    options.step_first = options.step_last = 1;
    const orr_critical_path path = find_path(&s, &options);
    CHECK_PATH(&path, PIECE("k1", COMPUTE, false, 100, 150),
               PIECE("k2", KERNEL_GAP, true, 150, 160), PIECE("k2", COMPUTE, false, 160, 200));
    small_end(&s);
}

/* Every place on one moment, host and device waiting for one another: nothing to explain. */
static void test_no_time_at_all(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t call = small_call(&s, cpu, 5, 0, ORR_NONE);
    small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 5, 0, call);
    const orr_critical_path path = find_path(&s, NULL);
    assert_int_equal(path.n_pieces, 0);
    assert_int_equal(path.start_ns, path.end_ns);
    small_end(&s);
}

/* A host trace has no times: there is no path, and that is no error. */
static void test_nothing_recorded(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    small_node(&s, ORR_NODE_HOST_OP, "aten::mm", cpu, ORR_TIME_NONE, 0, ORR_NONE);
    const orr_critical_path path = find_path(&s, NULL);
    assert_int_equal(path.n_pieces, 0);
    assert_int_equal(path.n_nodes, 0);
    assert_int_equal(path.end_ns, path.start_ns);
    const orr_critical_path longest = find_longest(&s);
    assert_int_equal(longest.n_pieces, 0);
    small_end(&s);
}

static void test_no_memory(void **state)
{
    (void)state;
    small s = small_begin();
    launch_and_wait(&s, 60);
    small_job(&s);
    orr_critical_path path;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_critical_path(s.job, NULL, s.arena, &path, &s.err));
    assert_int_equal(path.n_pieces, 5);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_waits_for_device),
        cmocka_unit_test(test_device_done_before_the_call),
        cmocka_unit_test(test_stream_and_event),
        cmocka_unit_test(test_launch_binds_an_empty_stream),
        cmocka_unit_test(test_handoff_between_threads),
        cmocka_unit_test(test_thread_without_a_cause),
        cmocka_unit_test(test_device_work_without_a_launch),
        cmocka_unit_test(test_skewed_clocks),
        cmocka_unit_test(test_names_of_stretches),
        cmocka_unit_test(test_window_of_a_step),
        cmocka_unit_test(test_no_time_at_all),
        cmocka_unit_test(test_nothing_recorded),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
