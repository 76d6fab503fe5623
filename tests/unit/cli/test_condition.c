/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/traces/condition.h"

typedef struct row {
    const char *name;
    double idle_frac, mean_ns, bandwidth;
    int64_t span_ns, peak_bytes;
    uint64_t count;
    uint32_t rank;
    bool host_only;
} row;

#define C(name, type)                                                                              \
    {                                                                                              \
#name, ORR_COLUMN_##type, offsetof(row, name)                                              \
    }
static const orr_column COLUMNS[] = {
    C(name, TEXT),        C(idle_frac, FRAC), C(mean_ns, NS_MEAN), C(bandwidth, BYTES_PER_S),
    C(span_ns, NS),       C(count, U64),      C(rank, U32),        C(host_only, BOOL),
    C(peak_bytes, BYTES),
};
#undef C

static const row ROWS[] = {
    {"first", 0.10, 900.5, 2e9, 1500, 1 << 20, 12, 0, false},
    {"second", 0.45, 1200.0, 0, 6000000, -1, 7, 1, true},
};

static orr_table table_of(size_t n_rows)
{
    return (orr_table){"orrery.temporal_breakdown/1",
                       "Rows",
                       COLUMNS,
                       sizeof COLUMNS / sizeof *COLUMNS,
                       ROWS,
                       sizeof(row),
                       n_rows};
}

static bool holds(const char *text)
{
    orr_condition condition;
    orr_error err;
    const orr_table table = table_of(2);

    assert_int_equal(orr_condition_parse(text, &condition, &err), ORR_OK);
    assert_int_equal(orr_condition_check(&condition, "temporal_breakdown", &table, &err), ORR_OK);
    return condition.held;
}

static void no_condition_never_holds(void **state)
{
    orr_condition condition;
    orr_error err;
    const orr_table table = table_of(2);

    (void)state;
    assert_int_equal(orr_condition_parse(NULL, &condition, &err), ORR_OK);
    assert_false(orr_condition_applies_to(&condition, "temporal_breakdown"));
    assert_int_equal(orr_condition_check(&condition, "temporal_breakdown", &table, &err), ORR_OK);
    assert_false(condition.held);
}

static void the_table_is_named_or_the_breakdown(void **state)
{
    orr_condition condition;
    orr_error err;

    (void)state;
    assert_int_equal(orr_condition_parse("idle_frac>0.3", &condition, &err), ORR_OK);
    assert_true(orr_condition_applies_to(&condition, "temporal_breakdown"));
    assert_string_equal(condition.column, "idle_frac");
    assert_int_equal(orr_condition_parse("critical_path.total_ns <= 5", &condition, &err), ORR_OK);
    assert_true(orr_condition_applies_to(&condition, "critical_path"));
    assert_false(orr_condition_applies_to(&condition, "temporal_breakdown"));
    assert_string_equal(condition.column, "total_ns");
    assert_string_equal(condition.op, "<=");
}

static void all_operators_compare(void **state)
{
    (void)state;
    assert_true(holds("count<8"));
    assert_false(holds("count<7"));
    assert_true(holds("count<=7"));
    assert_true(holds("count>11"));
    assert_false(holds("count>12"));
    assert_true(holds("count>=12"));
    assert_true(holds("count==12"));
    assert_false(holds("count==8"));
    assert_true(holds("rank!=0"));
    assert_true(holds("idle_frac>0.3"));
    assert_false(holds("idle_frac>0.5"));
    assert_true(holds("  temporal_breakdown.idle_frac  >  0.3  "));
}

static void numbers_carry_units(void **state)
{
    (void)state;
    assert_true(holds("span_ns>5ms"));
    assert_false(holds("span_ns>7ms"));
    assert_true(holds("span_ns==1.5us"));
    assert_true(holds("span_ns==1500"));
    assert_true(holds("mean_ns>1us"));
    assert_true(holds("bandwidth>1GB/s"));
    assert_true(holds("idle_frac>30%"));
    assert_false(holds("idle_frac>50%"));
    assert_true(holds("peak_bytes==1MiB"));
    assert_false(holds("peak_bytes>1MiB"));
}

static void a_fraction_may_be_of_any_size(void **state)
{
    (void)state;
    assert_true(holds("idle_frac>-1"));
    assert_true(holds("idle_frac<1e3"));
    assert_true(holds("idle_frac>.3"));
}

static void what_is_not_known_never_holds(void **state)
{
    (void)state;
    assert_false(holds("peak_bytes<0")); /* -1: not known */
    assert_false(holds("bandwidth<1"));  /* 0: not known  */
    assert_false(holds("peak_bytes!=1048576"));
}

static void no_rows_hold_nothing(void **state)
{
    orr_condition condition;
    orr_error err;
    const orr_table table = table_of(0);

    (void)state;
    assert_int_equal(orr_condition_parse("count>=0", &condition, &err), ORR_OK);
    assert_int_equal(orr_condition_check(&condition, "temporal_breakdown", &table, &err), ORR_OK);
    assert_false(condition.held);
}

static void another_table_is_not_held_against_it(void **state)
{
    orr_condition condition;
    orr_error err;
    const orr_table table = table_of(2);

    (void)state;
    assert_int_equal(orr_condition_parse("no_such_column>0", &condition, &err), ORR_OK);
    assert_int_equal(orr_condition_check(&condition, "critical_path", &table, &err), ORR_OK);
    assert_false(condition.held);
}

static void the_finding_names_the_row(void **state)
{
    orr_condition condition;
    orr_error err;
    const orr_table table = table_of(2);

    (void)state;
    assert_int_equal(orr_condition_parse("idle_frac>0.3", &condition, &err), ORR_OK);
    assert_int_equal(orr_condition_check(&condition, "temporal_breakdown", &table, &err), ORR_OK);
    assert_true(condition.held);
    assert_non_null(strstr(condition.finding, "temporal_breakdown.idle_frac"));
    assert_non_null(strstr(condition.finding, "45"));
    assert_non_null(strstr(condition.finding, "row 2"));
}

static void what_is_no_condition_is_refused(void **state)
{
    static const char *const texts[] = {
        "",    ">",     "idle_frac", "idle_frac>",   ">0.3",
        "a=3", "a=>3",  "a>>3",      "a<>3",         "a!3",
        "a>",  "a>1>2", "a > ",      "no_table.a>1", "temporal_breakdown.>1",
    };
    orr_condition condition;
    orr_error err;
    char long_text[600];

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (orr_condition_parse(texts[i], &condition, &err) != ORR_INVALID)
            fail_msg("'%s' was accepted", texts[i]);
        assert_memory_equal(err.text, "--fail-if: ", 11);
    }
    memset(long_text, 'a', sizeof long_text);
    memcpy(long_text + sizeof long_text - 4, ">1", 3);
    assert_int_equal(orr_condition_parse(long_text, &condition, &err), ORR_INVALID);
}

/* The column says which units a number may have. */
static void what_is_no_number_of_the_column_is_refused(void **state)
{
    static const char *const texts[] = {
        "idle_frac>x",    "idle_frac>0.3x", "idle_frac>0.3 0.4", "idle_frac>5us",
        "span_ns>1us us", "span_ns>1GiB",   "peak_bytes>1ms",    "bandwidth>5us",
        "idle_frac>--1",  "idle_frac>nan",  "count>1us",
    };
    orr_condition condition;
    orr_error err;
    const orr_table table = table_of(2);

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        orr_status status = orr_condition_parse(texts[i], &condition, &err);
        if (status == ORR_OK)
            status = orr_condition_check(&condition, "temporal_breakdown", &table, &err);
        if (status == ORR_OK)
            fail_msg("'%s' was accepted", texts[i]);
        if (strncmp(err.text, "--fail-if: ", 11) != 0)
            fail_msg("'%s': %s", texts[i], err.text);
    }
}

static void a_column_that_is_text_or_missing_is_refused(void **state)
{
    orr_condition condition;
    orr_error err;
    const orr_table table = table_of(2);

    (void)state;
    assert_int_equal(orr_condition_parse("name>1", &condition, &err), ORR_OK);
    assert_int_equal(orr_condition_check(&condition, "temporal_breakdown", &table, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "--fail-if: temporal_breakdown.name is text");
    assert_int_equal(orr_condition_parse("idle>1", &condition, &err), ORR_OK);
    assert_int_equal(orr_condition_check(&condition, "temporal_breakdown", &table, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "--fail-if: temporal_breakdown has no column 'idle'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_condition_never_holds),
        cmocka_unit_test(the_table_is_named_or_the_breakdown),
        cmocka_unit_test(all_operators_compare),
        cmocka_unit_test(numbers_carry_units),
        cmocka_unit_test(a_fraction_may_be_of_any_size),
        cmocka_unit_test(what_is_not_known_never_holds),
        cmocka_unit_test(no_rows_hold_nothing),
        cmocka_unit_test(another_table_is_not_held_against_it),
        cmocka_unit_test(the_finding_names_the_row),
        cmocka_unit_test(what_is_no_condition_is_refused),
        cmocka_unit_test(what_is_no_number_of_the_column_is_refused),
        cmocka_unit_test(a_column_that_is_text_or_missing_is_refused),
    };
    return cmocka_run_group_tests_name("condition", tests, NULL, NULL);
}
