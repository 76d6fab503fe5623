/* SPDX-License-Identifier: Apache-2.0 */
#include "kineto_text.h"

#include <sys/stat.h>
#include <unistd.h>

#include "trace/find_files.h"

/* A folder of its own for a test. */
static int make_folder(void **state)
{
    static char path[256];
    const char *parent = getenv("TMPDIR");
    (void)snprintf(path, sizeof path, "%s/orrery-test-XXXXXX", parent != NULL ? parent : "/tmp");
    *state = path;
    return mkdtemp(path) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[512];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    return system(command);
}

static const char *in(void **state, const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", (char *)*state, name);
    return path;
}

static void write_text(const char *path, const char *text)
{
    char *json = as_json(text);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fputs(json, f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
    free(json);
}

static void write_rank(void **state, const char *name, int rank)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{'distributedInfo':{'rank':%d,'world_size':4},'traceEvents':[" OP("aten::mm", 1,
                                                                                      0, 5) "]}",
                   rank);
    write_text(in(state, name), text);
}

typedef struct outcome {
    orr_arena *arena;
    const orr_job *job;
    const orr_job_file *files;
    size_t n;
    orr_error err;
} outcome;

static orr_status read_paths(const char *const *paths, size_t n, const orr_read_options *options,
                             outcome *o)
{
    *o = (outcome){.arena = orr_arena_new(0, 0)};
    assert_non_null(o->arena);
    return orr_job_read(paths, n, options, o->arena, &o->job, &o->files, &o->n, &o->err);
}

static void forget(outcome *o)
{
    orr_job_free(o->job);
    orr_arena_free(o->arena);
}

static void job_from_a_directory(void **state)
{
    write_rank(state, "rank10.json", 2);
    write_rank(state, "rank2.json", 1);
    write_rank(state, "rank1.json", 0);
    write_text(in(state, "notes.txt"), "not a recording");
    write_text(in(state, ".rank7.json"), LIST(""));
    assert_int_equal(mkdir(in(state, "deeper"), 0700), 0);
    const char *paths[] = {*state};
    outcome o;
    if (read_paths(paths, 1, NULL, &o) != ORR_OK)
        fail_msg("%s", o.err.text);
    assert_int_equal(o.n, 3);
    assert_non_null(strstr(o.files[0].path, "/rank1.json")); /* 2 before 10 */
    assert_non_null(strstr(o.files[1].path, "/rank2.json"));
    assert_int_equal(o.files[2].rank, 2);
    assert_int_equal(o.files[2].report.format, ORR_FORMAT_KINETO);
    assert_int_equal(o.job->n_graphs, 3);
    assert_int_equal(o.job->n_ranks, 4); /* rank 3 is missing, which is no error */
    assert_int_equal(o.job->graph_of_rank[3], ORR_NONE);
    forget(&o);
}

/* An empty or broken file of a folder is named, not left out; what is no recording by its name and
 * its text is. */
static void job_names_what_cannot_be_read(void **state)
{
    static const struct {
        const char *text, *why;
    } broken[] = {{"", "rank1.json is empty"}, {"garbage", "it is no JSON"}};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_rank(state, "rank0.json", 0);
        write_text(in(state, "rank1.json"), broken[i].text);
        const char *paths[] = {*state};
        outcome o;
        assert_int_equal(read_paths(paths, 1, NULL, &o), ORR_PARSE);
        assert_non_null(strstr(o.err.text, broken[i].why));
        assert_non_null(strstr(o.err.text, "rank1.json"));
        forget(&o);
    }
    write_text(in(state, "rank1.json"), "{'losses':[1,2]}");
    const char *paths[] = {*state};
    outcome o;
    assert_int_equal(read_paths(paths, 1, NULL, &o), ORR_OK);
    assert_int_equal(o.n, 1);
    forget(&o);
}

/* The host trace of one rank beside the device trace of another: neither is a job. */
static void job_refuses_a_lone_host_trace(void **state)
{
    (void)state;
    const char *source = getenv("ORRERY_SOURCE");
    char host[512], device[512];
    if (source == NULL)
        skip();
    (void)snprintf(host, sizeof host, "%s/examples/traces/mlp_ddp_gloo_w2/rank0.host.json.gz",
                   source);
    (void)snprintf(device, sizeof device, "%s/examples/traces/mlp_ddp_gloo_w2/rank1.device.json.gz",
                   source);
    const char *paths[] = {host, device};
    outcome o;
    assert_int_equal(read_paths(paths, 2, NULL, &o), ORR_INVALID);
    assert_non_null(strstr(o.err.text, "rank0.host.json.gz is the host trace of rank 0"));
    assert_non_null(strstr(o.err.text, "rank1.device.json.gz is of rank 1"));
    forget(&o);
}

/* An example's file under another name in the scratch folder; NULL: the examples are not here. */
static const char *linked_example(void **state, const char *name, const char *as)
{
    const char *source = getenv("ORRERY_SOURCE"), *at = in(state, as);
    char target[512];
    if (source == NULL)
        skip();
    (void)snprintf(target, sizeof target, "%s/examples/traces/%s", source, name);
    assert_int_equal(symlink(target, at), 0);
    return at;
}

/* A host trace that tells no rank is of the rank whose device trace is of its process. */
static void job_finds_the_rank_of_a_host_trace_by_its_process(void **state)
{
    (void)linked_example(state, "mlp_ddp_gloo_w2/rank1.host.json.gz", "a.json.gz");
    (void)linked_example(state, "mlp_ddp_gloo_w2/rank0.host.json.gz", "b.json.gz");
    (void)linked_example(state, "mlp_ddp_gloo_w2/rank0.device.json.gz", "rank0.json.gz");
    (void)linked_example(state, "mlp_ddp_gloo_w2/rank1.device.json.gz", "rank1.json.gz");
    const char *paths[] = {*state};
    outcome o;
    if (read_paths(paths, 1, NULL, &o) != ORR_OK)
        fail_msg("%s", o.err.text);
    assert_int_equal(o.n, 4);
    assert_int_equal(o.job->n_graphs, 2);
    assert_non_null(strstr(o.files[0].path, "/a.json.gz"));
    assert_int_equal(o.files[0].rank, 1);
    assert_non_null(strstr(o.files[0].paired_with, "/rank1.json.gz"));
    assert_int_equal(o.files[1].rank, 0);
    assert_non_null(strstr(o.files[1].paired_with, "/rank0.json.gz"));
    for (size_t i = 0; i < 4; i++) {
        assert_true(o.files[i].report.linked);
        assert_int_equal(o.files[i].report.link.host_ops, o.files[i].report.link.matched_by_id);
    }
    forget(&o);
}

/* The same operators, and no rank: only the process tells that it is of another rank or job. */
static void job_refuses_a_host_trace_of_another_process(void **state)
{
    static const char *const hosts[] = {"mlp_ddp_gloo_w2/rank1.host.json.gz",
                                        "gpt_ddp_gloo_w2/rank0.host.json.gz"};
    const char *device =
        linked_example(state, "mlp_ddp_gloo_w2/rank0.device.json.gz", "device.json.gz");
    for (size_t i = 0; i < 2; i++) {
        const char *paths[] = {linked_example(state, hosts[i], i ? "1.json.gz" : "0.json.gz"),
                               device};
        outcome o;
        assert_int_equal(read_paths(paths, 2, NULL, &o), ORR_INVALID);
        assert_non_null(strstr(o.err.text, ".json.gz is the host trace of no known rank"));
        assert_non_null(strstr(o.err.text, "no device trace is of that process"));
        forget(&o);
    }
}

static void job_from_globs_and_repeated_files(void **state)
{
    write_rank(state, "a0.json", 0);
    write_rank(state, "a1.json", 1);
    write_rank(state, "odd[0].json", 2);
    const char *glob = in(state, "a*.json"), *file = in(state, "a1.json");
    const char *odd = in(state, "odd[0].json");
    const char *paths[] = {file, glob, odd};
    outcome o;
    assert_int_equal(read_paths(paths, 3, NULL, &o), ORR_OK);
    assert_int_equal(o.n, 3);
    assert_string_equal(o.files[0].path, file);
    assert_string_equal(o.files[2].path, odd); /* a name that is there is no pattern */
    forget(&o);
}

static void job_ranks_from_file_names(void **state)
{
    write_text(in(state, "rank3.json"), LIST(OP("a", 1, 0, 5)));
    write_text(in(state, "rank1.json"), LIST(OP("a", 1, 0, 5)));
    const char *paths[] = {*state};
    outcome o;
    assert_int_equal(read_paths(paths, 1, NULL, &o), ORR_OK);
    assert_int_equal(o.files[0].rank, 1);
    assert_int_equal(o.files[1].rank, 3);
    forget(&o);
}

static void job_with_two_recordings_of_a_rank(void **state)
{
    write_rank(state, "a.json", 1);
    write_rank(state, "b.json", 1);
    const char *paths[] = {*state};
    outcome o;
    assert_int_equal(read_paths(paths, 1, NULL, &o), ORR_INVALID);
    assert_non_null(strstr(o.err.text, "rank 1"));
    assert_non_null(strstr(o.err.text, "a.json"));
    forget(&o);
}

static void job_with_nothing_to_read(void **state)
{
    const char *empty[] = {*state}, *missing[] = {in(state, "none.json")};
    const char *glob[] = {in(state, "*.json")};
    outcome o;
    assert_int_equal(read_paths(empty, 1, NULL, &o), ORR_NOT_FOUND);
    forget(&o);
    assert_int_equal(read_paths(missing, 1, NULL, &o), ORR_NOT_FOUND);
    assert_non_null(strstr(o.err.text, "none.json"));
    forget(&o);
    assert_int_equal(read_paths(glob, 1, NULL, &o), ORR_NOT_FOUND);
    forget(&o);
    assert_int_equal(read_paths(NULL, 0, NULL, &o), ORR_NOT_FOUND);
    forget(&o);
}

static void job_names_the_file_that_is_broken(void **state)
{
    write_rank(state, "rank0.json", 0);
    write_text(in(state, "rank1.json"), "{'traceEvents':[{'ph':'X'");
    const char *paths[] = {*state};
    outcome o;
    assert_int_equal(read_paths(paths, 1, NULL, &o), ORR_PARSE);
    assert_non_null(strstr(o.err.text, "rank1.json"));
    forget(&o);
}

typedef struct seen {
    uint64_t calls, done, total;
    uint64_t stop_after;
} seen;

static bool watch(void *ctx, uint64_t done, uint64_t total)
{
    seen *s = ctx;
    assert_true(done >= s->done);
    s->done = done;
    s->total = total;
    return ++s->calls < s->stop_after;
}

static void job_shows_progress_and_can_be_stopped(void **state)
{
    for (int i = 0; i < 6; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "rank%d.json", i);
        write_rank(state, name, i);
    }
    const char *paths[] = {*state};
    orr_read_options options;
    orr_read_options_init(&options);
    seen s = {.stop_after = UINT64_MAX};
    options.progress = watch;
    options.progress_ctx = &s;
    outcome o;
    assert_int_equal(read_paths(paths, 1, &options, &o), ORR_OK);
    assert_true(s.total > 0);
    assert_int_equal(s.done, s.total);
    forget(&o);
    s = (seen){.stop_after = 2};
    assert_int_equal(read_paths(paths, 1, &options, &o), ORR_CANCELED);
    forget(&o);
}

/* Pairs of host and device traces, and the same job for any number of threads. */
static void job_of_real_recordings(void **state)
{
    (void)state;
    const char *paths[] = {real_file("dlrm_v100x8")};
    orr_read_options options;
    orr_read_options_init(&options);
    for (int threads = 1; threads <= 4; threads += 3) {
        outcome o;
        options.threads = threads;
        if (read_paths(paths, 1, &options, &o) != ORR_OK)
            fail_msg("%s", o.err.text);
        assert_int_equal(o.n, 16);
        assert_int_equal(o.job->n_ranks, 8);
        assert_int_equal(o.job->n_graphs, 8);
        for (size_t i = 0; i < o.n; i++) {
            assert_int_equal(o.files[i].rank, i / 2);
            assert_true(o.files[i].report.linked);
            /* rankN.device stands before rankN.host */
            if (i % 2 == 1)
                assert_string_equal(o.files[i].paired_with, o.files[i - 1].path);
            else
                assert_null(o.files[i].paired_with);
        }
        forget(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(job_from_a_directory, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(job_names_what_cannot_be_read, make_folder, remove_folder),
        cmocka_unit_test(job_refuses_a_lone_host_trace),
        cmocka_unit_test_setup_teardown(job_finds_the_rank_of_a_host_trace_by_its_process,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(job_refuses_a_host_trace_of_another_process, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(job_from_globs_and_repeated_files, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(job_ranks_from_file_names, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(job_with_two_recordings_of_a_rank, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(job_with_nothing_to_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(job_names_the_file_that_is_broken, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(job_shows_progress_and_can_be_stopped, make_folder,
                                        remove_folder),
        cmocka_unit_test(job_of_real_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
