/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/common.h"

static void assert_sorted(const orr_keyed *items, size_t n)
{
    for (size_t i = 1; i < n; i++)
        assert_true(items[i - 1].key < items[i].key ||
                    (items[i - 1].key == items[i].key && items[i - 1].id < items[i].id));
}

/* Every length around the block size and its doublings, with many equal keys. */
static void test_every_length(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    uint32_t seed = 7;
    static orr_keyed items[300];
    for (size_t n = 0; n <= 300; n++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            items[i] = (orr_keyed){.key = (int64_t)(seed >> 28) - 8, .id = (uint32_t)(n - i)};
            sum += (uint64_t)items[i].id;
        }
        assert_int_equal(orr_sort_keyed(items, n, arena, NULL), ORR_OK);
        assert_sorted(items, n);
        for (size_t i = 0; i < n; i++)
            sum -= (uint64_t)items[i].id;
        assert_int_equal(sum, 0);
    }
    orr_arena_free(arena);
}

static void test_sorted_runs(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    static orr_keyed items[10000];
    for (uint32_t i = 0; i < 10000; i++)
        items[i] = (orr_keyed){.key = i % 2500, .id = i};
    assert_int_equal(orr_sort_keyed(items, 10000, arena, NULL), ORR_OK);
    assert_sorted(items, 10000);
    assert_int_equal(items[9999].key, 2499);
    assert_int_equal(items[9999].id, 9999);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_sorted_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
