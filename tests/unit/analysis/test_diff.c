/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

/* `steps` steps of one operator each, with a kernel of this length under it. */
static void job_of(small *s, int steps, int64_t kernel_ns, const char *only_here)
{
    *s = small_begin();
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    for (int i = 0; i < steps; i++) {
        const int64_t at = i * 1000;
        const uint32_t step =
            small_node(s, ORR_NODE_ANNOTATION, "ProfilerStep#4", cpu, at, 900, ORR_NONE);
        const uint32_t op = small_node(s, ORR_NODE_HOST_OP, "aten::mm", cpu, at + 10, 100, step);
        const uint32_t call = small_call(s, cpu, at + 50, 30, op);
        small_work(s, ORR_NODE_COMPUTE, "gemm", gpu, at + 100, kernel_ns, call);
    }
    small_node(s, ORR_NODE_HOST_OP, only_here, cpu, 1, 7, ORR_NONE);
    small_job(s);
}

static const orr_diff_row *row_of(const orr_diff_row *rows, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    fail_msg("no row of %s", name);
    return NULL;
}

static void test_changes(void **state)
{
    (void)state;
    small a, s; /* s: SMALL_SURVIVES_NO_MEMORY refills its arena */
    job_of(&a, 2, 200, "old");
    job_of(&s, 3, 500, "new");
    const orr_diff_row *rows;
    size_t n;
    SMALL_SURVIVES_NO_MEMORY(
        orr_analyze_diff(a.job, s.job, NULL, false, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 5);
    const orr_diff_row *gemm = &rows[0]; /* the largest change */
    assert_string_equal(gemm->name, "gemm");
    assert_true(gemm->on_device);
    assert_string_equal(gemm->change, "increased");
    assert_int_equal(gemm->count_a, 2);
    assert_int_equal(gemm->count_b, 3);
    assert_int_equal(gemm->sum_a_ns, 400);
    assert_int_equal(gemm->sum_b_ns, 1500);
    assert_int_equal(gemm->delta_ns, 1100);
    const orr_diff_row *mm = row_of(rows, n, "aten::mm"); /* without the call inside */
    assert_false(mm->on_device);
    assert_int_equal(mm->sum_a_ns, 140);
    assert_int_equal(mm->sum_b_ns, 210);
    assert_string_equal(row_of(rows, n, "old")->change, "deleted");
    assert_string_equal(row_of(rows, n, "new")->change, "added");
    assert_int_equal(row_of(rows, n, "new")->delta_ns, 7);
    small_end(&a);
    small_end(&s);
}

static void test_per_step(void **state)
{
    (void)state;
    small a, b;
    job_of(&a, 2, 200, "same");
    job_of(&b, 4, 200, "same");
    const orr_diff_row *rows;
    size_t n;
    assert_int_equal(orr_analyze_diff(a.job, b.job, NULL, true, a.arena, &rows, &n, &a.err),
                     ORR_OK);
    const orr_diff_row *gemm = row_of(rows, n, "gemm");
    assert_string_equal(gemm->change, "unchanged"); /* one a step */
    assert_int_equal(gemm->count_b, 4);
    assert_int_equal(gemm->sum_a_ns, 200);
    assert_int_equal(gemm->sum_b_ns, 200);
    assert_int_equal(gemm->delta_ns, 0);
    assert_string_equal(row_of(rows, n, "same")->change, "decreased"); /* once, in more steps */

    orr_analysis_options options = small_options();
    options.step_first = options.step_last = 1; /* the same one step of each */
    assert_int_equal(orr_analyze_diff(a.job, b.job, &options, false, a.arena, &rows, &n, &a.err),
                     ORR_OK);
    assert_string_equal(row_of(rows, n, "gemm")->change, "unchanged");
    assert_int_equal(row_of(rows, n, "gemm")->count_b, 1);
    small_end(&a);
    small_end(&b);
}

/* A name may be that of an operator and of a kernel. */
static void test_host_and_device_apart(void **state)
{
    (void)state;
    small s = small_begin();
    small_node(&s, ORR_NODE_HOST_OP, "copy", small_thread(&s, 1), 0, 10, ORR_NONE);
    small_work(&s, ORR_NODE_COPY, "copy", small_stream(&s, 0, 7), 0, 20, ORR_NONE);
    small_job(&s);
    const orr_diff_row *rows;
    size_t n;
    assert_int_equal(orr_analyze_diff(s.job, s.job, NULL, true, s.arena, &rows, &n, &s.err),
                     ORR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(rows[0].on_device + rows[1].on_device, 1);
    assert_int_equal(rows[0].sum_a_ns, 10);
    assert_int_equal(rows[1].sum_a_ns, 20);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_per_step),
        cmocka_unit_test(test_host_and_device_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
