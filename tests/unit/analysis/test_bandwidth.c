/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

static void copy(small *s, const char *name, uint32_t lane, int64_t start_ns, int64_t duration_ns,
                 uint64_t bytes, double bytes_per_s)
{
    const uint32_t id = small_work(s, ORR_NODE_COPY, name, lane, start_ns, duration_ns, ORR_NONE);
    const orr_copy row = {.bytes = bytes, .bandwidth_bytes_per_s = bytes_per_s};
    assert_int_equal(orr_builder_copy(s->builder, id, &row, &s->err), ORR_OK);
}

/* DtoH: [0,10) at 5, [10,20) at 7 as recorded, and [15,25) at 20 bytes / 10 ns. DtoD of two kinds
 * of memory is one kind; without bytes or time there is no bandwidth. */
static void add_copies(small *s)
{
    const uint32_t a = small_stream(s, 0, 7), b = small_stream(s, 0, 8);
    copy(s, "Memcpy DtoH (Device -> Pinned)", a, 0, 10, 1, 5e9);
    copy(s, "Memcpy DtoH (Device -> Pinned)", a, 10, 10, 1, 7e9);
    copy(s, "Memcpy DtoH (Device -> Pageable)", b, 15, 10, 20, 0);
    copy(s, "Memcpy DtoD (Device -> Device)", a, 50, 0, 0, 3e9); /* too short for the clock */
    copy(s, "Memcpy DtoD (Device -> Device)", a, 60, 5, 0, 0);
    small_work(s, ORR_NODE_SET, "Memset (Device)", a, 70, 5, ORR_NONE);
    small_job(s);
}

static void test_series(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_series_sample *rows;
    size_t n;
    add_copies(&s);
    SMALL_SURVIVES_NO_MEMORY(
        orr_analyze_memory_bandwidth_series(s.job, NULL, s.arena, &rows, &n, &s.err));
    const int64_t at[] = {50, 51, 0, 10, 10, 15, 20, 25};
    const double value[] = {3e9, 0, 5e9, 0, 7e9, 9e9, 2e9, 0};
    assert_int_equal(n, 8);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(rows[i].series, i < 2 ? "Memcpy DtoD" : "Memcpy DtoH");
        assert_int_equal(rows[i].at_ns, at[i]);
        assert_float_equal(rows[i].value, value[i], 1);
    }
    small_end(&s);
}

static void test_distribution(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_distribution *rows;
    size_t n;
    add_copies(&s);
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_memory_bandwidth(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    assert_int_equal(rows[0].count, 1);
    assert_int_equal(rows[1].count, 4);
    assert_float_equal(rows[1].mean, 23e9 / 4, 1);
    assert_float_equal(rows[1].min, 2e9, 1);
    assert_float_equal(rows[1].max, 9e9, 1);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
