/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "estimate/memo.h"

enum { MANY = 1000 };

static orr_memo_key key_of(uint32_t i)
{
    return (orr_memo_key){{i % 7, i / 7, [ORR_MEMO_WORDS - 1] = i}};
}

static void what_was_added_is_found(void **state)
{
    (void)state;
    static uint32_t values[MANY];
    orr_memo memo = {0};
    assert_null(orr_memo_find(&memo, &(orr_memo_key){{1}}));
    for (uint32_t i = 0; i < MANY; i++) {
        const orr_memo_key key = key_of(i);
        assert_null(orr_memo_find(&memo, &key));
        assert_true(orr_memo_add(&memo, &key, &values[i]));
    }
    for (uint32_t i = 0; i < MANY; i++) {
        const orr_memo_key key = key_of(i);
        assert_ptr_equal(orr_memo_find(&memo, &key), &values[i]);
    }
    assert_int_equal(memo.n, MANY);
    orr_memo_done(&memo);
    assert_null(orr_memo_find(&memo, &(orr_memo_key){{1}}));
}

static void no_memory_leaves_it_as_it_was(void **state)
{
    (void)state;
    int value;
    orr_memo memo = {0};
    const orr_memo_key one = {{1}}, other = {{2}};
    orr_alloc_fail_from(1);
    assert_false(orr_memo_add(&memo, &one, &value));
    orr_alloc_fail_from(0);
    assert_true(orr_memo_add(&memo, &one, &value));
    while (2 * (memo.n + 1) <= memo.room) {
        const orr_memo_key key = key_of(1000 + memo.n);
        assert_true(orr_memo_add(&memo, &key, &value));
    }
    orr_alloc_fail_from(1);
    assert_false(orr_memo_add(&memo, &other, &value));
    orr_alloc_fail_from(0);
    assert_ptr_equal(orr_memo_find(&memo, &one), &value);
    assert_null(orr_memo_find(&memo, &other));
    orr_memo_done(&memo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found),
        cmocka_unit_test(no_memory_leaves_it_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
