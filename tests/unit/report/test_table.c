/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <math.h>

#include "report/table/table.h"

typedef struct row {
    const char *name;
    bool ok;
    uint8_t u8;
    uint32_t u32;
    uint64_t u64;
    int32_t i32;
    int64_t i64, ns, bytes;
    double number, mean_ns, rate, frac;
} row;

static const orr_column columns[] = {
    {"name", ORR_COLUMN_TEXT, offsetof(row, name)},
    {"ok", ORR_COLUMN_BOOL, offsetof(row, ok)},
    {"small", ORR_COLUMN_U8, offsetof(row, u8)},
    {"rank", ORR_COLUMN_U32, offsetof(row, u32)},
    {"count", ORR_COLUMN_U64, offsetof(row, u64)},
    {"step", ORR_COLUMN_I32, offsetof(row, i32)},
    {"delta", ORR_COLUMN_I64, offsetof(row, i64)},
    {"idle_ns", ORR_COLUMN_NS, offsetof(row, ns)},
    {"peak_bytes", ORR_COLUMN_BYTES, offsetof(row, bytes)},
    {"score", ORR_COLUMN_NUMBER, offsetof(row, number)},
    {"mean_ns", ORR_COLUMN_NS_MEAN, offsetof(row, mean_ns)},
    {"busbw_bytes_per_s", ORR_COLUMN_BYTES_PER_S, offsetof(row, rate)},
    {"idle_frac", ORR_COLUMN_FRAC, offsetof(row, frac)},
};

static const row rows[] = {
    {"plain", true, 255, 3, UINT64_MAX, -1, INT64_MIN, 1234567, 1536, 0.1, 1.5, 12.5e9, 0.25},
    {"a \"quoted\", <b>|x_y*\n", false, 0, UINT32_MAX, 0, 7, 5, -1000, -1, NAN, 2e6, 0, 0},
    {NULL, false, 1, 0, 1, 0, 0, 0, 0, 1e300, 0, 1, 1},
};

static orr_table all(void)
{
    return (orr_table){"orrery.test/1", "Test", columns, sizeof columns / sizeof columns[0], rows,
                       sizeof rows[0],  3};
}

static char *write(const orr_table *table, orr_table_format format, int width, size_t max_rows)
{
    const orr_table_style style = {.format = format, .width = width, .max_rows = max_rows};
    return WRITTEN(out, orr_table_write(table, &style, out));
}

static void json_is_exact_and_says_what_is_unknown(void **state)
{
    const orr_table table = all();
    char *text = write(&table, ORR_TABLE_JSON, 0, 0);
    (void)state;
    assert_non_null(
        strstr(text, "{\"schema\":\"orrery.test/1\",\"title\":\"Test\",\"columns\":["
                     "{\"name\":\"name\",\"type\":\"text\"},{\"name\":\"ok\",\"type\":\"bool\"}"));
    assert_non_null(strstr(
        text,
        "{\"name\":\"plain\",\"ok\":true,\"small\":255,\"rank\":3,\"count\":18446744073709551615,"
        "\"step\":-1,\"delta\":-9223372036854775808,\"idle_ns\":1234567,\"peak_bytes\":1536,"
        "\"score\":0.1,\"mean_ns\":1.5,\"busbw_bytes_per_s\":12500000000,\"idle_frac\":0.25}"));
    assert_non_null(strstr(
        text,
        "{\"name\":\"a \\\"quoted\\\", <b>|x_y*\\n\",\"ok\":false,\"small\":0,\"rank\":null,"
        "\"count\":0,\"step\":7,\"delta\":5,\"idle_ns\":-1000,\"peak_bytes\":null,\"score\":null,"));
    assert_non_null(strstr(text, "{\"name\":null,"));
    assert_string_equal(text + strlen(text) - 4, "\n]}\n");
    free(text);
}

static void csv_quotes_what_has_to_be(void **state)
{
    const orr_table table = all();
    char *text = write(&table, ORR_TABLE_CSV, 0, 0);
    (void)state;
    assert_string_equal(
        text,
        "name,ok,small,rank,count,step,delta,idle_ns,peak_bytes,score,mean_ns,busbw_bytes_per_s,idle_frac\n"
        "plain,true,255,3,18446744073709551615,-1,-9223372036854775808,1234567,1536,0.1,1.5,12500000000,0.25\n"
        "\"a \"\"quoted\"\", <b>|x_y*\n\",false,0,,0,7,5,-1000,,,2000000,,0\n"
        ",false,1,0,1,0,0,0,0,1e+300,0,1,1\n");
    free(text);
}

static void markdown_takes_no_name_for_markup(void **state)
{
    orr_table table = all();
    table.n_columns = 2;
    table.n_rows = 2;
    char *text = write(&table, ORR_TABLE_MARKDOWN, 0, 0);
    (void)state;
    assert_string_equal(text, "| name | ok |\n| --- | --- |\n| plain | true |\n"
                              "| a \"quoted\", &lt;b>\\|x_y\\*  | false |\n");
    free(text);
}

static void text_is_aligned_and_readable(void **state)
{
    static const orr_column some[] = {
        {"name", ORR_COLUMN_TEXT, offsetof(row, name)},
        {"idle_ns", ORR_COLUMN_NS, offsetof(row, ns)},
        {"busbw_bytes_per_s", ORR_COLUMN_BYTES_PER_S, offsetof(row, rate)},
        {"idle_frac", ORR_COLUMN_FRAC, offsetof(row, frac)},
    };
    orr_table table = all();
    table.columns = some;
    table.n_columns = 4;
    char *text = write(&table, ORR_TABLE_TEXT, 0, 2);
    (void)state;
    assert_string_equal(text, "Test\n"
                              "name                        idle       busbw  idle share\n"
                              "plain                   1.235 ms  12.50 GB/s      25.0 %\n"
                              "a \"quoted\", <b>|x_y*?  -1.000 us                   0.0 %\n"
                              "... and 1 more\n");
    free(text);
}

static void text_fits_the_terminal(void **state)
{
    static const orr_column two[] = {{"left", ORR_COLUMN_TEXT, 0},
                                     {"right", ORR_COLUMN_TEXT, sizeof(char *)}};
    static const char *const wide[][2] = {
        {"an operator with a name that is wider than any terminal would be",
         "and a second one of that kind, no less"},
        {"short", "short"}};
    const orr_table table = {"orrery.test/1", NULL, two, 2, wide, sizeof wide[0], 2};
    (void)state;
    for (int width = 26; width < 120; width += 3) {
        char *text = write(&table, ORR_TABLE_TEXT, width, 0);
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
            size_t columns_used = 0;
            for (const char *c = line; *c; c++)
                columns_used += (*c & 0xC0) != 0x80;
            assert_true(columns_used <= (size_t)width);
        }
        free(text);
    }
}

static void an_empty_table_says_so(void **state)
{
    orr_table table = all();
    table.n_rows = 0;
    table.rows = NULL;
    char *text = write(&table, ORR_TABLE_TEXT, 80, 0);
    (void)state;
    assert_string_equal(text, "Test\n(nothing recorded)\n");
    free(text);
    text = write(&table, ORR_TABLE_JSON, 0, 0);
    assert_non_null(strstr(text, "\"rows\":[\n]}\n"));
    free(text);
}

static void colour_is_asked_for(void **state)
{
    const orr_table table = all();
    const orr_table_style colored = {.format = ORR_TABLE_TEXT, .color = true};
    char *text = WRITTEN(out, orr_table_write(&table, &colored, out));
    (void)state;
    assert_non_null(strstr(text, "\x1b[1mTest\x1b[0m\n"));
    free(text);
    text = write(&table, ORR_TABLE_TEXT, 0, 0);
    assert_null(strchr(text, '\x1b'));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_exact_and_says_what_is_unknown),
        cmocka_unit_test(csv_quotes_what_has_to_be),
        cmocka_unit_test(markdown_takes_no_name_for_markup),
        cmocka_unit_test(text_is_aligned_and_readable),
        cmocka_unit_test(text_fits_the_terminal),
        cmocka_unit_test(an_empty_table_says_so),
        cmocka_unit_test(colour_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
