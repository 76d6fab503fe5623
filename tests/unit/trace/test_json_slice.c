/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h wants the four above first */
#include <cmocka.h>

#include "trace/common/json_slice.h"

static orr_text text_of(const char *text)
{
    return (orr_text){text, strlen(text)};
}

static void check_elements(orr_json_slice slice, const char *const *want, size_t n)
{
    orr_text element;
    for (size_t i = 0; i < n; i++) {
        assert_true(orr_json_slice_next(&slice, &element));
        assert_int_equal(element.n, strlen(want[i]));
        assert_memory_equal(element.at, want[i], element.n);
    }
    assert_false(orr_json_slice_next(&slice, &element));
}

static void gives_the_elements_of_an_array(void **state)
{
    (void)state;
    static const char *const want[] = {"[5, [6, \"]\"]]", "-1.5e3", "\"a, \\\"b]\"", "{\"k\": [1]}",
                                       "true"};
    check_elements(
        orr_json_slice_of(text_of("[[5, [6, \"]\"]], -1.5e3,\n \"a, \\\"b]\",{\"k\": [1]}, "
                                  "true]")),
        want, 5);
    check_elements(orr_json_slice_of(text_of("[]")), NULL, 0);
    check_elements(orr_json_slice_of(text_of("7")), NULL, 0);
    check_elements(orr_json_slice_of(text_of("")), NULL, 0);
}

static void ends_where_the_text_ends(void **state)
{
    (void)state;
    static const char *const cut[] = {"[[1, 2", "[\"abc", "[\"abc\\", "[{\"a\":", "[1, "};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        orr_json_slice slice = orr_json_slice_of(text_of(cut[i]));
        const char *end = cut[i] + strlen(cut[i]);
        for (orr_text element; orr_json_slice_next(&slice, &element);)
            assert_true(element.at + element.n <= end);
        assert_true(slice.at <= end);
    }
}

static void gives_the_members_of_an_object(void **state)
{
    (void)state;
    orr_json_slice slice =
        orr_json_slice_of_object(text_of("{\"values\": [1, 2], \"shapes\":[[]],\"t\" : "
                                         "\"x\"}"));
    orr_text key, value;
    assert_true(orr_json_slice_next_member(&slice, &key, &value));
    assert_true(orr_text_is(key, "values") && orr_text_is(value, "[1, 2]"));
    assert_true(orr_json_slice_next_member(&slice, &key, &value));
    assert_true(orr_text_is(key, "shapes") && orr_text_is(value, "[[]]"));
    assert_true(orr_json_slice_next_member(&slice, &key, &value));
    assert_true(orr_text_is(key, "t") && orr_text_is(orr_json_unquote(value), "x"));
    assert_false(orr_json_slice_next_member(&slice, &key, &value));
}

static void takes_types_apart(void **state)
{
    (void)state;
    orr_json_slice slice =
        orr_type_list_of(text_of("GenericList[Tensor(long int),Tuple[Int,Bool],Int]"));
    orr_text type;
    assert_true(orr_type_list_next(&slice, &type) && orr_text_is(type, "Tensor(long int)"));
    assert_true(orr_type_list_next(&slice, &type) && orr_text_is(type, "Tuple[Int,Bool]"));
    assert_true(orr_type_list_next(&slice, &type) && orr_text_is(type, "Int"));
    assert_false(orr_type_list_next(&slice, &type));
    static const char *const no_lists[] = {"Int", "Tensor(float)", "GenericList[]", "GenericList[",
                                           ""};
    for (size_t i = 0; i < sizeof no_lists / sizeof *no_lists; i++) {
        slice = orr_type_list_of(text_of(no_lists[i]));
        assert_false(orr_type_list_next(&slice, &type));
    }
}

/* As a node without values has it. Sanitizers see what a reader of it may do wrong. */
static void an_absent_text_has_no_elements(void **state)
{
    (void)state;
    orr_json_slice array = orr_json_slice_of((orr_text){NULL, 0}),
                   object = orr_json_slice_of_object((orr_text){NULL, 0});
    assert_true(array.at == array.end);
    assert_true(object.at == object.end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_elements_of_an_array),
        cmocka_unit_test(ends_where_the_text_ends),
        cmocka_unit_test(gives_the_members_of_an_object),
        cmocka_unit_test(takes_types_apart),
        cmocka_unit_test(an_absent_text_has_no_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
