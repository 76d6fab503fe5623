/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

/* Twice aten::mm -> reduce, gemm (launched in that order on two streams); once aten::mm -> gemm;
 * a memset that is no kernel; a kernel of no operator. */
static void add_ops(small *s)
{
    const uint32_t cpu = small_thread(s, 1), a = small_stream(s, 0, 7), b = small_stream(s, 0, 8);
    for (int64_t i = 0; i < 2; i++) {
        const int64_t at = 1000 * i;
        const uint32_t outer =
            small_node(s, ORR_NODE_HOST_OP, "aten::linear", cpu, at, 100, ORR_NONE);
        const uint32_t op = small_node(s, ORR_NODE_HOST_OP, "aten::mm", cpu, at + 10, 80, outer);
        const uint32_t first = small_call(s, cpu, at + 20 + 10 * i, 5, op);
        const uint32_t second = small_call(s, cpu, at + 50, 5, op);
        small_work(s, ORR_NODE_COMPUTE, "reduce", a, at + 80, 20, first);
        small_work(s, ORR_NODE_COMPUTE, "gemm", b, at + 70, 30, second);
        small_work(s, ORR_NODE_SET, "Memset", a, at + 120, 1, small_call(s, cpu, at + 60, 5, op));
    }
    const uint32_t op = small_node(s, ORR_NODE_HOST_OP, "aten::mm", cpu, 2000, 50, ORR_NONE);
    small_work(s, ORR_NODE_COMPUTE, "gemm", a, 2040, 100, small_call(s, cpu, 2010, 5, op));
    small_work(s, ORR_NODE_COMPUTE, "free", a, 3000, 1, small_call(s, cpu, 2100, 5, ORR_NONE));
    small_job(s);
}

static void test_rows(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_op_kernels *rows;
    size_t n;
    add_ops(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_op_kernels(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    assert_string_equal(rows[0].op, "aten::mm");
    assert_string_equal(rows[0].kernels, "reduce -> gemm");
    assert_int_equal(rows[0].count, 2);
    assert_float_equal(rows[0].mean_op_delay_ns, (10 + 20) / 2.0, 1e-9);
    assert_float_equal(rows[0].mean_runtime_delay_ns, (60 + 50) / 2.0, 1e-9);
    assert_int_equal(rows[0].kernel_ns, 100);
    assert_string_equal(rows[1].kernels, "gemm");
    assert_int_equal(rows[1].count, 1);
    assert_float_equal(rows[1].mean_op_delay_ns, 10, 1e-9);
    assert_float_equal(rows[1].mean_runtime_delay_ns, 30, 1e-9);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
