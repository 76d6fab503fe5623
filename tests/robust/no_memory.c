/* SPDX-License-Identifier: Apache-2.0 */
/* Traces read, linked, analysed and written, while allocations fail. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <orrery/orrery.h>

#include "failing.h"
#include "io/stream/output.h"
#include "leaks.h"
#include "report/table/table.h"

static char kineto[PATH_ROOM], pair[PATH_ROOM], two_ranks[PATH_ROOM];
static char packed[PATH_ROOM], zipped[PATH_ROOM], tables[PATH_ROOM], space[PATH_ROOM],
    snapshot[PATH_ROOM], dispatches[PATH_ROOM], early[PATH_ROOM];

static orr_status kineto_to_et(orr_error *err)
{
    const orr_graph *graph = NULL;
    orr_status status;

    ORR_TRY_OUT(status, orr_trace_read(kineto, NULL, &graph, NULL, err));
    ORR_TRY_OUT(status, orr_trace_write(inside("rank0.et"), ORR_FORMAT_CHAKRA, graph, err));
out:
    orr_graph_free(graph);
    return status;
}

static orr_status read_job(const char *path, orr_arena *arena, const orr_job **ret, orr_error *err)
{
    orr_read_options options;
    const orr_job_file *files;
    size_t n_files;

    orr_read_options_init(&options);
    options.threads = 1;
    return orr_job_read(&path, 1, &options, arena, ret, &files, &n_files, err);
}

/* One that is read in a pass, and one whose members are opened one by one. */
static orr_status job_of_an_archive(orr_error *err)
{
    const char *const archives[] = {packed, zipped};
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = NULL;
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);

    ORR_TRY_OUT(status, status);
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        ORR_TRY_OUT(status, read_job(archives[i], arena, &job, err));
        orr_job_free(job);
        job = NULL;
    }
out:
    orr_job_free(job);
    orr_arena_free(arena);
    return status == ORR_UNSUPPORTED ? ORR_OK : status; /* a build without libarchive */
}

static orr_status graph_of(const char *path, orr_error *err)
{
    const orr_graph *graph = NULL;
    const orr_status status = orr_trace_read(path, NULL, &graph, NULL, err);
    orr_graph_free(graph);
    return status;
}

static orr_status tables_of_nsight(orr_error *err)
{
    return graph_of(tables, err);
}

static orr_status space_of_xplane(orr_error *err)
{
    return graph_of(space, err);
}

static orr_status snapshot_of_torch(orr_error *err)
{
    return graph_of(snapshot, err);
}

static orr_status tables_of_rocpd(orr_error *err)
{
    return graph_of(dispatches, err);
}

static orr_status trace_with_its_snapshot(orr_error *err)
{
    const char *const paths[] = {kineto, early};
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = NULL;
    const orr_job_file *files;
    size_t n_files;
    orr_read_options options;
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);

    orr_read_options_init(&options);
    options.threads = 1;
    if (status == ORR_OK)
        status = orr_job_read(paths, 2, &options, arena, &job, &files, &n_files, err);
    orr_job_free(job);
    orr_arena_free(arena);
    return status;
}

static orr_status linked_pair_to(const char *name, orr_format format, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = NULL;
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);

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

static orr_status linked_pair_to_text_and_pictures(orr_error *err)
{
    ORR_TRY(linked_pair_to("rank0.jsons", ORR_FORMAT_JSON, err));
    ORR_TRY(linked_pair_to("rank0.textproto", ORR_FORMAT_TEXT, err));
    ORR_TRY(linked_pair_to("rank0.dot", ORR_FORMAT_DOT, err));
    return linked_pair_to("rank0.graphml", ORR_FORMAT_GRAPHML, err);
}

static orr_status write_tables(const orr_job *job, orr_arena *arena, orr_output *out,
                               orr_error *err)
{
    size_t n;
    const orr_analysis *analyses = orr_analyses(&n);

    for (size_t i = 0; i < n; i++) {
        const orr_arena_mark mark = orr_arena_get_mark(arena);
        orr_table table;
        ORR_TRY(analyses[i].run(job, NULL, arena, &table, err));
        for (int format = ORR_TABLE_TEXT; format <= ORR_TABLE_MARKDOWN; format++)
            orr_table_write(
                &table, &(orr_table_style){.format = (orr_table_format)format, .width = 100}, out);
        orr_arena_rewind(arena, mark);
    }
    return orr_output_finish(out, err);
}

static orr_status all_analyses_and_the_page(orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = NULL;
    orr_output *out = NULL;
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);

    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, read_job(two_ranks, arena, &job, err));
    ORR_TRY_OUT(status, orr_output_open(inside("tables.txt"), &out, err));
    ORR_TRY_OUT(status, write_tables(job, arena, out, err));
    ORR_TRY_OUT(status, orr_trace_html(inside("report.html"), job, NULL, NULL, err));
out:
    orr_output_close(out);
    orr_job_free(job);
    orr_arena_free(arena);
    return status;
}

static orr_status command_analyze(orr_error *err)
{
    COMMAND("analyze", "-o", inside("out.txt"), two_ranks);
}
static orr_status command_chakra_generate(orr_error *err)
{
    COMMAND("chakra", "generate", "metadata", "-o", inside(""));
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
static orr_status command_synthesize(orr_error *err)
{
    COMMAND("synthesize", "-o", inside("."), "--scale", "ranks=3", "--obfuscate", two_ranks, pair);
}

TEST_OF(kineto_to_et)
TEST_OF(job_of_an_archive)
TEST_OF(tables_of_nsight)
TEST_OF(tables_of_rocpd)
TEST_OF(space_of_xplane)
TEST_OF(snapshot_of_torch)
TEST_OF(trace_with_its_snapshot)
TEST_OF(linked_pair_to_et)
TEST_OF(linked_pair_to_compressed_et)
TEST_OF(linked_pair_to_perfetto_and_chrome)
TEST_OF(linked_pair_to_text_and_pictures)
TEST_OF(all_analyses_and_the_page)
TEST_OF(command_analyze)
TEST_OF(command_chakra_generate)
TEST_OF(command_convert)
TEST_OF(command_diff)
TEST_OF(command_info)
TEST_OF(command_synthesize)

static int find_inputs(void **state)
{
    const char *source = getenv("ORRERY_SOURCE");
    const char *inputs = "tests/golden/inputs";

    source = source ? source : ".";
    snprintf(kineto, sizeof kineto, "%s/%s/two_ranks/rank0.json", source, inputs);
    snprintf(two_ranks, sizeof two_ranks, "%s/%s/two_ranks", source, inputs);
    snprintf(pair, sizeof pair, "%s/%s/pair", source, inputs);
    snprintf(packed, sizeof packed, "%s/fuzz/corpus/archive/two_ranks.tgz", source);
    snprintf(zipped, sizeof zipped, "%s/fuzz/corpus/archive/two_ranks.zip", source);
    snprintf(tables, sizeof tables, "%s/fuzz/corpus/nsight/two_ranks_rank0.sqlite", source);
    snprintf(dispatches, sizeof dispatches, "%s/fuzz/corpus/rocpd/launched.db", source);
    snprintf(space, sizeof space, "%s/fuzz/corpus/xplane/gpu.xplane.pb", source);
    snprintf(early, sizeof early, "%s/fuzz/corpus/torch_memory/early.pickle", source);
    snprintf(snapshot, sizeof snapshot, "%s/fuzz/corpus/torch_memory/protocol_4.pickle", source);
    return access(kineto, R_OK) == 0 ? make_folder(state) : -1;
}

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
    const struct CMUnitTest tests[] = {
        TEST(kineto_to_et),
        TEST(job_of_an_archive),
        TEST(tables_of_nsight),
        TEST(tables_of_rocpd),
        TEST(space_of_xplane),
        TEST(snapshot_of_torch),
        TEST(trace_with_its_snapshot),
        TEST(linked_pair_to_et),
        TEST(linked_pair_to_compressed_et),
        TEST(linked_pair_to_perfetto_and_chrome),
        TEST(all_analyses_and_the_page),
        TEST(command_analyze),
        TEST(linked_pair_to_text_and_pictures),
        TEST(command_chakra_generate),
        TEST(command_convert),
        TEST(command_diff),
        TEST(command_info),
        TEST(command_synthesize),
    };
    return cmocka_run_group_tests_name("no_memory", tests, find_inputs, remove_folder);
}
