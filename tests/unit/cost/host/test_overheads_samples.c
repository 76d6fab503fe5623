/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "base/strtab.h"
#include "cost/host/overheads.h"

static const orr_overhead_sample *find(const orr_overhead_samples *samples, orr_overhead_kind kind,
                                       const char *name, uint32_t nth)
{
    for (size_t i = 0; i < samples->rows.n; i++)
        if (samples->rows.at[i].kind == kind &&
            strcmp(orr_strtab_text(samples->names, samples->rows.at[i].name), name) == 0 &&
            nth-- == 0)
            return &samples->rows.at[i];
    return NULL;
}

static void check(const orr_overhead_samples *samples, orr_overhead_kind kind, const char *name,
                  uint32_t nth, double us)
{
    const orr_overhead_sample *sample = find(samples, kind, name, nth);
    assert_non_null(sample);
    assert_true(fabs(sample->us - us) < 1e-9);
}

/* linear (two launches, an operator inside), view (none), then a step of the optimizer; and a
 * backward operator inside what the autograd engine puts around it. */
static void add_host(small *s)
{
    const uint32_t cpu = small_thread(s, 1), back = small_thread(s, 2);
    const uint32_t step =
        small_node(s, ORR_NODE_ANNOTATION, "ProfilerStep#1", cpu, 0, 200000, ORR_NONE);
    const uint32_t linear = small_node(s, ORR_NODE_HOST_OP, "aten::linear", cpu, 1000, 50000, step);
    const uint32_t addmm = small_node(s, ORR_NODE_HOST_OP, "aten::addmm", cpu, 2000, 45000, linear);
    const uint32_t first = small_call(s, cpu, 11000, 5000, addmm);
    small_node(s, ORR_NODE_RUNTIME, "cuLaunchKernel", cpu, 12000, 3000, first);
    small_node(s, ORR_NODE_RUNTIME, "cudaStreamIsCapturing", cpu, 18000, 1000, addmm);
    small_call(s, cpu, 24000, 6000, addmm);
    small_node(s, ORR_NODE_HOST_OP, "aten::view", cpu, 53000, 4000, step);
    const uint32_t sgd =
        small_node(s, ORR_NODE_ANNOTATION, "Optimizer.step#SGD.step", cpu, 60000, 30000, step);
    const uint32_t add = small_node(s, ORR_NODE_HOST_OP, "aten::add_", cpu, 65000, 10000, sgd);
    small_call(s, cpu, 68000, 2000, add);
    small_call(s, cpu, 300000, 2000, ORR_NONE); /* outside all operators */
    const uint32_t engine =
        small_node(s, ORR_NODE_HOST_OP, "autograd::engine::evaluate_function: X", back, 100000,
                   50000, ORR_NONE);
    const uint32_t x = small_node(s, ORR_NODE_HOST_OP, "XBackward0", back, 110000, 20000, engine);
    small_call(s, back, 112000, 3000, x);
}

static void test_five_kinds(void **state)
{
    (void)state;
    small s = small_begin();
    orr_overhead_samples samples = {.names = orr_strtab_new()};
    add_host(&s);
    small_job(&s);
    assert_int_equal(orr_overheads_collect(s.graphs[0], &samples, &s.err), ORR_OK);
    check(&samples, ORR_T1, "", 0, 2); /* linear to view  */
    check(&samples, ORR_T1, "", 1, 3); /* view to step    */
    assert_null(find(&samples, ORR_T1, "", 2));
    check(&samples, ORR_T2, "aten::linear", 0, 10);
    check(&samples, ORR_T5, "aten::linear", 0, 8);
    check(&samples, ORR_T3, "aten::linear", 0, 21);
    check(&samples, ORR_T5, "aten::view", 0, 4);
    check(&samples, ORR_T2, "Optimizer.step#SGD.step", 0, 8);
    check(&samples, ORR_T3, "Optimizer.step#SGD.step", 0, 20);
    check(&samples, ORR_T2, "XBackward0", 0, 2);
    check(&samples, ORR_T4, "cudaLaunchKernel", 0, 5);
    check(&samples, ORR_T4, "cudaLaunchKernel", 1, 6);
    assert_null(find(&samples, ORR_T4, "cuLaunchKernel", 0)); /* inside another call */
    assert_null(find(&samples, ORR_T2, "aten::addmm", 0));    /* not top-level       */
    orr_array_done(&samples.rows);
    orr_strtab_free(samples.names);
    small_end(&s);
}

/* A call of an unknown name is a launch when work hangs on it. */
static void test_launch_by_dependency(void **state)
{
    (void)state;
    small s = small_begin();
    orr_overhead_samples samples = {.names = orr_strtab_new()};
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t op = small_node(&s, ORR_NODE_HOST_OP, "op", cpu, 0, 10000, ORR_NONE);
    const uint32_t call = small_node(&s, ORR_NODE_RUNTIME, "enqueue", cpu, 4000, 1000, op);
    small_work(&s, ORR_NODE_COMPUTE, "kernel", gpu, 6000, 1000, call);
    small_job(&s);
    assert_int_equal(orr_overheads_collect(s.graphs[0], &samples, &s.err), ORR_OK);
    check(&samples, ORR_T2, "op", 0, 4);
    check(&samples, ORR_T4, "enqueue", 0, 1);
    orr_array_done(&samples.rows);
    orr_strtab_free(samples.names);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_kinds),
        cmocka_unit_test(test_launch_by_dependency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
