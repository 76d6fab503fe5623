/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/philox.h"
#include "team/protocol/message.h"

/* Which slots are still to be trained: against a set that remembers every one. */

static void test_in_order(void **state)
{
    (void)state;
    orr_team_data_cursor data = {0};
    const uint64_t step[][2] = {{0, 1}, {2, 3}, {5, 4}};
    for (size_t i = 0; i < 3; i++)
        assert_true(orr_team_data_cursor_consume(&data, step[i], 2));
    assert_int_equal(data.next, 6);
    assert_int_equal(data.n, 0);
}

static void test_what_was_passed_over_comes_back(void **state)
{
    (void)state;
    orr_team_data_cursor data = {.next = 10};
    assert_true(orr_team_data_cursor_consume(&data, (uint64_t[]){13, 11}, 2));
    assert_int_equal(data.next, 14);
    assert_int_equal(data.n, 2);
    assert_int_equal(data.returned[0], 10);
    assert_int_equal(data.returned[1], 12);
    assert_true(orr_team_data_cursor_consume(&data, (uint64_t[]){12, 14}, 2));
    assert_int_equal(data.n, 1);
    assert_int_equal(data.returned[0], 10);
    assert_true(orr_team_data_cursor_is_open(&data, 10));
    assert_false(orr_team_data_cursor_is_open(&data, 12));
    assert_true(orr_team_data_cursor_is_open(&data, 15));
    assert_false(orr_team_data_cursor_is_open(&data, 9));
}

static void test_twice_is_refused(void **state)
{
    (void)state;
    orr_team_data_cursor data = {.next = 4, .returned = {1}, .n = 1, .epoch = 3};
    const orr_team_data_cursor before = data;
    static const uint64_t twice[][2] = {{0, 4}, {4, 4}, {1, 1}, {5, 3}};
    for (size_t i = 0; i < 4; i++) {
        assert_false(orr_team_data_cursor_consume(&data, twice[i], 2));
        assert_memory_equal(&data, &before, sizeof data); /* nothing of it */
    }
}

static void test_more_than_can_come_back(void **state)
{
    (void)state;
    orr_team_data_cursor data = {0};
    const orr_team_data_cursor before = data;
    uint64_t slot = ORR_TEAM_MAX_RETURNED_SLOTS;
    assert_false(orr_team_data_cursor_consume(&data, &slot, 1));
    assert_memory_equal(&data, &before, sizeof data);
    slot--; /* the most: all places are taken for a moment */
    assert_true(orr_team_data_cursor_consume(&data, &slot, 1));
    assert_int_equal(data.n, ORR_TEAM_MAX_RETURNED_SLOTS - 1);
    slot = ORR_TEAM_MAX_RETURNED_SLOTS;
    assert_true(orr_team_data_cursor_consume(&data, &slot, 1));
    slot += 2;
    assert_false(orr_team_data_cursor_consume(&data, &slot, 1));
}

/* As many have come back as there is room for: what is looked for is looked for among them alone,
 * which a sanitizer sees where the next number happens to be no slot. */
static void test_all_places_are_taken(void **state)
{
    (void)state;
    orr_team_data_cursor data = {.next = 2 * ORR_TEAM_MAX_RETURNED_SLOTS,
                                 .n = ORR_TEAM_MAX_RETURNED_SLOTS,
                                 .epoch = UINT64_MAX};
    for (uint32_t i = 0; i < ORR_TEAM_MAX_RETURNED_SLOTS; i++)
        data.returned[i] = 2 * i;
    for (uint64_t slot = 0; slot < 2 * ORR_TEAM_MAX_RETURNED_SLOTS; slot++)
        assert_int_equal(orr_team_data_cursor_is_open(&data, slot), slot % 2 == 0);
    assert_true(orr_team_data_cursor_is_open(&data, 2 * ORR_TEAM_MAX_RETURNED_SLOTS));
    uint64_t slot = 2 * ORR_TEAM_MAX_RETURNED_SLOTS - 2; /* the last of them */
    assert_true(orr_team_data_cursor_consume(&data, &slot, 1));
    assert_false(orr_team_data_cursor_is_open(&data, slot));
    assert_int_equal(data.n, ORR_TEAM_MAX_RETURNED_SLOTS - 1);
}

/* As a payload may say it: NEVER is no slot. */
static void test_at_the_end_of_numbers(void **state)
{
    (void)state;
    static const uint64_t nexts[] = {0, UINT64_MAX - 5, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof nexts / sizeof nexts[0]; i++) {
        orr_team_data_cursor data = {.next = nexts[i]};
        const uint64_t slot = ORR_TEAM_NONE;
        assert_false(orr_team_data_cursor_consume(&data, &slot, 1));
        assert_int_equal(data.next, nexts[i]);
        assert_int_equal(data.n, 0);
    }
}

enum { SLOTS = 4096 };

/* Steps of slots that are drawn: some that came back, some new ones, some beyond them, some already
 * trained. */
static void random_history(uint64_t seed)
{
    bool trained[SLOTS + 1] = {false};
    orr_team_data_cursor data = {0};
    orr_random random = orr_random_of(seed, 0);
    for (int step = 0; step < 300 && data.next + 80 < SLOTS; step++) {
        uint64_t slots[4];
        bool right = true;
        const uint32_t n = (uint32_t)(orr_random_below(&random, 5));
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t draw = orr_random_u64(&random);
            slots[i] = draw % 3 == 0 && data.n > 0       ? data.returned[(draw >> 8) % data.n]
                       : draw % 16 == 1 && data.next > 0 ? (draw >> 8) % data.next
                                                         : data.next + (draw >> 8) % 6;
            for (uint32_t k = 0; k < i; k++)
                right &= slots[k] != slots[i];
            right &= !trained[slots[i]];
        }
        const orr_team_data_cursor before = data;
        if (!orr_team_data_cursor_consume(&data, slots, n)) {
            assert_memory_equal(&data, &before, sizeof data);
            assert_true(!right || before.n > ORR_TEAM_MAX_RETURNED_SLOTS - 4 * 6);
            continue;
        }
        assert_true(right);
        for (uint32_t i = 0; i < n; i++)
            trained[slots[i]] = true;
        for (uint64_t slot = 0; slot < data.next + 3; slot++)
            assert_int_equal(orr_team_data_cursor_is_open(&data, slot), !trained[slot]);
        uint32_t open = 0;
        for (uint64_t slot = 0; slot < data.next; slot++)
            open += !trained[slot];
        assert_int_equal(data.n, open);
    }
    assert_true(data.next > 50);
}

static void test_random_histories(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++)
        random_history(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_what_was_passed_over_comes_back),
        cmocka_unit_test(test_twice_is_refused),
        cmocka_unit_test(test_more_than_can_come_back),
        cmocka_unit_test(test_all_places_are_taken),
        cmocka_unit_test(test_at_the_end_of_numbers),
        cmocka_unit_test(test_random_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
