/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

static const orr_annotation *find(const orr_annotation *rows, size_t n, const char *name,
                                  bool on_device)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].name, name) == 0 && rows[i].on_device == on_device)
            return &rows[i];
    fail_msg("no row of %s", name);
    return NULL;
}

/* A step with two instances of "forward" inside; the backward thread has no annotation of
 * its own and works for what runs at that moment. */
static void add_annotations(small *s)
{
    const uint32_t cpu = small_thread(s, 1), autograd = small_thread(s, 2);
    const uint32_t gpu = small_stream(s, 0, 7);
    const uint32_t step = small_node(s, ORR_NODE_ANNOTATION, "step", cpu, 0, 1000, ORR_NONE);
    for (int64_t i = 0; i < 2; i++) {
        const uint32_t forward =
            small_node(s, ORR_NODE_ANNOTATION, "forward", cpu, 100 * i + 10, 50 + 10 * i, step);
        const uint32_t op =
            small_node(s, ORR_NODE_HOST_OP, "aten::mm", cpu, 100 * i + 11, 20, forward);
        small_work(s, ORR_NODE_COMPUTE, "gemm", gpu, 1000 + 100 * i, 10,
                   small_call(s, cpu, 100 * i + 12, 2, op));
    }
    small_work(s, ORR_NODE_COMPUTE, "loss", gpu, 1300, 3, small_call(s, cpu, 300, 2, step));
    small_work(s, ORR_NODE_COMPUTE, "grad", gpu, 1400, 70,
               small_call(s, autograd, 500, 2, ORR_NONE));
    small_work(s, ORR_NODE_COMPUTE, "after", gpu, 1500, 700,
               small_call(s, autograd, 1001, 2, ORR_NONE));
    small_node(s, ORR_NODE_DEVICE_ANNOTATION, "forward", gpu, 1000, 110, ORR_NONE);
    small_job(s);
}

static void test_rows(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_annotation *rows;
    size_t n;
    add_annotations(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_annotations(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 3);
    assert_string_equal(rows[0].name, "step"); /* host first, most time first */
    const orr_annotation *forward = find(rows, n, "forward", false);
    assert_int_equal(forward->count, 2);
    assert_int_equal(forward->sum_ns, 110);
    assert_int_equal(forward->min_ns, 50);
    assert_int_equal(forward->max_ns, 60);
    assert_float_equal(forward->mean_ns, 55, 1e-12);
    assert_float_equal(forward->stddev_ns, 7.0710678118654755, 1e-12);
    assert_int_equal(forward->kernel_ns, 20);
    assert_int_equal(find(rows, n, "step", false)->kernel_ns, 3 + 70);
    const orr_annotation *device = find(rows, n, "forward", true);
    assert_int_equal(device->sum_ns, 110);
    assert_int_equal(device->kernel_ns, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
