/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_tape.h"

#include "base/alloc.h"
#include "op/tape/live_ranges.h"

static void peak_is_the_most_alive_at_once(void **state)
{
    (void)state;
    const orr_live_range lives[] = {{0, 2, 10}, {1, 1, 7}, {2, 3, 20}, {4, 4, 5}};
    int64_t bytes;
    uint32_t step;
    assert_int_equal(orr_live_ranges_peak(lives, 4, 0, 5, &bytes, &step, NULL), ORR_OK);
    assert_int_equal(bytes, 30);
    assert_int_equal(step, 2);
    assert_int_equal(orr_live_ranges_peak(lives, 4, 0, 2, &bytes, &step, NULL), ORR_OK);
    assert_int_equal(bytes, 17);
    assert_int_equal(orr_live_ranges_peak(lives, 4, 3, 5, &bytes, &step, NULL), ORR_OK);
    assert_int_equal(bytes, 20);
    assert_int_equal(step, 3);
    assert_int_equal(orr_live_ranges_peak(lives, 4, 3, 3, &bytes, NULL, NULL), ORR_OK);
    assert_int_equal(bytes, 0);
}

static void peak_tells_what_does_not_fit(void **state)
{
    (void)state;
    const orr_live_range lives[] = {{0, 1, INT64_MAX}, {0, 1, 1}};
    int64_t bytes = -7;
    orr_error err;
    assert_int_equal(orr_live_ranges_peak(lives, 2, 0, 2, &bytes, NULL, &err), ORR_LIMIT);
    assert_int_equal(bytes, -7);
}

static void check_layout(const orr_live_range *lives, uint32_t n, const int64_t *offset,
                         int64_t high, int64_t alignment)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(offset[i] % alignment, 0);
        assert_true(offset[i] + lives[i].bytes <= high);
        for (uint32_t k = 0; k < i; k++)
            if (lives[i].first <= lives[k].last && lives[k].first <= lives[i].last)
                assert_true(offset[i] + lives[i].bytes <= offset[k] ||
                            offset[k] + lives[k].bytes <= offset[i]);
    }
}

static void offsets_take_the_tightest_gap(void **state)
{
    (void)state;
    /* Two large ones that follow each other lie in the same place; the small one, that meets
     * one of them, above; the last fits where the first was. */
    const orr_live_range lives[] = {{0, 1, 256}, {2, 3, 256}, {1, 2, 64}, {0, 0, 64}};
    int64_t offset[4], high;
    assert_int_equal(orr_live_ranges_pack(lives, 4, 64, offset, &high, NULL), ORR_OK);
    check_layout(lives, 4, offset, high, 64);
    assert_int_equal(high, 320);
    assert_int_equal(offset[0], 0);
    assert_int_equal(offset[1], 0);
    assert_int_equal(offset[2], 256);
    assert_int_equal(offset[3], 256);
}

static void offsets_are_aligned_and_empty_lives_are_nowhere(void **state)
{
    (void)state;
    const orr_live_range lives[] = {{0, 4, 1}, {0, 4, 0}, {0, 4, 100}};
    int64_t offset[3], high;
    assert_int_equal(orr_live_ranges_pack(lives, 3, 64, offset, &high, NULL), ORR_OK);
    assert_int_equal(offset[2], 0);
    assert_int_equal(offset[0], 128);
    assert_int_equal(offset[1], 0);
    assert_int_equal(high, 192);
    assert_int_equal(orr_live_ranges_pack(lives, 0, 64, offset, &high, NULL), ORR_OK);
    assert_int_equal(high, 0);
}

static void failing_allocations_are_told(void **state)
{
    (void)state;
    const orr_live_range lives[] = {{0, 1, 8}, {1, 2, 8}};
    int64_t offset[2], high = -1;
    orr_alloc_fail_from(1);
    const orr_status peak = orr_live_ranges_peak(lives, 2, 0, 3, &high, NULL, NULL);
    const orr_status lay = orr_live_ranges_pack(lives, 2, 8, offset, &high, NULL);
    orr_alloc_fail_from(2);
    const orr_status second = orr_live_ranges_pack(lives, 2, 8, offset, &high, NULL);
    orr_alloc_fail_from(0);
    assert_int_equal(peak, ORR_NO_MEMORY);
    assert_int_equal(lay, ORR_NO_MEMORY);
    assert_int_equal(second, ORR_NO_MEMORY);
    assert_int_equal(high, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_is_the_most_alive_at_once),
        cmocka_unit_test(peak_tells_what_does_not_fit),
        cmocka_unit_test(offsets_take_the_tightest_gap),
        cmocka_unit_test(offsets_are_aligned_and_empty_lives_are_nowhere),
        cmocka_unit_test(failing_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
