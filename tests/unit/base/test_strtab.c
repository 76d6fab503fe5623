/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strtab.h"

static void empty_text_is_zero(void **state)
{
    (void)state;
    orr_strtab *tab = orr_strtab_new();
    assert_int_equal(orr_strtab_count(tab), 1);
    assert_int_equal(orr_strtab_add(tab, "", 0), 0);
    assert_int_equal(orr_strtab_add(tab, NULL, 0), 0);
    assert_int_equal(orr_strtab_find(tab, NULL, 0), 0);
    assert_string_equal(orr_strtab_text(tab, 0), "");
    orr_strtab_free(tab);
    orr_strtab_free(NULL);
}

static void equal_text_equal_number(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    orr_strtab *tab = orr_strtab_new();
    char text[32];
    for (uint32_t i = 0; i < COUNT; i++) {
        const int n = snprintf(text, sizeof text, "operator-%u", i * 7919);
        assert_int_equal(orr_strtab_add(tab, text, (size_t)n), i + 1);
    }
    const char *early = orr_strtab_text(tab, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        const int n = snprintf(text, sizeof text, "operator-%u", i * 7919);
        assert_int_equal(orr_strtab_add(tab, text, (size_t)n), i + 1);
        assert_int_equal(orr_strtab_find(tab, text, (size_t)n), i + 1);
        assert_string_equal(orr_strtab_text(tab, i + 1), text);
        assert_int_equal(orr_strtab_len(tab, i + 1), n);
    }
    assert_ptr_equal(orr_strtab_text(tab, 1), early);
    assert_int_equal(orr_strtab_count(tab), COUNT + 1);
    assert_int_equal(orr_strtab_find(tab, "absent", 6), UINT32_MAX);
    assert_true(orr_strtab_held_bytes(tab) > COUNT * sizeof "operator-0");
    orr_strtab_free(tab);
}

static void any_bytes_any_length(void **state)
{
    (void)state;
    orr_strtab *tab = orr_strtab_new();
    const uint32_t a = orr_strtab_add(tab, "a\0b", 3);
    const uint32_t b = orr_strtab_add(tab, "a\0c", 3);
    const uint32_t c = orr_strtab_add(tab, "a", 1);
    assert_int_not_equal(a, b);
    assert_int_not_equal(a, c);
    assert_memory_equal(orr_strtab_text(tab, a), "a\0b", 4);

    static char long_text[300000];
    memset(long_text, 'z', sizeof long_text);
    for (size_t n = 1; n < sizeof long_text; n = n * 3 + 1) {
        const uint32_t id = orr_strtab_add(tab, long_text, n);
        assert_int_equal(orr_strtab_add(tab, long_text, n), id);
        assert_int_equal(orr_strtab_len(tab, id), n);
        assert_int_equal(orr_strtab_text(tab, id)[n], '\0');
    }
    orr_strtab_free(tab);
}

/* A failed addition changes nothing that can be seen. */
static void failure_is_survived(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        orr_alloc_fail_from(nth);
        orr_strtab *tab = orr_strtab_new();
        uint32_t added = 0;
        char text[16];
        for (uint32_t i = 0; tab != NULL && i < 2000; i++) {
            const int n = snprintf(text, sizeof text, "s%u", i);
            if (orr_strtab_add(tab, text, (size_t)n) == UINT32_MAX)
                break;
            added++;
        }
        orr_alloc_fail_from(0);
        if (tab != NULL) {
            assert_int_equal(orr_strtab_count(tab), added + 1);
            for (uint32_t i = 0; i < added; i++) {
                const int n = snprintf(text, sizeof text, "s%u", i);
                assert_int_equal(orr_strtab_find(tab, text, (size_t)n), i + 1);
            }
            assert_int_equal(orr_strtab_add(tab, "and on", 6), added + 1);
        }
        orr_strtab_free(tab);
        if (added == 2000)
            break;
        assert_in_range(nth, 1, 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_text_is_zero),
        cmocka_unit_test(equal_text_equal_number),
        cmocka_unit_test(any_bytes_any_length),
        cmocka_unit_test(failure_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
