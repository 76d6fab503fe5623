/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of a few small pieces of work fails in turn, with all that follow it: the
 * work ends with NO_MEMORY or is done all the same, nothing leaks and nothing half-written stays.
 * ORRERY_SLOW=1 fails every one; otherwise long work is sampled after its first thousand. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cli/option.h"
#include "io/output.h"
#include "leaks.h"
#include "report/table.h"

enum { PATH_ROOM = 4096, ALL_OF_THE_FIRST = 1000, SAMPLES = 500 };

static char folder[] = "/tmp/orrery-no-memory-XXXXXX";
static char kineto[PATH_ROOM], pair[PATH_ROOM], two_ranks[PATH_ROOM];

/* Some work; where it can fail it returns its status. */
typedef orr_status (*work)(orr_error *err);

static const char *inside(const char *name)
{
    static char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool slow(void)
{
    const char *said = getenv("ORRERY_SLOW");
    return said && *said && strcmp(said, "0") != 0;
}

/* Take everything out of the folder; how many files that were. */
static unsigned empty_folder(void)
{
    DIR     *dir = opendir(folder);
    unsigned n = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            assert_int_equal(unlink(inside(entry->d_name)), 0);
            n++;
        }
    closedir(dir);
    return n;
}

static void fail_each_allocation(work body)
{
    orr_error err;
    uint64_t  survived = 0, tried = 0;

    assert_int_equal(body(&err), ORR_OK); /* what is allocated once and kept */
    orr_alloc_fail_from(0);
    assert_int_equal(body(&err), ORR_OK);
    const uint64_t n = orr_alloc_count();
    const unsigned n_files = empty_folder();
    const size_t   before = allocated_bytes();
    const uint64_t step = !slow() && n > ALL_OF_THE_FIRST + SAMPLES ? (n - ALL_OF_THE_FIRST) / SAMPLES : 1;

    for (uint64_t nth = 1; nth <= n; nth += nth < ALL_OF_THE_FIRST ? 1 : step, tried++) {
        err = (orr_error){.text = ""};
        orr_alloc_fail_from(nth);
        const orr_status status = body(&err);
        orr_alloc_fail_from(0);
        const unsigned left = empty_folder();
        survived += status == ORR_OK;
        if (status != ORR_OK && status != ORR_NO_MEMORY)
            fail_msg("allocation %llu of %llu: %s: %s", (unsigned long long)nth, (unsigned long long)n,
                     orr_status_name(status), err.text);
        if (status == ORR_OK ? left != n_files : left > n_files - (n_files > 0))
            fail_msg("allocation %llu of %llu: %s and %u files", (unsigned long long)nth, (unsigned long long)n,
                     orr_status_name(status), left);
        if (allocated_bytes() != before)
            fail_msg("allocation %llu of %llu: %zd bytes leaked", (unsigned long long)nth, (unsigned long long)n,
                     (ssize_t)(allocated_bytes() - before));
    }
    assert_true(nothing_leaked());
    print_message("# %llu of %llu allocations failed, %llu times the work was done all the same\n",
                  (unsigned long long)tried, (unsigned long long)n, (unsigned long long)survived);
}

static orr_status kineto_to_et(orr_error *err)
{
    const orr_graph *graph = NULL;
    orr_status       status;

    ORR_TRY_OUT(status, orr_trace_read(kineto, NULL, &graph, NULL, err));
    ORR_TRY_OUT(status, orr_trace_write(inside("rank0.et"), ORR_FORMAT_CHAKRA, graph, err));
out:
    orr_graph_free(graph);
    return status;
}

static orr_status read_job(const char *path, orr_arena *arena, const orr_job **ret, orr_error *err)
{
    orr_read_options    options;
    const orr_job_file *files;
    size_t              n_files;

    orr_read_options_init(&options);
    options.threads = 1;
    return orr_job_read(&path, 1, &options, arena, ret, &files, &n_files, err);
}

static orr_status linked_pair_to(const char *name, orr_format format, orr_error *err)
{
    orr_arena     *arena = orr_arena_new(0, 0);
    const orr_job *job = NULL;
    orr_status     status = arena ? ORR_OK : orr_fail_memory(err);

    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, read_job(pair, arena, &job, err));
    ORR_TRY_OUT(status, orr_trace_write(inside(name), format, job->graphs[0], err));
out:
    orr_job_free(job);
    orr_arena_free(arena);
    return status;
}

static orr_status linked_pair_to_et(orr_error *err)
{
    return linked_pair_to("rank0.et", ORR_FORMAT_CHAKRA, err);
}

static orr_status linked_pair_to_compressed_et(orr_error *err)
{
    ORR_TRY(linked_pair_to("rank0.et.gz", ORR_FORMAT_CHAKRA, err));
    return linked_pair_to("rank0.et.zst", ORR_FORMAT_CHAKRA, err);
}

static orr_status linked_pair_to_perfetto_and_chrome(orr_error *err)
{
    ORR_TRY(linked_pair_to("rank0.pftrace", ORR_FORMAT_PERFETTO, err));
    return linked_pair_to("rank0.json", ORR_FORMAT_CHROME, err);
}

static orr_status write_tables(const orr_job *job, orr_arena *arena, orr_output *out, orr_error *err)
{
    size_t              n;
    const orr_analysis *analyses = orr_analyses(&n);

    for (size_t i = 0; i < n; i++) {
        const orr_arena_mark mark = orr_arena_get_mark(arena);
        orr_table            table;
        ORR_TRY(analyses[i].run(job, NULL, arena, &table, err));
        for (int format = ORR_TABLE_TEXT; format <= ORR_TABLE_MARKDOWN; format++)
            orr_table_write(&table, &(orr_table_style){.format = (orr_table_format)format, .width = 100}, out);
        orr_arena_rewind(arena, mark);
    }
    return orr_output_finish(out, err);
}

static orr_status all_analyses_and_the_page(orr_error *err)
{
    orr_arena     *arena = orr_arena_new(0, 0);
    const orr_job *job = NULL;
    orr_output    *out = NULL;
    orr_status     status = arena ? ORR_OK : orr_fail_memory(err);

    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, read_job(two_ranks, arena, &job, err));
    ORR_TRY_OUT(status, orr_output_open(inside("tables.txt"), &out, err));
    ORR_TRY_OUT(status, write_tables(job, arena, out, err));
    ORR_TRY_OUT(status, orr_report_html(inside("report.html"), job, NULL, NULL, err));
out:
    orr_output_close(out);
    orr_job_free(job);
    orr_arena_free(arena);
    return status;
}

/* A whole command, its standard error caught: status 3 comes with one line that says why. */
static orr_status command(const char *name, const char *const *argv, int argc, orr_error *err)
{
    static char        said[4096];
    const orr_command *row = orr_command_find(name);
    orr_settings       settings;
    FILE              *catch = tmpfile();
    const int          old = dup(STDERR_FILENO);
    char              *words[8];

    assert_non_null(catch);
    memcpy(words, argv, (size_t)argc * sizeof *argv);
    assert_int_equal(orr_options_parse(argc, words, row, &settings, err), ORR_OK);
    dup2(fileno(catch), STDERR_FILENO);
    const int code = row->run(&settings);
    dup2(old, STDERR_FILENO);
    close(old);
    const ssize_t n = pread(fileno(catch), said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    fclose(catch);
    if (code == EXIT_DONE)
        return ORR_OK;
    const char *end = strchr(said, '\n');
    if (code != EXIT_INPUT || strncmp(said, "orrery: ", 8) != 0 || !end || end[1])
        return orr_fail(err, ORR_INVALID, "%s: exit %d: '%s'", name, code, said);
    return strstr(said, "out of memory") ? ORR_NO_MEMORY : orr_fail(err, ORR_IO, "%s: '%s'", name, said);
}

#define COMMAND(name, ...)                                                          \
    const char *const words[] = {"-q", "-j1", __VA_ARGS__};                         \
    return command(name, words, sizeof words / sizeof *words, err)

static orr_status command_analyze(orr_error *err)
{
    COMMAND("analyze", "-o", inside("out.txt"), two_ranks);
}
static orr_status command_convert(orr_error *err)
{
    COMMAND("convert", "-o", inside("out.et"), pair);
}
static orr_status command_diff(orr_error *err)
{
    COMMAND("diff", "-o", inside("out.txt"), two_ranks, two_ranks);
}
static orr_status command_info(orr_error *err)
{
    COMMAND("info", "-o", inside("out.txt"), pair);
}

#define TEST_OF(name)                     \
    static void test_##name(void **state) \
    {                                     \
        (void)state;                      \
        fail_each_allocation(name);       \
    }
TEST_OF(kineto_to_et)
TEST_OF(linked_pair_to_et)
TEST_OF(linked_pair_to_compressed_et)
TEST_OF(linked_pair_to_perfetto_and_chrome)
TEST_OF(all_analyses_and_the_page)
TEST_OF(command_analyze)
TEST_OF(command_convert)
TEST_OF(command_diff)
TEST_OF(command_info)

static int make_folder(void **state)
{
    const char *source = getenv("ORRERY_SOURCE");
    const char *inputs = "tests/golden/inputs";

    (void)state;
    source = source ? source : ".";
    snprintf(kineto, sizeof kineto, "%s/%s/two_ranks/rank0.json", source, inputs);
    snprintf(two_ranks, sizeof two_ranks, "%s/%s/two_ranks", source, inputs);
    snprintf(pair, sizeof pair, "%s/%s/pair", source, inputs);
    return mkdtemp(folder) && access(kineto, R_OK) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    orr_alloc_fail_from(0);
    empty_folder();
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
#define TEST(name) {#name, test_##name, NULL, NULL, NULL}
    const struct CMUnitTest tests[] = {
        TEST(kineto_to_et),
        TEST(linked_pair_to_et),
        TEST(linked_pair_to_compressed_et),
        TEST(linked_pair_to_perfetto_and_chrome),
        TEST(all_analyses_and_the_page),
        TEST(command_analyze),
        TEST(command_convert),
        TEST(command_diff),
        TEST(command_info),
    };
    return cmocka_run_group_tests_name("no_memory", tests, make_folder, remove_folder);
}
