/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <dirent.h>
#include <unistd.h>

#include "base/alloc.h"
#include "report/page/html.h"

static char folder[] = "/tmp/orrery-html-XXXXXX";
static char page_path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(page_path, sizeof page_path, "%s/page.html", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(page_path);
    return rmdir(folder);
}

static char *read_page(void)
{
    FILE *f = fopen(page_path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    rewind(f);
    char *text = malloc((size_t)n + 1);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    text[n] = '\0';
    fclose(f);
    return text;
}

static int files_in_folder(void)
{
    DIR *dir = opendir(folder);
    int n = -2; /* . and .. */
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void text_is_never_markup(void **state)
{
    char *text = WRITTEN(out, orr_html_text(out, "<a href=\"x\" id='y'>&amp;</a>"));
    (void)state;
    assert_string_equal(text, "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
    free(text);
}

static void a_table_keeps_exact_values_beside_readable_ones(void **state)
{
    static const struct {
        const char *name;
        int64_t ns;
        double frac;
        const char *none;
    } rows[] = {{"void a::kernel<int>(int)", 1500, 0.5, NULL}, {"<b>", 2500, 0.25, ""}};
    static const orr_column columns[] = {{"name", ORR_COLUMN_TEXT, 0},
                                         {"sum_ns", ORR_COLUMN_NS, 8},
                                         {"frac", ORR_COLUMN_FRAC, 16},
                                         {"group", ORR_COLUMN_TEXT, 24}};
    const orr_table table = {"orrery.test/1", "A <title>", columns, 4, rows, sizeof rows[0], 2};
    const uint32_t order[] = {1, 0};
    const orr_html_table_options whole = {
        .id = "test", .about = "about & so on", .order = order, .max_rows = 10};
    orr_html_table_options first_row = {.analysis = "test", .max_rows = 1};
    char *text = WRITTEN(out, orr_html_table(out, &table, &whole));
    (void)state;
    assert_non_null(strstr(text, "<h3>A &lt;title&gt;</h3><p>about &amp; so on</p>"));
    const char *first =
        strstr(text, "<tr><td>&lt;b&gt;</td><td class=\"num\" data-v=\"2500\">2.500 us</td>");
    const char *second =
        strstr(text, "<tr><td title=\"void a::kernel&lt;int&gt;(int)\">kernel&lt;int&gt;</td>");
    assert_non_null(first);
    assert_non_null(second);
    assert_true(first < second);
    assert_null(strstr(text, "data-col=\"group\"")); /* it says nothing */
    free(text);
    text = WRITTEN(out, orr_html_table(out, &table, &first_row));
    assert_non_null(strstr(text, "The first 1 of 2 rows; all of them: <code>orrery analyze"));
    free(text);
    first_row.analysis = NULL;
    text = WRITTEN(out, orr_html_table(out, &table, &first_row));
    assert_non_null(strstr(text, "The first 1 of 2 rows</p>"));
    free(text);
}

static void a_page_is_whole_and_holds_no_foreign_markup(void **state)
{
    const orr_job *job = small_job();
    const orr_trace_html_options options = {.struct_bytes = sizeof options,
                                            .title = "A <run> & \"more\""};
    (void)state;
    assert_int_equal(orr_trace_html(page_path, job, NULL, &options, NULL), ORR_OK);
    char *page = read_page();
    assert_int_equal(strncmp(page, "<!doctype html>", 15), 0);
    assert_string_equal(page + strlen(page) - 8, "</html>\n");
    assert_non_null(strstr(page, "<title>A &lt;run&gt; &amp; &quot;more&quot;"));
    assert_null(strstr(page, "{{"));
    assert_null(strstr(page, "</script><b>"));
    assert_null(strstr(page, "src="));
    size_t opened = 0, closed = 0;
    for (const char *at = page; (at = strstr(at, "<script")); at++)
        opened++;
    for (const char *at = page; (at = strstr(at, "</script>")); at++)
        closed++;
    assert_int_equal(opened, 3);
    assert_int_equal(closed, 3);
    free(page);
    orr_job_free(job);
}

/* What stands in the timeline, and above the tables, may be more than the job. */
static void a_page_can_show_two_tellings(void **state)
{
    const orr_job *job = small_job(), *overlay;
    static const struct {
        int64_t ns;
    } rows[] = {{1500}};
    static const orr_column columns[] = {{"predicted_ns", ORR_COLUMN_NS, 0}};
    const orr_table table = {"orrery.test/1", "What will be", columns, 1, rows, sizeof rows[0], 1};
    (void)state;
    assert_int_equal(orr_job_overlay(job, "simulated", job, "recorded", &overlay, NULL), ORR_OK);
    const orr_trace_html_options options = {.struct_bytes = sizeof options,
                                            .title = "Two",
                                            .overlay = overlay,
                                            .tables = &table,
                                            .n_tables = 1,
                                            .tables_title = "Predicted & such"};
    assert_int_equal(orr_trace_html(page_path, job, NULL, &options, NULL), ORR_OK);
    char *page = read_page();
    assert_non_null(strstr(page, "<h2>Predicted &amp; such</h2>"));
    assert_non_null(strstr(page, "<a href=\"#extra\">Predicted &amp; such</a>"));
    assert_non_null(strstr(page, "<h3>What will be</h3>"));
    free(page);
    orr_job_free(overlay);
    orr_job_free(job);
}

/* Of a node that is not drawn there is nothing to lead to. */
static void cells_lead_to_the_events_of_nodes(void **state)
{
    enum { KERNEL = 3, COPY = 4, MEMORY = 6 };
    const orr_job *job = small_job();
    static const struct {
        const char *cause, *where;
    } rows[] = {{"<slow>", "rank 0"}, {"idle", "rank 1"}, {"slow", "here"}};
    static const orr_column columns[] = {{"cause", ORR_COLUMN_TEXT, 0},
                                         {"where", ORR_COLUMN_TEXT, 8}};
    const orr_table table = {"orrery.test/1", "Causes", columns, 2, rows, sizeof rows[0], 3};
    static const orr_cell_node nodes[] = {{0, 0, "cause", 0, KERNEL},
                                          {0, 0, "cause", 0, MEMORY},
                                          {0, 0, "cause", 0, COPY},
                                          {0, 1, "where", 0, MEMORY},
                                          {0, 2, "where", 0, COPY}};
    const orr_trace_html_options options = {.struct_bytes = sizeof options,
                                            .tables = &table,
                                            .n_tables = 1,
                                            .tables_title = "Causes",
                                            .cell_nodes = nodes,
                                            .n_cell_nodes = 5};
    (void)state;
    assert_int_equal(orr_trace_html(page_path, job, NULL, &options, NULL), ORR_OK);
    char *page = read_page();
    assert_non_null(strstr(page, "<td><a href=\"#timeline\" data-events=\"0,1\">&lt;slow&gt;</a>"
                                 "</td><td>rank 0</td>"));
    assert_non_null(strstr(page, "<td>idle</td><td>rank 1</td>"));
    assert_non_null(
        strstr(page, "<td><a href=\"#timeline\" data-events=\"1\" data-node=\"0-4\">here"));
    free(page);
    orr_job_free(job);
}

static void the_same_job_gives_the_same_page(void **state)
{
    const orr_job *job = small_job();
    (void)state;
    assert_int_equal(orr_trace_html(page_path, job, NULL, NULL, NULL), ORR_OK);
    char *once = read_page();
    assert_int_equal(orr_trace_html(page_path, job, NULL, NULL, NULL), ORR_OK);
    char *again = read_page();
    assert_string_equal(once, again);
    free(once);
    free(again);
    orr_job_free(job);
}

static void a_page_of_nothing_is_a_page(void **state)
{
    rig r = rig_new();
    const orr_job *job = rig_job(&r);
    (void)state;
    assert_int_equal(orr_trace_html(page_path, job, NULL, NULL, NULL), ORR_OK);
    char *page = read_page();
    assert_non_null(strstr(page, "0 of 1") ? "" : strstr(page, "1 of 1"));
    free(page);
    orr_job_free(job);
}

static void a_place_that_cannot_be_written_is_an_error(void **state)
{
    const orr_job *job = small_job();
    orr_error err = {0};
    (void)state;
    assert_int_equal(orr_trace_html("/nonexistent/folder/page.html", job, NULL, NULL, &err),
                     ORR_IO);
    assert_non_null(strstr(err.text, "/nonexistent/folder/page.html"));
    orr_job_free(job);
}

static void every_failed_allocation_is_survived_and_leaves_no_file(void **state)
{
    const orr_job *job = small_job();
    orr_status status = ORR_NO_MEMORY;
    (void)state;
    unlink(page_path);
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_alloc_fail_from(nth);
        status = orr_trace_html(page_path, job, NULL, NULL, NULL);
        orr_alloc_fail_from(0);
        if (status != ORR_OK) {
            assert_int_equal(status, ORR_NO_MEMORY);
            assert_int_equal(files_in_folder(), 0);
        }
        assert_true(nth < 100000);
    }
    assert_int_equal(files_in_folder(), 1);
    orr_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_never_markup),
        cmocka_unit_test(a_table_keeps_exact_values_beside_readable_ones),
        cmocka_unit_test(a_page_is_whole_and_holds_no_foreign_markup),
        cmocka_unit_test(a_page_can_show_two_tellings),
        cmocka_unit_test(cells_lead_to_the_events_of_nodes),
        cmocka_unit_test(the_same_job_gives_the_same_page),
        cmocka_unit_test(a_page_of_nothing_is_a_page),
        cmocka_unit_test(a_place_that_cannot_be_written_is_an_error),
        cmocka_unit_test(every_failed_allocation_is_survived_and_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
