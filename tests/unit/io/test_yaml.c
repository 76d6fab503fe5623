/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "files.h"
#include "io/yaml/yaml.h"

static orr_arena *arena;

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena != NULL ? 0 : -1;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static const orr_yaml *parsed(const char *text)
{
    const orr_yaml *root = NULL;
    orr_error err = {0};
    if (orr_yaml_parse(text, strlen(text), "t.yaml", arena, &root, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return root;
}

static void assert_refused(const char *text, size_t len, orr_status want, const char *message)
{
    const orr_yaml *root = NULL;
    orr_error err = {0};
    assert_int_equal(orr_yaml_parse(text, len, "t.yaml", arena, &root, &err), want);
    assert_null(root);
    assert_string_equal(err.text, message);
}

#define REFUSED(text, status, message) assert_refused(text, sizeof(text) - 1, (status), (message))

static void a_tree_remembers_where_it_stood(void **state)
{
    (void)state;
    const orr_yaml *root = parsed("# a remark\n"
                                  "name: two words\n"
                                  "list: [1, \"2\", {deep: 3}]\n"
                                  "map:\n"
                                  "  empty:\n"
                                  "  text: 'it''s'\n");
    assert_int_equal(root->kind, ORR_YAML_MAP);
    assert_int_equal(root->n, 3);
    assert_string_equal(root->keys[1]->text, "list");
    assert_int_equal(root->keys[1]->line, 3);
    const orr_yaml *name = orr_yaml_find(root, "name");
    assert_string_equal(name->text, "two words");
    assert_false(name->quoted);
    assert_int_equal(name->line, 2);
    assert_int_equal(name->column, 7);
    const orr_yaml *list = orr_yaml_find(root, "list");
    assert_int_equal(list->kind, ORR_YAML_LIST);
    assert_int_equal(list->n, 3);
    assert_null(list->keys);
    assert_true(list->values[1]->quoted);
    assert_int_equal(list->values[1]->column, 11);
    assert_string_equal(orr_yaml_find(list->values[2], "deep")->text, "3");
    const orr_yaml *map = orr_yaml_find(root, "map");
    assert_string_equal(orr_yaml_find(map, "empty")->text, "");
    assert_string_equal(orr_yaml_find(map, "text")->text, "it's");
    assert_null(orr_yaml_find(map, "none"));
    assert_null(orr_yaml_find(list, "none"));
    assert_string_equal(root->file, "t.yaml");
}

static void only_one_plain_document(void **state)
{
    (void)state;
    REFUSED("", ORR_PARSE, "t.yaml:1:1: is empty");
    REFUSED("# nothing\n", ORR_PARSE, "t.yaml:1:1: is empty");
    REFUSED("a: 1\n---\nb: 2\n", ORR_PARSE, "t.yaml:2:1: a second document: one a file");
    REFUSED("a: &x 1\nb: *x\n", ORR_PARSE,
            "t.yaml:2:4: aliases (*name) are not allowed: write the value out");
    REFUSED("a: !!str 1\n", ORR_PARSE, "t.yaml:1:4: tags have no meaning here: leave it out");
    REFUSED("a: !mine [1]\n", ORR_PARSE, "t.yaml:1:4: tags have no meaning here: leave it out");
    REFUSED("? [1, 2]\n: 3\n", ORR_PARSE, "t.yaml:1:3: a key has to be a text");
    REFUSED("a: \"x\\0y\"\n", ORR_PARSE, "t.yaml:1:4: a NUL character in a text");
}

static void what_is_no_yaml_is_pointed_at(void **state)
{
    (void)state;
    REFUSED("a: 1\n b: 2\n", ORR_PARSE,
            "t.yaml:2:3: mapping values are not allowed in this context");
    REFUSED("a: [1, 2\nb: 3\n", ORR_PARSE,
            "t.yaml:2:2: did not find expected ',' or ']', while parsing a flow sequence");
    REFUSED("a: 1\nb: \"x\xff\"\n", ORR_PARSE, "t.yaml:2:6: invalid leading UTF-8 octet");
}

static void a_key_is_said_once(void **state)
{
    (void)state;
    REFUSED("a: 1\nb: 2\na: 3\n", ORR_PARSE, "t.yaml:3:1: 'a' was said in line 1 already");
    /* large maps are checked another way */
    REFUSED("{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1,\nc: 2}", ORR_PARSE,
            "t.yaml:2:1: 'c' was said in line 1 already");
    const orr_yaml *root = parsed("{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 9}");
    assert_int_equal(root->n, 9);
    assert_string_equal(root->values[8]->text, "9");
}

static void depth_size_and_count_are_bounded(void **state)
{
    (void)state;
    char deep[200];
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    assert_refused(deep, 130, ORR_LIMIT, "t.yaml:1:65: nested more than 64 deep");
    deep[0] = ' ';
    deep[129] = ' ';
    const orr_yaml *root = NULL;
    assert_int_equal(orr_yaml_parse(deep, 130, "t.yaml", arena, &root, NULL), ORR_OK);

    const size_t len = (16 << 20) + 1;
    char *large = calloc(len, 1);
    memset(large, ' ', len);
    assert_refused(large, len, ORR_LIMIT, "t.yaml: longer than 16 MiB");
    large[0] = '[';
    for (size_t i = 0; i < 1000000; i++)
        memcpy(large + 1 + 2 * i, "a,", 2);
    large[1 + 2 * 1000000] = ']';
    orr_error err = {0};
    assert_int_equal(orr_yaml_parse(large, 2 + 2 * 1000000, "t.yaml", arena, &root, &err),
                     ORR_LIMIT);
    assert_non_null(strstr(err.text, "more than 1,000,000 values"));
    free(large);
}

static void whole_numbers_are_read(void **state)
{
    (void)state;
    const orr_yaml *list = parsed("[12, -3, 1.5, many, '7', [], 9223372036854775808]");
    int64_t value = 0;
    orr_error err = {0};
    assert_int_equal(orr_yaml_int(list->values[0], &value, &err), ORR_OK);
    assert_true(value == 12);
    assert_int_equal(orr_yaml_int(list->values[1], &value, &err), ORR_OK);
    assert_true(value == -3);
    assert_int_equal(orr_yaml_int(list->values[2], &value, &err), ORR_INVALID);
    assert_string_equal(err.text, "t.yaml:1:10: '1.5' is not a whole number");
    assert_int_equal(orr_yaml_int(list->values[3], &value, &err), ORR_INVALID);
    assert_int_equal(orr_yaml_int(list->values[4], &value, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "t.yaml:1:21: a whole number is needed here: write it without quotes");
    assert_int_equal(orr_yaml_int(list->values[5], &value, &err), ORR_INVALID);
    assert_string_equal(err.text, "t.yaml:1:26: a whole number is needed here, not a list");
    assert_int_equal(orr_yaml_int(list->values[6], &value, &err), ORR_INVALID);
    assert_true(value == -3);
}

static void numbers_and_truths_are_read(void **state)
{
    (void)state;
    const orr_yaml *list = parsed("[50.0, 1e-3, 7, .inf, true, false, yes, {a: 1}]");
    double number = 0;
    bool truth = false;
    orr_error err = {0};
    assert_int_equal(orr_yaml_number(list->values[0], &number, &err), ORR_OK);
    assert_true(number == 50);
    assert_int_equal(orr_yaml_number(list->values[1], &number, &err), ORR_OK);
    assert_true(number == 1e-3);
    assert_int_equal(orr_yaml_number(list->values[2], &number, &err), ORR_OK);
    assert_true(number == 7);
    assert_int_equal(orr_yaml_number(list->values[3], &number, &err), ORR_INVALID);
    assert_int_equal(orr_yaml_number(list->values[7], &number, &err), ORR_INVALID);
    assert_string_equal(err.text, "t.yaml:1:41: a number is needed here, not a map");
    assert_int_equal(orr_yaml_bool(list->values[4], &truth, &err), ORR_OK);
    assert_true(truth);
    assert_int_equal(orr_yaml_bool(list->values[5], &truth, &err), ORR_OK);
    assert_false(truth);
    assert_int_equal(orr_yaml_bool(list->values[6], &truth, &err), ORR_INVALID);
    assert_string_equal(err.text, "t.yaml:1:36: 'yes' is neither true nor false");
}

static void files_are_read_packed_or_not(void **state)
{
    const char *path = in_folder(state, "a.yaml");
    const orr_yaml *root = NULL;
    orr_error err = {0};
    write_file(path, "a:\n  - b\n", 9);
    assert_int_equal(orr_yaml_load(path, arena, &root, &err), ORR_OK);
    assert_string_equal(orr_yaml_find(root, "a")->values[0]->text, "b");
    assert_string_equal(root->file, path);
    path = in_folder(state, "none.yaml");
    assert_int_equal(orr_yaml_load(path, arena, &root, &err), ORR_IO);
    assert_memory_equal(err.text, path, strlen(path));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char text[] = "{a: [1, 2], b: {c: 3}, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1, j: 1}";
    orr_status status = ORR_NO_MEMORY;
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        const orr_yaml *root = NULL;
        orr_alloc_fail_from(nth);
        orr_arena *small = orr_arena_new(64, 0);
        status = small == NULL ? ORR_NO_MEMORY
                               : orr_yaml_parse(text, sizeof text - 1, "t", small, &root, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK ? root != NULL : status == ORR_NO_MEMORY && root == NULL);
        orr_arena_free(small);
        assert_true(nth < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_remembers_where_it_stood),
        cmocka_unit_test(only_one_plain_document),
        cmocka_unit_test(what_is_no_yaml_is_pointed_at),
        cmocka_unit_test(a_key_is_said_once),
        cmocka_unit_test(depth_size_and_count_are_bounded),
        cmocka_unit_test(whole_numbers_are_read),
        cmocka_unit_test(numbers_and_truths_are_read),
        cmocka_unit_test_setup_teardown(files_are_read_packed_or_not, make_folder, remove_folder),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
