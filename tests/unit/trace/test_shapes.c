/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include "trace/comm/shapes.h"

static int64_t elements(const char *dims, unsigned index)
{
    return orr_dims_element_count(dims, strlen(dims), index);
}

static void shapes_count_elements(void **state)
{
    (void)state;
    assert_int_equal(elements("[[8, 1024, 8816]]", 0), INT64_C(72220672));
    assert_int_equal(elements("[[2883584], [3145728], [], [], [], []]", 1), 3145728);
    assert_int_equal(elements("[[], [7]]", 0), -1);
    assert_int_equal(elements("[[], [7]]", 1), 7);
    assert_int_equal(elements("[[7]]", 3), -1);
    assert_int_equal(elements("[[[2, 3], [4]], [5]]", 0), 10); /* a list of tensors */
    assert_int_equal(elements("[[0, 3]]", 0), 0);
    assert_int_equal(elements("", 0), -1);
    assert_int_equal(elements("]]]", 0), -1);
    assert_int_equal(elements("[[9223372036854775807, 2]]", 0), -1);
    assert_int_equal(elements("[[99999999999999999999]]", 0), -1);
}

static void types_first_that_says_something(void **state)
{
    (void)state;
    size_t len;
    const char *text = "[\"\", \"long int\", \"float\"]";
    const char *type = orr_types_first(text, strlen(text), &len);
    assert_int_equal(len, 8);
    assert_memory_equal(type, "long int", 8);
    assert_null(orr_types_first("[]", 2, &len));
    assert_null(orr_types_first("[\"", 2, &len));
    assert_null(orr_types_first("[\"\"]", 4, &len));
}

static orr_group parsed(const char *text, uint32_t **list)
{
    orr_group group = {.size = 16, .start = -1, .stride = 1};
    *list = NULL;
    assert_int_equal(orr_ranks_parse(text, strlen(text), list, &group, NULL), ORR_OK);
    return group;
}

static void ranks_by_stride_or_list(void **state)
{
    (void)state;
    uint32_t *list;
    orr_group g = parsed("[0, 2, 4]", &list);
    assert_int_equal(g.size, 3);
    assert_int_equal(g.start, 0);
    assert_int_equal(g.stride, 2);
    assert_null(g.ranks);
    orr_ranks_free(list);
    g = parsed("[5]", &list);
    assert_int_equal(g.size, 1);
    assert_int_equal(orr_group_rank(&g, 0), 5);
    orr_ranks_free(list);
    g = parsed("[3, 1, 6]", &list);
    assert_int_equal(orr_group_rank(&g, 1), 1);
    orr_ranks_free(list);
}

static void ranks_that_are_cut_say_nothing(void **state)
{
    (void)state;
    static const char *const cut[] = {"[0, 1, 2, ...]", "", "[]", "[99999999999]"};
    for (size_t i = 0; i < 4; i++) {
        uint32_t *list;
        const orr_group g = parsed(cut[i], &list);
        assert_int_equal(g.size, 16);
        assert_int_equal(g.start, -1);
        assert_null(list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_count_elements),
        cmocka_unit_test(types_first_that_says_something),
        cmocka_unit_test(ranks_by_stride_or_list),
        cmocka_unit_test(ranks_that_are_cut_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
