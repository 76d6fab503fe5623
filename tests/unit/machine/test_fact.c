/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_text.h"

static orr_status read_fact(const char *text, orr_scope scope, orr_fact *ret, orr_error *err)
{
    const orr_yaml *root = yaml(text);
    scope.arena = arena;
    scope.abbreviations = orr_yaml_find(root, "sources");
    return orr_fact_read(orr_yaml_find(root, "f"), "f", ORR_QUANTITY_BYTES, &scope, ret, err);
}

static const orr_scope SAID = {.basis = ORR_FACT_PUBLISHED, .source = "the vendor"};

static void a_scalar_has_what_its_entry_says(void **state)
{
    (void)state;
    orr_fact fact;
    assert_int_equal(read_fact("f: 80GiB", SAID, &fact, NULL), ORR_OK);
    assert_fact(&fact, 85899345920.0, ORR_FACT_PUBLISHED, "the vendor");
    assert_string_equal(fact.note, "");
    assert_null(fact.conflict);
}

static void a_map_says_it_itself(void **state)
{
    (void)state;
    orr_fact fact;
    assert_int_equal(read_fact("f: {value: 1kB, basis: measured, source: a page, note: at night}",
                               SAID, &fact, NULL),
                     ORR_OK);
    assert_fact(&fact, 1000, ORR_FACT_MEASURED, "a page");
    assert_string_equal(fact.note, "at night");
}

static void conflicts_stand_beside_it(void **state)
{
    (void)state;
    orr_fact fact;
    assert_int_equal(read_fact("f: {value: 1kB, basis: measured, source: a page, conflicts:\n"
                               "  [{value: 2kB}, {value: 3kB, source: b page, note: odd}]}",
                               SAID, &fact, NULL),
                     ORR_OK);
    assert_fact(fact.conflict, 2000, ORR_FACT_PUBLISHED, "the vendor");
    assert_fact(fact.conflict->conflict, 3000, ORR_FACT_PUBLISHED, "b page");
    assert_string_equal(fact.conflict->conflict->note, "odd");
    assert_null(fact.conflict->conflict->conflict);
}

static void sources_have_abbreviations(void **state)
{
    (void)state;
    orr_fact fact;
    orr_error err = {0};
    assert_int_equal(read_fact("sources: {a: Paper A, bc: Paper B}\nf: {value: 1, source: [a, bc]}",
                               SAID, &fact, NULL),
                     ORR_OK);
    assert_string_equal(fact.source, "Paper A; Paper B");
    assert_int_equal(
        read_fact("sources: {a: Paper A}\nf: {value: 1, source: p. 3 of it}", SAID, &fact, NULL),
        ORR_OK);
    assert_string_equal(fact.source, "p. 3 of it");
    assert_int_equal(
        read_fact("sources: {paper: Paper A}\nf: {value: 1, source: papre}", SAID, &fact, &err),
        ORR_INVALID);
    assert_string_equal(err.text,
                        "t.yaml:2:23: 'papre' is no source of this file; did you mean 'paper'?");
    assert_int_equal(read_fact("f: {value: 1, source: []}", SAID, &fact, &err), ORR_INVALID);
    assert_string_equal(err.text, "t.yaml:1:23: source: an empty list");
}

static void unknown_is_said_so(void **state)
{
    (void)state;
    orr_fact fact;
    assert_int_equal(read_fact("f: unknown", SAID, &fact, NULL), ORR_OK);
    assert_true(isnan(fact.value));
    assert_int_equal(fact.basis, ORR_FACT_UNKNOWN);
    assert_string_equal(fact.source, "");
    assert_int_equal(
        read_fact("f: {value: unknown, source: they, note: they differ}", SAID, &fact, NULL),
        ORR_OK);
    assert_string_equal(fact.source, "they");
    assert_string_equal(fact.note, "they differ");
}

static void a_number_without_a_source_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        orr_scope scope;
        const char *message;
    } cases[] = {
        {"f: 1",
         {.source = "x"},
         "t.yaml:1:4: f: on what basis? say published, measured, derived or assumed here or for "
         "the whole entry"},
        {"f: 1",
         {.basis = ORR_FACT_DERIVED},
         "t.yaml:1:4: f: from where? say its source here or for the whole entry"},
        {"f: {basis: published}", {.source = "x"}, "t.yaml:1:4: f: the value is missing"},
        {"f: {value: 1, basis: publishd}",
         {.source = "x"},
         "t.yaml:1:22: 'publishd' is no basis; did you mean 'published'?"},
        {"f: {value: 1, basis: unknown}", {.source = "x"}, "t.yaml:1:22: 'unknown' is no basis"},
        {"f: {value: 1, surce: a}",
         {.source = "x"},
         "t.yaml:1:15: 'surce' is no part of a fact; did you mean 'source'?"},
        {"f: {value: 1, basis: derived, conflicts: 3}",
         {.source = "x"},
         "t.yaml:1:42: f: conflicts is a list of {value, basis, source}"},
        {"f: {value: 1, basis: derived, conflicts: [3]}",
         {.source = "x"},
         "t.yaml:1:43: f: a conflict is {value, basis, source}"},
        {"f: {value: 1, basis: derived, conflicts: [{value: 1, conflicts: []}]}",
         {.source = "x"},
         "t.yaml:1:54: 'conflicts' is no part of a fact"},
        {"f: [1]", {.source = "x"}, "t.yaml:1:4: f: a value is needed here, not a list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_fact fact;
        orr_error err = {0};
        assert_int_equal(read_fact(cases[i].text, cases[i].scope, &fact, &err), ORR_INVALID);
        assert_string_equal(err.text, cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scalar_has_what_its_entry_says),
        cmocka_unit_test(a_map_says_it_itself),
        cmocka_unit_test(conflicts_stand_beside_it),
        cmocka_unit_test(sources_have_abbreviations),
        cmocka_unit_test(unknown_is_said_so),
        cmocka_unit_test(a_number_without_a_source_is_none),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
