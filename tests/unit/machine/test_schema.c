/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_text.h"

typedef struct thing {
    orr_fact size, peaks[ORR_DTYPES];
    const char *kind;
    const char *const *names;
    uint32_t n_names;
} thing;

static const orr_field FIELDS[] = {
    {.key = "size",
     .kind = ORR_FIELD_FACT,
     .quantity = ORR_QUANTITY_BYTES,
     .offset = offsetof(thing, size),
     .required = true},
    {.key = "peak",
     .kind = ORR_FIELD_DTYPES,
     .quantity = ORR_QUANTITY_FLOPS,
     .offset = offsetof(thing, peaks)},
    {.key = "kind", .kind = ORR_FIELD_TEXT, .offset = offsetof(thing, kind)},
    {.key = "names",
     .kind = ORR_FIELD_TEXTS,
     .offset = offsetof(thing, names),
     .count = offsetof(thing, n_names)},
    {.key = "mine", .kind = ORR_FIELD_OTHER},
};

static orr_status read_thing(const char *text, thing *ret, orr_error *err)
{
    orr_scope scope = {.basis = ORR_FACT_DERIVED, .source = "outer", .arena = arena};
    return orr_schema_read(yaml(text), "a thing", FIELDS, sizeof FIELDS / sizeof *FIELDS, &scope,
                           ret, err);
}

static void values_go_where_the_table_says(void **state)
{
    (void)state;
    thing t = {0};
    assert_int_equal(read_thing("size: 1kB\nsource: inner one\nkind: round\nmine: [anything]\n"
                                "peak: {fp32: 1TFLOPS, int8: {value: 2TOPS, basis: assumed}}\n"
                                "names: [a, b]\n",
                                &t, NULL),
                     ORR_OK);
    assert_fact(&t.size, 1000, ORR_FACT_DERIVED, "inner one");
    assert_fact(&t.peaks[ORR_DTYPE_FP32], 1e12, ORR_FACT_DERIVED, "inner one");
    assert_fact(&t.peaks[ORR_DTYPE_INT8], 2e12, ORR_FACT_ASSUMED, "inner one");
    assert_string_equal(t.kind, "round");
    assert_int_equal(t.n_names, 2);
    assert_string_equal(t.names[1], "b");
}

static void what_is_not_said_is_unknown(void **state)
{
    (void)state;
    thing t = {0};
    assert_int_equal(read_thing("size: unknown", &t, NULL), ORR_OK);
    assert_true(isnan(t.size.value));
    assert_true(isnan(t.peaks[ORR_DTYPE_FP8].value));
    assert_string_equal(t.peaks[ORR_DTYPE_FP8].source, "");
    assert_string_equal(t.kind, "");
    assert_int_equal(t.n_names, 0);
}

static void what_breaks_the_table_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sise: 1kB\n", "t.yaml:1:1: a thing has no 'sise'; did you mean 'size'?"},
        {"size: 1kB\nqqqq: 1\n", "t.yaml:2:1: a thing has no 'qqqq'"},
        {"size: 1kB\nsorce: x\n", "t.yaml:2:1: a thing has no 'sorce'; did you mean 'source'?"},
        {"kind: x\n", "t.yaml:1:1: a thing does not say its size: 'unknown' is an answer too"},
        {"[size]\n", "t.yaml:1:1: a thing is a map of what is known about it"},
        {"size: 1kB\npeak: 3TFLOPS\n",
         "t.yaml:2:7: peak: a map by dtype is needed here: {fp32: 67TFLOPS, ...}"},
        {"size: 1kB\npeak: {bf61: 3TFLOPS}\n",
         "t.yaml:2:8: 'bf61' is no dtype; did you mean 'bf16'?"},
        {"size: 1kB\nnames: a\n", "t.yaml:2:8: names: a list is needed here: [\"...\", ...]"},
        {"size: 1kB\nnames: [a, [b]]\n", "t.yaml:2:12: names: a value is needed here, not a list"},
        {"size: 1kB\nkind: {a: b}\n", "t.yaml:2:7: kind: a value is needed here, not a map"},
        {"size: 1kB\nbasis: guessed\n", "t.yaml:2:8: 'guessed' is no basis"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        thing t = {0};
        orr_error err = {0};
        assert_int_equal(read_thing(cases[i][0], &t, &err), ORR_INVALID);
        assert_string_equal(err.text, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_where_the_table_says),
        cmocka_unit_test(what_is_not_said_is_unknown),
        cmocka_unit_test(what_breaks_the_table_is_refused),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
