/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "base/alloc.h"
#include "report/timeline/name_index.h"

static uint32_t add(orr_name_index *index, uint8_t tag, const char *text)
{
    return orr_name_index_add(index, tag, text, strlen(text));
}

static void the_most_used_comes_first(void **state)
{
    orr_name_index index;
    size_t len;
    (void)state;
    assert_true(orr_name_index_init(&index));
    const uint32_t a = add(&index, 3, "rare");
    const uint32_t b = add(&index, 7, "often");
    const uint32_t c = add(&index, 8, "often"); /* another kind, another entry */
    assert_int_equal(add(&index, 7, "often"), b);
    assert_int_equal(add(&index, 7, "often"), b);
    assert_int_equal(add(&index, 8, "often"), c);
    const uint32_t empty = add(&index, 255, "");
    assert_true(orr_name_index_sort(&index));
    assert_int_equal(orr_name_index_count(&index), 4);
    assert_int_equal(index.number.at[b], 0);
    assert_int_equal(index.number.at[c], 1);
    assert_int_equal(index.number.at[a], 2);
    assert_int_equal(index.number.at[empty], 3);
    assert_string_equal(orr_name_index_text(&index, 0, &len), "often");
    assert_int_equal(len, 5);
    assert_int_equal(orr_name_index_tag(&index, 0), 7);
    assert_string_equal(orr_name_index_text(&index, 3, &len), "");
    assert_int_equal(orr_name_index_tag(&index, 3), 255);
    assert_int_equal(index.bytes, strlen("rare") + 2 * strlen("often"));
    orr_name_index_done(&index);
}

static void a_name_as_long_as_a_book_is_cut(void **state)
{
    enum { LONG = 200000 };
    orr_name_index index;
    size_t len;
    char *text = malloc(LONG);
    (void)state;
    memset(text, 'x', LONG);
    assert_true(orr_name_index_init(&index));
    assert_int_equal(orr_name_index_add(&index, 0, text, LONG), 0);
    assert_true(orr_name_index_sort(&index));
    orr_name_index_text(&index, 0, &len);
    assert_int_equal(len, 65536);
    orr_name_index_done(&index);
    free(text);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        orr_name_index index;
        char text[16];
        bool good;
        orr_alloc_fail_from(nth);
        good = orr_name_index_init(&index);
        for (int i = 0; good && i < 100; i++) {
            snprintf(text, sizeof text, "name %d", i);
            good = add(&index, 0, text) != ORR_NONE;
        }
        good = good && orr_name_index_sort(&index);
        orr_alloc_fail_from(0);
        orr_name_index_done(&index);
        if (good)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_used_comes_first),
        cmocka_unit_test(a_name_as_long_as_a_book_is_cut),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
