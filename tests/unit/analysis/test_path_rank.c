/* SPDX-License-Identifier: Apache-2.0 */
#include "path_check.h"

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(orr_bound_name(ORR_BOUND_CPU), "cpu_bound");
    assert_string_equal(orr_bound_name(ORR_BOUND_KERNEL_GAP), "gpu_kernel_kernel_overhead");
    assert_string_equal(orr_bound_name(ORR_BOUND_PEER), "waiting_for_peer");
    assert_string_equal(orr_bound_name(ORR_BOUNDS), "unknown");
}

static void one_op(small *s, const char *name)
{
    small_node(s, ORR_NODE_HOST_OP, name, small_thread(s, 1), 0, 10, ORR_NONE);
}

static void test_rank_asked_for(void **state)
{
    (void)state;
    small s = small_begin();
    one_op(&s, "a");
    small_rank(&s);
    one_op(&s, "b");
    small_rank(&s);
    small_job(&s);
    orr_critical_path path = find_path(&s, NULL); /* the lowest */
    assert_string_equal(path.pieces[0].name, "a");
    orr_analysis_options options = small_options();
    options.rank = 1;
    path = find_path(&s, &options);
    assert_string_equal(path.pieces[0].name, "b");
    assert_int_equal(path.pieces[0].rank, 1);

    options.rank = 2;
    assert_int_equal(orr_analyze_critical_path(s.job, &options, s.arena, &path, &s.err),
                     ORR_NOT_FOUND);
    assert_string_equal(s.err.text, "rank 2 was not recorded");
    options.rank = 0;
    options.step_first = 0;
    assert_int_equal(orr_analyze_critical_path(s.job, &options, s.arena, &path, &s.err),
                     ORR_NOT_FOUND);
    assert_string_equal(s.err.text, "no step 0 of annotation 'ProfilerStep' was recorded");
    small_end(&s);
}

/* A caller built against a header without path_hta gives a shorter struct. */
static void test_older_options(void **state)
{
    (void)state;
    small s = small_begin();
    one_op(&s, "a");
    orr_analysis_options options = small_options();
    options.struct_bytes = offsetof(orr_analysis_options, path_hta);
    options.path_hta = true;
    const orr_critical_path path = find_path(&s, &options);
    assert_int_equal(path.bound_ns[ORR_BOUND_CPU], 10);
    assert_int_equal(path.n_edges, 1);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_rank_asked_for),
        cmocka_unit_test(test_older_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
