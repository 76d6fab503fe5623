/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/kernel_work/work.h"

static void test_innermost_operator(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t step =
        small_node(&s, ORR_NODE_ANNOTATION, "ProfilerStep#1", cpu, 0, 900, ORR_NONE);
    const uint32_t linear = small_node(&s, ORR_NODE_HOST_OP, "aten::linear", cpu, 10, 300, step);
    const uint32_t addmm = small_node(&s, ORR_NODE_HOST_OP, "aten::addmm", cpu, 20, 200, linear);
    const uint32_t empty = small_node(&s, ORR_NODE_HOST_OP, "aten::empty", cpu, 30, 10, addmm);
    const uint32_t sgd =
        small_node(&s, ORR_NODE_ANNOTATION, "Optimizer.step#SGD.step", cpu, 400, 100, step);
    const uint32_t calls[] = {small_call(&s, cpu, 50, 5, addmm), small_call(&s, cpu, 32, 5, empty),
                              small_call(&s, cpu, 410, 5, sgd), small_call(&s, cpu, 600, 5, step)};
    uint32_t work[5];
    for (int i = 0; i < 4; i++)
        work[i] = small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 1000 + 10 * i, 5, calls[i]);
    work[4] = small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 2000, 5, ORR_NONE);
    small_job(&s);
    const orr_graph *g = s.graphs[0];
    assert_int_equal(orr_work_operator(g, work[0], ORR_FAMILIES), addmm);
    assert_int_equal(orr_work_operator(g, work[1], ORR_FAMILIES), empty);
    assert_int_equal(orr_work_operator(g, work[1], ORR_FAMILY_GEMM), addmm);
    assert_int_equal(orr_work_operator(g, work[2], ORR_FAMILIES), sgd);
    assert_int_equal(orr_work_operator(g, work[3], ORR_FAMILIES), ORR_NONE);
    assert_int_equal(orr_work_operator(g, work[4], ORR_FAMILIES), ORR_NONE);
    assert_int_equal(orr_work_operator(g, addmm, ORR_FAMILIES), addmm);
    assert_null(orr_work_rule(g, ORR_NONE));
    assert_null(orr_work_rule(g, empty));
    /* linear has a rule of its own, so addmm tells the most */
    assert_int_equal(orr_work_outermost_operator(g, addmm, orr_work_rule(g, addmm)), addmm);
    small_end(&s);
}

/* handed: the lookup itself; an operator inside it; one just before it; one far before it. */
static void test_forward(void **state)
{
    (void)state;
    enum { CASES = 4, FAR = 20 };
    for (int which = 0; which < CASES; which++) {
        small s = small_begin();
        const uint32_t cpu = small_thread(&s, 1), back = small_thread(&s, 2);
        const char *name = "fbgemm::split_embedding_codegen_lookup_sgd_function";
        const uint32_t far = small_node(&s, ORR_NODE_HOST_OP, "aten::view", cpu, 0, 1, ORR_NONE);
        for (int i = 0; i < FAR; i++)
            small_node(&s, ORR_NODE_HOST_OP, "aten::view", cpu, 10 + i, 1, ORR_NONE);
        const uint32_t near = small_node(&s, ORR_NODE_HOST_OP, "aten::zero_", cpu, 50, 1, ORR_NONE);
        const uint32_t lookup = small_node(&s, ORR_NODE_HOST_OP, name, cpu, 60, 20, ORR_NONE);
        const uint32_t inside = small_node(&s, ORR_NODE_HOST_OP, "aten::empty", cpu, 65, 5, lookup);
        const uint32_t op =
            small_node(&s, ORR_NODE_HOST_OP, "torch::autograd::CppNode<SplitLookupFunction_sgd_Op>",
                       back, 100, 20, ORR_NONE);
        const uint32_t handed[CASES] = {lookup, inside, near, far};
        assert_int_equal(orr_builder_dep(s.builder, op, handed[which], ORR_DEP_HANDOFF, &s.err),
                         ORR_OK);
        small_job(&s);
        const orr_graph *g = s.graphs[0];
        assert_int_equal(orr_work_forward(g, op, orr_work_rule(g, op)),
                         which < 3 ? lookup : ORR_NONE);
        small_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_innermost_operator),
        cmocka_unit_test(test_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
