/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

/* Forward on one thread: linear with two launches (one of them of a call inside a call), view.
 * Backward on another, between these two. Then a step that communicates. */
static void add_host(small *s)
{
    const uint32_t cpu = small_thread(s, 1), back = small_thread(s, 2), gpu = small_stream(s, 0, 7);
    const uint32_t linear = small_node(s, ORR_NODE_HOST_OP, "aten::linear", cpu, 0, 50, ORR_NONE);
    const uint32_t addmm = small_node(s, ORR_NODE_HOST_OP, "aten::addmm", cpu, 1, 48, linear);
    const uint32_t first = small_call(s, cpu, 10, 5, addmm);
    small_node(s, ORR_NODE_RUNTIME, "cuLaunchKernel", cpu, 11, 3, first);
    const uint32_t second = small_node(s, ORR_NODE_RUNTIME, "cudaMemcpyAsync", cpu, 20, 5, addmm);
    small_node(s, ORR_NODE_HOST_OP, "aten::view", cpu, 100, 4, ORR_NONE);
    const uint32_t engine = small_node(
        s, ORR_NODE_HOST_OP, "autograd::engine::evaluate_function: X", back, 60, 30, ORR_NONE);
    small_node(s, ORR_NODE_HOST_OP, "XBackward0", back, 65, 10, engine);
    const uint32_t sgd =
        small_node(s, ORR_NODE_ANNOTATION, "Optimizer.step#SGD.step", cpu, 200, 50, ORR_NONE);
    const uint32_t reduce = small_call(s, cpu, 210, 5, sgd);
    small_work(s, ORR_NODE_COMPUTE, "k", gpu, 30, 7000, first);
    small_work(s, ORR_NODE_COPY, "Memcpy", gpu, 8000, 500, second);
    small_work(s, ORR_NODE_COLLECTIVE, "ncclDevKernel_AllReduce", gpu, 9000, 2500, reduce);
}

static void test_in_order_of_time(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_host_op *ops;
    size_t n;
    add_host(&s);
    small_job(&s);
    assert_int_equal(orr_host_ops_of_graph(s.graphs[0], s.arena, &ops, &n, &s.err), ORR_OK);
    assert_int_equal(n, 4);
    assert_string_equal(ops[0].name, "aten::linear");
    assert_int_equal(ops[0].n_launches, 2);
    assert_string_equal(ops[0].launches[0], "cudaLaunchKernel");
    assert_string_equal(ops[0].launches[1], "cudaMemcpyAsync");
    assert_int_equal(ops[0].n_kernels, 2);
    assert_true(ops[0].kernel_us[0] == 7 && ops[0].kernel_us[1] == 0.5);
    assert_int_equal(ops[0].stream, 0);
    assert_string_equal(ops[1].name, "XBackward0");
    assert_int_equal(ops[1].n_launches, 0);
    assert_string_equal(ops[2].name, "aten::view");
    assert_true(ops[3].annotation);
    assert_int_equal(ops[3].stream, 1);
    assert_true(ops[3].kernel_us[0] == 2.5);
    small_end(&s);
}

/* What was extracted and applied to where it came from gives the recorded host time again: here
 * every name occurs once, so that the means are the observations. */
static void test_applied_to_itself(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_host_op *ops;
    size_t n;
    orr_overheads overheads;
    orr_host_time times[4];
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_node(&s, ORR_NODE_HOST_OP, "a", cpu, 0, 50000, ORR_NONE);
    small_call(&s, cpu, 10000, 5000, a);
    small_call(&s, cpu, 20000, 5000, a);
    small_node(&s, ORR_NODE_HOST_OP, "b", cpu, 52000, 4000, ORR_NONE);
    small_job(&s);
    assert_int_equal(orr_overheads_extract(s.job, s.arena, &overheads, &s.err), ORR_OK);
    assert_int_equal(orr_host_ops_of_graph(s.graphs[0], s.arena, &ops, &n, &s.err), ORR_OK);
    assert_int_equal(n, 2);
    orr_host_timeline(&overheads, ops, n, ORR_ANNOTATION_LAUNCHES, times);
    assert_true(fabs(times[0].cpu_us - (2 + 50)) < 1e-9); /* T1 stands before the first, too */
    assert_true(fabs(times[1].cpu_us - (2 + 56)) < 1e-9);
    small_end(&s);
}

static void test_nothing_and_no_memory(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_host_op *ops;
    size_t n = 42;
    small_stream(&s, 0, 7);
    small_job(&s);
    assert_int_equal(orr_host_ops_of_graph(s.graphs[0], s.arena, &ops, &n, &s.err), ORR_OK);
    assert_int_equal(n, 0);
    small_end(&s);
    s = small_begin();
    add_host(&s);
    small_job(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_host_ops_of_graph(s.graphs[0], s.arena, &ops, &n, &s.err));
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order_of_time),
        cmocka_unit_test(test_applied_to_itself),
        cmocka_unit_test(test_nothing_and_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
