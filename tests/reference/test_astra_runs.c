/* SPDX-License-Identifier: Apache-2.0 */
/* What ASTRA-sim printed for the cases of astra/runs.tsv.gz and astra/generated.tsv.gz, to the ns,
 * for every rank: last end, sum of ends, sum of exposed communication. astra/README.md says how the
 * tables were made. */
#include <inttypes.h>

#include <orrery/orrery.h>

#include "../unit/sim/astra_jobs.h"
#include "astra_text.h"
#include "io/stream/stream.h"

enum { COLUMNS = 6, MOST_PROGRAMS = 64 };

/* Text up to a character, which is skipped. */
static bool part(const char **at, char stop, char *ret, size_t room)
{
    if (**at == '\0')
        return false;
    const char *end = strchr(*at, stop);
    const size_t n = end != NULL ? (size_t)(end - *at) : strlen(*at);
    assert_true(n < room);
    memcpy(ret, *at, n);
    ret[n] = '\0';
    *at += n + (end != NULL);
    return true;
}

static void set_network(astra_job *job, const char *text)
{
    char dim[64], lists[4][256] = {"", "", "", ""}, yaml[1200];
    while (part(&text, ',', dim, sizeof dim)) {
        char bandwidth[32], latency[32];
        unsigned n;
        assert_int_equal(sscanf(dim + 1, "%u@%31[^/]/%31s", &n, bandwidth, latency), 3);
        for (int i = 0; i < 4; i++) {
            const size_t len = strlen(lists[i]);
            char *end = lists[i] + len;
            const size_t room = sizeof lists[i] - len;
            const char *comma = len > 0 ? ", " : "";
            if (i == 0)
                snprintf(end, room, "%s%s", comma,
                         dim[0] == 'R'   ? "Ring"
                         : dim[0] == 'S' ? "Switch"
                                         : "FullyConnected");
            else if (i == 1)
                snprintf(end, room, "%s%u", comma, n);
            else
                snprintf(end, room, "%s%s", comma, i == 2 ? bandwidth : latency);
        }
    }
    snprintf(yaml, sizeof yaml,
             "topology: [ %s ]\nnpus_count: [ %s ]\nbandwidth: [ %s ]\nlatency: [ %s ]\n", lists[0],
             lists[1], lists[2], lists[3]);
    astra_network(job, yaml);
}

static void add_ways(char *json, size_t room, const char *kind, const char *ways)
{
    char way[64];
    bool first = true;
    snprintf(json + strlen(json), room - strlen(json), "\"%s-implementation\": [", kind);
    for (; part(&ways, ',', way, sizeof way); first = false)
        snprintf(json + strlen(json), room - strlen(json), "%s\"%s\"", first ? "" : ", ", way);
    snprintf(json + strlen(json), room - strlen(json), "], ");
}

static void set_system(astra_job *job, const char *text)
{
    static const char *const names[][2] = {{"split", "preferred-dataset-splits"},
                                           {"active", "active-chunks-per-dimension"},
                                           {"ep", "endpoint-delay"},
                                           {"mem", "local-mem-bw"},
                                           {"peak", "peak-perf"},
                                           {"roof", "roofline-enabled"},
                                           {"replay", "replay-only"}};
    static const char *const kinds[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"};
    char json[2048] = "{\"scheduling-policy\": \"LIFO\", ", field[256], key[32];
    job->queues = 1;
    while (part(&text, ';', field, sizeof field)) {
        const char *value = field;
        assert_true(part(&value, '=', key, sizeof key));
        if (strcmp(key, "q") == 0)
            job->queues = (uint32_t)atoi(value);
        else if (strcmp(key, "opt") == 0)
            snprintf(json + strlen(json), sizeof json - strlen(json),
                     "\"collective-optimization\": \"%s\", ",
                     *value == 'l' ? "localBWAware" : "baseline");
        else if (strcmp(key, "all") == 0)
            for (int i = 0; i < 4; i++)
                add_ways(json, sizeof json, kinds[i], value);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strcmp(key, names[i][0]) == 0)
                snprintf(json + strlen(json), sizeof json - strlen(json), "\"%s\": %s, ",
                         names[i][1], value);
    }
    snprintf(json + strlen(json) - 2, 3, "}");
    astra_system(job, json);
}

static void set_groups(astra_job *job, const char *text)
{
    char json[8192] = "{", group[1024], number[16];
    if (strcmp(text, "-") == 0)
        return;
    while (part(&text, ';', group, sizeof group)) {
        const char *ranks = group;
        assert_true(part(&ranks, ':', number, sizeof number));
        snprintf(json + strlen(json), sizeof json - strlen(json), "%s\"%s\": [%s]",
                 json[1] != '\0' ? ", " : "", number, ranks);
    }
    snprintf(json + strlen(json), sizeof json - strlen(json), "}");
    if (orr_astra_groups_parse(json, strlen(json), "groups", job->arena, &job->groups, &job->err) !=
        ORR_OK)
        fail_msg("%s", job->err.text);
}

/* Graphs of the programs; the caller frees them. */
static uint32_t set_graphs(astra_job *job, const char *text, const orr_graph **graphs)
{
    uint32_t n = 0;
    char ranks[512], rank[16];
    while (*text != '\0') {
        assert_true(part(&text, ':', ranks, sizeof ranks));
        const size_t len = strcspn(text, "|");
        proto trace = program_encode(text, len);
        assert_true(n < MOST_PROGRAMS);
        if (orr_trace_read_memory(trace.at, trace.n, NULL, &graphs[n], NULL, &job->err) != ORR_OK)
            fail_msg("%s", job->err.text);
        free(trace.at);
        const char *at = ranks;
        if (strcmp(ranks, "*") == 0)
            astra_all_ranks(job, graphs[n]);
        else
            while (part(&at, ',', rank, sizeof rank))
                job->graphs[atoi(rank)] = graphs[n];
        n++;
        text += len + (text[len] == '|');
    }
    return n;
}

static const char *outcome(astra_job *job, orr_astra_mode mode, bool fold, char *text, size_t room)
{
    const orr_status status = astra_try(job, mode, fold);
    int64_t last = 0, sum = 0, exposed = 0;
    if (status == ORR_CANCELED)
        return "deadlock";
    if (status != ORR_OK)
        return "crash";
    for (uint32_t r = 0; r < job->result.n_ranks; r++) {
        const orr_astra_rank *rank = &job->result.ranks[r];
        last = rank->finish_ns > last ? rank->finish_ns : last;
        sum += rank->finish_ns;
        exposed += rank->exposed_ns;
    }
    snprintf(text, room, "%" PRId64 "/%" PRId64 "/%" PRIu64, last, sum, (uint64_t)exposed);
    return text;
}

/* Where ASTRA-sim crashes or never ends, the job has to be refused, in either way. */
static bool is_right(const char *got, const char *want)
{
    const bool got_number = strchr(got, '/') != NULL, want_number = strchr(want, '/') != NULL;
    return want_number ? strcmp(got, want) == 0 : !got_number;
}

typedef struct tally {
    uint32_t cases, runs, wrong;
} tally;

static void check_case(char *line, tally *t)
{
    char *column[COLUMNS], text[128];
    const orr_graph *graphs[MOST_PROGRAMS];
    for (int i = 0; i < COLUMNS; i++) {
        column[i] = line;
        line += strcspn(line, "\t");
        if (*line != '\0')
            *line++ = '\0';
    }
    astra_job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->arena = orr_arena_new(0, 0);
    set_network(job, column[0]);
    set_system(job, column[1]);
    set_groups(job, column[2]);
    const uint32_t n = set_graphs(job, column[3], graphs);
    t->cases++;
    for (int mode = ORR_ASTRA_UNAWARE; mode <= ORR_ASTRA_AWARE; mode++) {
        const char *want = column[4 + mode];
        for (int fold = 0; fold < 2 && *want != '-'; fold++) {
            const char *got = outcome(job, (orr_astra_mode)mode, fold, text, sizeof text);
            t->runs++;
            if (is_right(got, want))
                continue;
            t->wrong++;
            print_error("%s\t%s\t%s\t%.200s\n  mode %d, fold %d: %s, ASTRA-sim %s (%s)\n",
                        column[0], column[1], column[2], column[3], mode, fold, got, want,
                        job->err.text);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        orr_graph_free(graphs[i]);
    orr_arena_free(job->arena);
    free(job);
}

static char *read_all(const char *name)
{
    const char *source = getenv("ORRERY_SOURCE");
    orr_stream *stream;
    orr_error err;
    char path[1024];
    bool end = false;
    assert_non_null(source);
    snprintf(path, sizeof path, "%s/tests/reference/astra/%s", source, name);
    if (orr_stream_open(path, &stream, &err) != ORR_OK)
        fail_msg("%s", err.text);
    while (!end)
        assert_int_equal(orr_stream_fill(stream, &end, &err), ORR_OK);
    const orr_window window = orr_stream_window(stream);
    char *text = malloc(window.n + 1);
    assert_non_null(text);
    memcpy(text, window.bytes, window.n);
    text[window.n] = '\0';
    orr_stream_close(stream);
    return text;
}

static void check_table(const char *name, uint32_t least)
{
    tally t = {0};
    char *text = read_all(name);
    for (char *line = text; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        const bool more = line[n] != '\0';
        line[n] = '\0';
        check_case(line, &t);
        line += n + more;
    }
    free(text);
    print_message("%s: %u cases, %u runs compared\n", name, t.cases, t.runs);
    assert_true(t.cases >= least);
    if (t.wrong > 0)
        fail_msg("%u of %u runs differ", t.wrong, t.runs);
}

static void test_grid(void **state)
{
    (void)state;
    check_table("runs.tsv.gz", 1500);
}

static void test_generated_traces(void **state)
{
    (void)state;
    check_table("generated.tsv.gz", 33);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_generated_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
