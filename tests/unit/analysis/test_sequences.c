/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

static void three_kernels(small *s, uint32_t cpu, uint32_t gpu, int64_t at, uint32_t op)
{
    const char *const names[] = {"copy", "gemm", "reduce"};
    for (int64_t i = 0; i < 3; i++)
        small_work(s, ORR_NODE_COMPUTE, names[i], gpu, at + 10 * i, 5,
                   small_call(s, cpu, at + i, 1, op));
}

/* Twice mylinear -> aten::linear -> 3 kernels; once aten::linear -> 1 kernel (too few); once
 * another operator of 3 kernels. */
static void add_ops(small *s)
{
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    for (int64_t i = 0; i < 2; i++) {
        const uint32_t outer =
            small_node(s, ORR_NODE_HOST_OP, "my::linear", cpu, 1000 * i, 100, ORR_NONE);
        const uint32_t op =
            small_node(s, ORR_NODE_HOST_OP, "aten::linear", cpu, 1000 * i + 1, 80, outer);
        three_kernels(s, cpu, gpu, 1000 * i + 5, op);
    }
    const uint32_t few = small_node(s, ORR_NODE_HOST_OP, "aten::linear", cpu, 2000, 50, ORR_NONE);
    small_work(s, ORR_NODE_COMPUTE, "gemm", gpu, 2010, 5, small_call(s, cpu, 2001, 1, few));
    const uint32_t sum = small_node(s, ORR_NODE_HOST_OP, "aten::sum", cpu, 3000, 50, ORR_NONE);
    three_kernels(s, cpu, gpu, 3005, sum);
    small_job(s);
}

static const orr_sequence *analyze(small *s, const orr_analysis_options *options, size_t *n)
{
    const orr_sequence *rows;
    assert_int_equal(orr_analyze_sequences(s->job, options, s->arena, &rows, n, &s->err), ORR_OK);
    return rows;
}

static void test_named(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    orr_analysis_options options = small_options();
    add_ops(&s);
    options.operator_name = "linear";
    const orr_sequence *rows = analyze(&s, &options, &n);
    assert_int_equal(n, 1);
    assert_string_equal(rows[0].pattern, "my::linear|copy|gemm|reduce"); /* the outermost */
    assert_int_equal(rows[0].count, 2);
    assert_int_equal(rows[0].kernel_ns, 30);
    assert_int_equal(rows[0].op_ns, 200);

    options.operator_name = "aten::linear";
    rows = analyze(&s, &options, &n);
    assert_int_equal(n, 1);
    assert_string_equal(rows[0].pattern, "aten::linear|copy|gemm|reduce");
    assert_int_equal(rows[0].op_ns, 160);

    options.sequence_min = 1;
    assert_int_equal((analyze(&s, &options, &n), n), 2);
    options.sequence_top = 1;
    assert_int_equal((analyze(&s, &options, &n), n), 1);
    options.operator_name = "nothing";
    assert_int_equal((analyze(&s, &options, &n), n), 0);
    small_end(&s);
}

static void test_any_operator(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    const orr_sequence *rows;
    add_ops(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_sequences(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    assert_string_equal(rows[0].pattern, "my::linear|copy|gemm|reduce");
    assert_string_equal(rows[1].pattern, "aten::sum|copy|gemm|reduce");
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_any_operator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
