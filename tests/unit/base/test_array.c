/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"

static void pushes_keep_order(void **state)
{
    (void)state;
    orr_array(int64_t) a = {0};
    for (int64_t i = 0; i < 100000; i++)
        assert_true(orr_array_push(&a, i * 3));
    assert_int_equal(a.n, 100000);
    for (int64_t i = 0; i < 100000; i++)
        assert_true(a.at[i] == i * 3);
    orr_array_done(&a);
    assert_null(a.at);
    assert_int_equal(a.n, 0);
    assert_int_equal(a.room, 0);
    orr_array_done(&a);
}

static void growth_is_geometric(void **state)
{
    (void)state;
    orr_array(char) a = {0};
    (void)orr_alloc_count();
    for (int i = 0; i < 1000000; i++)
        assert_true(orr_array_push(&a, 'x'));
    assert_in_range(orr_alloc_count(), 1, 40);
    orr_array_done(&a);
}

static void large_elements(void **state)
{
    (void)state;
    typedef struct large {
        char bytes[1000];
    } large;
    orr_array(large) a = {0};
    assert_true(orr_array_reserve(&a, 3));
    assert_true(a.room >= 3);
    const size_t nothing = a.n;
    assert_true(orr_array_reserve(&a, nothing));
    orr_array_done(&a);
}

static void failure_leaves_it_unchanged(void **state)
{
    (void)state;
    orr_array(int) a = {0};
    for (int i = 0; i < 16; i++)
        assert_true(orr_array_push(&a, i));
    const size_t room = a.room;
    assert_false(orr_array_reserve(&a, SIZE_MAX));
    assert_false(orr_array_reserve(&a, SIZE_MAX / sizeof(int)));
    orr_alloc_fail_from(1);
    const bool reserved = orr_array_reserve(&a, room + 1);
    orr_alloc_fail_from(0);
    assert_false(reserved);
    assert_int_equal(a.n, 16);
    assert_int_equal(a.room, room);
    assert_int_equal(a.at[15], 15);
    orr_array_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_keep_order),
        cmocka_unit_test(growth_is_geometric),
        cmocka_unit_test(large_elements),
        cmocka_unit_test(failure_leaves_it_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
