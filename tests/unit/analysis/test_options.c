/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/common.h"

static void test_defaults(void **state)
{
    (void)state;
    const orr_analysis_options options = orr_options_complete(NULL);
    assert_int_equal(options.struct_bytes, sizeof options);
    assert_int_equal(options.rank, ORR_NONE);
    assert_string_equal(options.annotation, "ProfilerStep");
    assert_int_equal(options.step_first, -1);
    assert_int_equal(options.step_last, -1);
    assert_int_equal(options.kernel_wait_ns, 30000);
    assert_null(options.operator_name);
}

/* A caller built against a header that ended after `step_last`. */
static void test_shorter_struct(void **state)
{
    (void)state;
    orr_analysis_options given = small_options();
    given.rank = 3;
    given.step_last = 5;
    given.kernel_wait_ns = 1;
    given.struct_bytes = offsetof(orr_analysis_options, kernel_wait_ns);
    const orr_analysis_options options = orr_options_complete(&given);
    assert_int_equal(options.rank, 3);
    assert_int_equal(options.step_last, 5);
    assert_int_equal(options.kernel_wait_ns, 30000);
    assert_int_equal(options.struct_bytes, sizeof options);
}

static void test_longer_struct(void **state)
{
    (void)state;
    orr_analysis_options given = small_options();
    given.straggler_count = 9;
    given.annotation = NULL;
    given.struct_bytes = sizeof given + 64;
    const orr_analysis_options options = orr_options_complete(&given);
    assert_int_equal(options.straggler_count, 9);
    assert_string_equal(options.annotation, "ProfilerStep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_shorter_struct),
        cmocka_unit_test(test_longer_struct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
