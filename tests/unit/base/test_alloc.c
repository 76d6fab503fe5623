/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

static void fails_from_the_nth_on(void **state)
{
    (void)state;
    orr_alloc_fail_from(2);
    void *first = orr_malloc(1);
    void *second = orr_malloc(1);
    void *third = orr_calloc(1, 1);
    void *fourth = orr_realloc(NULL, 1);
    orr_alloc_fail_from(0);
    assert_non_null(first);
    assert_null(second);
    assert_null(third);
    assert_null(fourth);
    orr_free(first);
}

static void failed_realloc_keeps_the_old(void **state)
{
    (void)state;
    char *text = orr_malloc(4);
    memcpy(text, "abc", 4);
    orr_alloc_fail_from(1);
    void *grown = orr_realloc(text, 100);
    orr_alloc_fail_from(0);
    assert_null(grown);
    assert_string_equal(text, "abc");
    orr_free(text);
}

static void counts(void **state)
{
    (void)state;
    (void)orr_alloc_count();
    void *a = orr_malloc(0);
    void *b = orr_calloc(0, 8);
    assert_true(orr_alloc_count() == 2);
    assert_true(orr_alloc_count() == 0);
    assert_non_null(a);
    assert_non_null(b);
    orr_free(a);
    orr_free(b);
    orr_free(NULL);
}

static void overflow_is_told(void **state)
{
    (void)state;
    size_t result = 7;
    assert_true(orr_mul_size(3, 5, &result));
    assert_int_equal(result, 15);
    assert_false(orr_mul_size(SIZE_MAX / 2, 3, &result));
    assert_true(orr_add_size(SIZE_MAX - 1, 1, &result));
    assert_false(orr_add_size(SIZE_MAX, 1, &result));
    assert_null(orr_calloc(SIZE_MAX / 2, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fails_from_the_nth_on),
        cmocka_unit_test(failed_realloc_keeps_the_old),
        cmocka_unit_test(counts),
        cmocka_unit_test(overflow_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
