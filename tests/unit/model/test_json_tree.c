/* SPDX-License-Identifier: Apache-2.0 */
#include "model_text.h"

static const orr_yaml *parse(const char *text)
{
    const orr_yaml *root = NULL;
    orr_error err = {0};
    if (orr_config_parse(text, strlen(text), "c.json", arena, &root, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return root;
}

static void values_know_where_they_stood(void **state)
{
    (void)state;
    const orr_yaml *root = parse("{\n  \"a\": 12,\n  \"b\": [true,\n    null, \"x\"],\n"
                                 "  \"c\" : {\"d\": -1.5e3}\n}\n");
    assert_int_equal(root->kind, ORR_YAML_MAP);
    assert_int_equal(root->n, 3);
    const orr_yaml *a = orr_yaml_find(root, "a"), *b = orr_yaml_find(root, "b");
    const orr_yaml *d = orr_yaml_find(orr_yaml_find(root, "c"), "d");
    assert_string_equal(a->text, "12");
    assert_false(a->quoted);
    assert_int_equal(a->line, 2);
    assert_int_equal(a->column, 8);
    assert_int_equal(b->kind, ORR_YAML_LIST);
    assert_int_equal(b->n, 3);
    assert_string_equal(b->values[0]->text, "true");
    assert_string_equal(b->values[1]->text, "");
    assert_int_equal(b->values[1]->line, 4);
    assert_int_equal(b->values[1]->column, 5);
    assert_true(b->values[2]->quoted);
    assert_string_equal(b->values[2]->text, "x");
    assert_int_equal(d->line, 5);
    assert_int_equal(d->column, 15);
    double number;
    assert_int_equal(orr_yaml_number(d, &number, NULL), ORR_OK);
    assert_true(number == -1500);
}

static void assert_not_json(const char *text, orr_status status, const char *message)
{
    const orr_yaml *root = NULL;
    orr_error err = {0};
    assert_int_equal(orr_config_parse(text, strlen(text), "c.json", arena, &root, &err), status);
    assert_string_equal(err.text, message);
    assert_null(root);
}

static void errors_have_a_place(void **state)
{
    (void)state;
    assert_not_json("{\"a\": 1,\n \"b\" 2}", ORR_PARSE,
                    "c.json:2:6: at byte 14: expected ':' after a key, found '2'");
    assert_not_json("{\"a\": 1} x", ORR_PARSE,
                    "c.json:1:10: at byte 9: garbage after the end of the JSON value");
    assert_not_json("{\"a\": 1, \"a\": 2}", ORR_INVALID, "c.json:1:15: 'a' is here twice");
}

static void too_much_is_refused(void **state)
{
    (void)state;
    const orr_yaml *root = NULL;
    orr_error err = {0};
    char deep[200];
    memset(deep, '[', sizeof deep);
    assert_int_equal(orr_config_parse(deep, sizeof deep, "c.json", arena, &root, &err), ORR_LIMIT);
    static char keys[20000];
    size_t n = (size_t)snprintf(keys, sizeof keys, "{\"x\": 0");
    for (int i = 0; i < 1100; i++)
        n += (size_t)snprintf(keys + n, sizeof keys - n, ", \"%d\": 0", i);
    assert_int_equal(orr_config_parse(keys, n, "c.json", arena, &root, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, "more than 1024 keys in one object"));
    static char values[500000];
    for (size_t i = 0; i < sizeof values; i++)
        values[i] = i == 0 ? '[' : i % 2 ? '0' : ',';
    assert_int_equal(orr_config_parse(values, sizeof values, "c.json", arena, &root, &err),
                     ORR_LIMIT);
    assert_non_null(strstr(err.text, "more than 200000 values"));
    assert_null(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_know_where_they_stood),
        cmocka_unit_test(errors_have_a_place),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
