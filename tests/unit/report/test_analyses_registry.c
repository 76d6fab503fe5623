/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "report/table/table.h"
#include "report/table/cell.h"

static void every_analysis_is_named_once_and_found(void **state)
{
    size_t n;
    const orr_analysis *all = orr_analyses(&n);
    (void)state;
    assert_true(n >= 26);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(orr_analysis_find(all[i].name), &all[i]);
        assert_true(strlen(all[i].about) > 10);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(all[i].name, all[k].name);
    }
    assert_null(orr_analysis_find("no_such_analysis"));
    assert_true(orr_analysis_find("collectives")->series);
    assert_false(orr_analysis_find("temporal_breakdown")->series);
}

static void check_table(const char *name, const orr_table *table)
{
    char schema[96];
    snprintf(schema, sizeof schema, "orrery.%s/1", name);
    assert_string_equal(table->schema, schema);
    assert_non_null(table->title);
    assert_true(table->n_columns > 0 && table->n_columns <= ORR_COLUMNS_MAX);
    for (size_t c = 0; c < table->n_columns; c++) {
        assert_true(table->columns[c].offset < table->row_bytes);
        for (size_t k = 0; k < c; k++)
            assert_string_not_equal(table->columns[c].name, table->columns[k].name);
    }
    for (orr_table_format format = ORR_TABLE_TEXT; format <= ORR_TABLE_MARKDOWN; format++) {
        const orr_table_style style = {.format = format, .width = 100};
        char *text = WRITTEN(out, orr_table_write(table, &style, out));
        assert_true(strlen(text) > 0);
        free(text);
    }
}

static void every_analysis_runs_and_can_be_written(void **state)
{
    const orr_job *job = small_job();
    orr_arena *arena = orr_arena_new(0, 0);
    size_t n;
    const orr_analysis *all = orr_analyses(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        orr_table table;
        orr_error err = {0};
        if (all[i].run(job, NULL, arena, &table, &err) != ORR_OK)
            fail_msg("%s: %s", all[i].name, err.text);
        check_table(all[i].name, &table);
    }
    orr_arena_free(arena);
    orr_job_free(job);
}

static void the_breakdown_says_what_the_job_did(void **state)
{
    const orr_job *job = small_job();
    orr_arena *arena = orr_arena_new(0, 0);
    orr_table table;
    (void)state;
    assert_int_equal(orr_analysis_find("temporal_breakdown")->run(job, NULL, arena, &table, NULL),
                     ORR_OK);
    char *text =
        WRITTEN(out, orr_table_write(&table, &(orr_table_style){.format = ORR_TABLE_CSV}, out));
    /* Kernel 100-400, collective 300-600 of one rank, so without a bubble, copy 500-550 us. */
    assert_non_null(strstr(text, "\n0,500000,0,300000,200000,200000,0,0,0,0.6,0.4,false\n"));
    free(text);
    orr_arena_free(arena);
    orr_job_free(job);
}

static void a_diff_of_a_job_with_itself_changes_nothing(void **state)
{
    const orr_job *job = small_job();
    orr_arena *arena = orr_arena_new(0, 0);
    orr_table table;
    (void)state;
    assert_int_equal(orr_diff_table(job, job, NULL, false, arena, &table, NULL), ORR_OK);
    check_table("diff", &table);
    assert_true(table.n_rows > 0);
    const orr_diff_row *rows = table.rows;
    for (size_t i = 0; i < table.n_rows; i++) {
        assert_int_equal(rows[i].delta_ns, 0);
        assert_string_equal(rows[i].change, "unchanged");
    }
    orr_arena_free(arena);
    orr_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_analysis_is_named_once_and_found),
        cmocka_unit_test(every_analysis_runs_and_can_be_written),
        cmocka_unit_test(the_breakdown_says_what_the_job_did),
        cmocka_unit_test(a_diff_of_a_job_with_itself_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
