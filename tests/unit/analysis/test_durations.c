/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

static void test_buckets(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t gpu = small_stream(&s, 0, 7);
    const int64_t durations[] = {0, 1, 2, 3, 4, 1023, 1024, 1024};
    for (size_t i = 0; i < 8; i++)
        small_work(&s, ORR_NODE_COMPUTE, "k", gpu, (int64_t)i * 5000, durations[i], ORR_NONE);
    small_work(&s, ORR_NODE_COPY, "Memcpy", gpu, 90000, 5, ORR_NONE);
    small_job(&s);
    const orr_duration_bucket *rows;
    size_t n;
    assert_int_equal(orr_analyze_durations(s.job, NULL, s.arena, &rows, &n, &s.err), ORR_OK);
    const struct {
        int64_t from_ns, to_ns;
        uint64_t count;
        int64_t sum_ns;
    } want[] = {{0, 1, 1, 0},         {1, 2, 1, 1},          {2, 4, 2, 5}, {4, 8, 1, 4},
                {512, 1024, 1, 1023}, {1024, 2048, 2, 2048}, {4, 8, 1, 5}};
    assert_int_equal(n, 7);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(rows[i].type, i < 6 ? "COMPUTATION" : "MEMORY");
        assert_int_equal(rows[i].from_ns, want[i].from_ns);
        assert_int_equal(rows[i].to_ns, want[i].to_ns);
        assert_int_equal(rows[i].count, want[i].count);
        assert_int_equal(rows[i].sum_ns, want[i].sum_ns);
    }
    small_end(&s);
}

/* Counts of all buckets are the number of nodes, sums the time of the kernels. */
static void test_sums(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t gpu = small_stream(&s, 0, 7);
    uint32_t seed = 99;
    int64_t total = 0;
    for (int i = 0; i < 500; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int64_t duration_ns = (int64_t)(seed >> 8) >> (seed % 24);
        small_work(&s, ORR_NODE_COMPUTE, "k", gpu, i, duration_ns, ORR_NONE);
        total += duration_ns;
    }
    small_job(&s);
    const orr_duration_bucket *rows;
    size_t n;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_durations(s.job, NULL, s.arena, &rows, &n, &s.err));
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(rows[i].sum_ns >= rows[i].from_ns * (int64_t)rows[i].count);
        assert_true(rows[i].sum_ns < rows[i].to_ns * (int64_t)rows[i].count);
        count += rows[i].count;
        total -= rows[i].sum_ns;
    }
    assert_int_equal(count, 500);
    assert_int_equal(total, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
