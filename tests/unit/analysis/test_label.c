/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/common.h"

static void test_one_device(void **state)
{
    (void)state;
    small s = small_begin();
    small_thread(&s, 4515);
    small_stream(&s, 0, 7);
    small_lane(&s, (orr_lane){.kind = ORR_LANE_HOST,
                              .device = -1,
                              .pid = 1,
                              .tid = INT64_MIN,
                              .name = small_str(&s, "PyTorch Profiler")});
    small_job(&s);
    const char *const *labels;
    assert_int_equal(orr_lane_labels(s.graphs[0], s.arena, &labels, NULL), ORR_OK);
    assert_string_equal(labels[0], "4515");
    assert_string_equal(labels[1], "7");
    assert_string_equal(labels[2], "PyTorch Profiler");
    small_end(&s);
}

static void test_two_devices(void **state)
{
    (void)state;
    small s = small_begin();
    small_stream(&s, 0, 7);
    small_stream(&s, 1, 7);
    small_job(&s);
    const char *const *labels;
    assert_int_equal(orr_lane_labels(s.graphs[0], s.arena, &labels, NULL), ORR_OK);
    assert_string_equal(labels[0], "0:7");
    assert_string_equal(labels[1], "1:7");
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_device),
        cmocka_unit_test(test_two_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
