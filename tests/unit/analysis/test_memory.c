/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

static void event(small *s, uint32_t lane, int64_t at_ns, int64_t bytes, int64_t allocated,
                  int64_t reserved, int32_t type, int32_t device)
{
    const uint32_t id = small_node(s, ORR_NODE_MEMORY, "[memory]", lane, at_ns, 0, ORR_NONE);
    const orr_memory row = {.bytes = bytes,
                            .allocated_bytes = allocated,
                            .reserved_bytes = reserved,
                            .device_type = type,
                            .device = device};
    assert_int_equal(orr_builder_memory(s->builder, id, &row, &s->err), ORR_OK);
}

/* Two threads; cuda:0 with totals, cpu without. */
static void add_events(small *s)
{
    const uint32_t a = small_thread(s, 1), b = small_thread(s, 2);
    event(s, a, 10, 100, 1100, 4096, 1, 0);
    event(s, b, 20, 500, 1600, 8192, 1, 0);
    event(s, a, 30, -100, 1500, 8192, 1, 0);
    event(s, a, 5, 64, -1, -1, 0, -1);
    event(s, a, 6, 36, -1, -1, 0, -1);
    event(s, a, 7, -64, -1, -1, 0, -1);
    small_job(s);
}

static void test_summary(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_memory_summary *rows;
    size_t n;
    add_events(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_memory(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    assert_string_equal(rows[0].device, "cpu");
    assert_int_equal(rows[0].allocations, 2);
    assert_int_equal(rows[0].frees, 1);
    assert_int_equal(rows[0].start_allocated_bytes, 0);
    assert_int_equal(rows[0].peak_allocated_bytes, 100);
    assert_int_equal(rows[0].end_allocated_bytes, 36);
    assert_int_equal(rows[0].peak_reserved_bytes, -1);
    assert_string_equal(rows[1].device, "cuda:0");
    assert_int_equal(rows[1].start_allocated_bytes, 1000);
    assert_int_equal(rows[1].peak_allocated_bytes, 1600);
    assert_int_equal(rows[1].peak_at_ns, 15); /* the job begins with the first event, at 5 */
    assert_int_equal(rows[1].end_allocated_bytes, 1500);
    assert_int_equal(rows[1].peak_reserved_bytes, 8192);
    small_end(&s);
}

static void test_series(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_series_sample *rows;
    size_t n;
    add_events(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_memory_series(s.job, NULL, s.arena, &rows, &n, &s.err));
    const char *const series[] = {"cpu allocated", "cuda:0 allocated", "cuda:0 reserved"};
    const double value[] = {64, 100, 36, 1100, 1600, 1500, 4096, 8192, 8192};
    assert_int_equal(n, 9);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(rows[i].series, series[i / 3]);
        assert_float_equal(rows[i].value, value[i], 0);
    }
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
