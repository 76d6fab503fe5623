/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "report/timeline/event_detail.h"

static void attributes_are_lines_and_ids_are_left_out(void **state)
{
    rig r = rig_new();
    const orr_node_id node = rig_node(&r, "op", ORR_NODE_HOST_OP, r.host, 0, 1);
    const double half = 0.5;
    const float quarter = 0.25f;
    const int64_t numbers[] = {1, -2, 3, 4, 5, 6, 7, 8, 9};
    const int32_t small = -7;
    const uint32_t u32 = 8;
    const uint64_t correlation = 99, u64 = UINT64_MAX;
    const uint8_t yes = 1;
    const orr_str json = rig_str(&r, "[[2, 3],\n[]]");
    const orr_attr attrs[] = {
        {rig_str(&r, "half"), 0, ORR_ATTR_DOUBLE, false, 1, &half},
        {rig_str(&r, "quarter"), 0, ORR_ATTR_FLOAT, false, 1, &quarter},
        {rig_str(&r, "grid"), 0, ORR_ATTR_INT64, true, 9, numbers},
        {rig_str(&r, "small"), 0, ORR_ATTR_INT32, false, 1, &small},
        {rig_str(&r, "u32"), 0, ORR_ATTR_UINT32, false, 1, &u32},
        {rig_str(&r, "u64"), 0, ORR_ATTR_UINT64, false, 1, &u64},
        {rig_str(&r, "yes"), 0, ORR_ATTR_BOOL, false, 1, &yes},
        {rig_str(&r, "correlation"), 0, ORR_ATTR_UINT64, false, 1, &correlation},
        {rig_str(&r, "Input Dims"), 0, ORR_ATTR_JSON, false, 1, &json},
        {rig_str(&r, "empty"), 0, ORR_ATTR_INT64, true, 0, numbers},
    };
    char buf[512];
    (void)state;
    assert_int_equal(orr_builder_attrs(r.builder, node, attrs, 10, NULL), ORR_OK);
    const orr_job *job = rig_job(&r);
    const size_t n = orr_event_detail(job->graphs[0], node, buf, sizeof buf);
    assert_string_equal(buf, "half\t0.5\nquarter\t0.25\ngrid\t[1, -2, 3, 4, 5, 6, 7, 8, ...]\n"
                             "small\t-7\nu32\t8\nu64\t18446744073709551615\nyes\ttrue\n"
                             "Input Dims\t[[2, 3], []]\nempty\t[]\n");
    assert_int_equal(n, strlen(buf));
    for (size_t cap = 0; cap < sizeof buf; cap++) { /* whole lines only */
        const size_t cut = orr_event_detail(job->graphs[0], node, buf, cap);
        assert_true(cut == 0 || (cut < cap && buf[cut - 1] == '\n'));
    }
    orr_job_free(job);
}

static void copies_say_how_much_and_how_fast(void **state)
{
    const orr_job *job = small_job();
    char buf[512];
    (void)state;
    orr_event_detail(job->graphs[0], 4, buf, sizeof buf);
    assert_string_equal(buf, "bytes\t4.000 KiB (4096 bytes)\nbandwidth\t1.000 GB/s\n");
    orr_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_lines_and_ids_are_left_out),
        cmocka_unit_test(copies_say_how_much_and_how_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
