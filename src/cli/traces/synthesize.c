/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/arguments/factor.h"
#include "cli/command/help.h"
#include "cli/command/session.h"
#include "synthesis/synthesis.h"

static const orr_column source_columns[] = {
    {"source", ORR_COLUMN_U32, offsetof(orr_synthesis_row, source)},
    {"name", ORR_COLUMN_TEXT, offsetof(orr_synthesis_row, name)},
    {"followed", ORR_COLUMN_BOOL, offsetof(orr_synthesis_row, followed)},
    {"share_frac", ORR_COLUMN_FRAC, offsetof(orr_synthesis_row, share_frac)},
    {"ranks", ORR_COLUMN_U32, offsetof(orr_synthesis_row, ranks)},
    {"synthetic_ranks", ORR_COLUMN_U32, offsetof(orr_synthesis_row, synthetic_ranks)},
    {"steps", ORR_COLUMN_U32, offsetof(orr_synthesis_row, steps)},
    {"synthetic_steps", ORR_COLUMN_U32, offsetof(orr_synthesis_row, synthetic_steps)},
    {"step_ns", ORR_COLUMN_NS, offsetof(orr_synthesis_row, step_ns)},
    {"synthetic_step_ns", ORR_COLUMN_NS, offsetof(orr_synthesis_row, synthetic_step_ns)},
    {"step_error_frac", ORR_COLUMN_FRAC, offsetof(orr_synthesis_row, step_error_frac)},
    {"exposed_frac", ORR_COLUMN_FRAC, offsetof(orr_synthesis_row, exposed_frac)},
    {"synthetic_exposed_frac", ORR_COLUMN_FRAC,
     offsetof(orr_synthesis_row, synthetic_exposed_frac)},
    {"exposed_difference_frac", ORR_COLUMN_FRAC,
     offsetof(orr_synthesis_row, exposed_difference_frac)},
};

static const orr_column distribution_columns[] = {
    {"source", ORR_COLUMN_U32, offsetof(orr_distribution_row, source)},
    {"what", ORR_COLUMN_TEXT, offsetof(orr_distribution_row, what)},
    {"count", ORR_COLUMN_NUMBER, offsetof(orr_distribution_row, count)},
    {"synthetic_count", ORR_COLUMN_NUMBER, offsetof(orr_distribution_row, synthetic_count)},
    {"median_ns", ORR_COLUMN_NS, offsetof(orr_distribution_row, median_ns)},
    {"synthetic_median_ns", ORR_COLUMN_NS, offsetof(orr_distribution_row, synthetic_median_ns)},
    {"ks", ORR_COLUMN_NUMBER, offsetof(orr_distribution_row, ks)},
    {"quantile_error_frac", ORR_COLUMN_FRAC, offsetof(orr_distribution_row, quantile_error_frac)},
    {"autocorrelation", ORR_COLUMN_NUMBER, offsetof(orr_distribution_row, autocorrelation)},
    {"synthetic_autocorrelation", ORR_COLUMN_NUMBER,
     offsetof(orr_distribution_row, synthetic_autocorrelation)},
    {"autocorrelation_difference", ORR_COLUMN_NUMBER,
     offsetof(orr_distribution_row, autocorrelation_difference)},
};

/* The command's own session prints; each source has one that owns its graphs. */
typedef struct synthesis {
    orr_session session;
    orr_settings settings; /* tables go to standard output: --output is the folder */
    const char *folder;
    orr_session *of_source; /* shape (n) */
    uint32_t n;
    orr_synthesis_options options;
    orr_synthesis made;
} synthesis;

/* "ranks=64" */
static orr_status parse_scale(const char *text, uint32_t *ret, orr_error *err)
{
    static const char word[] = "ranks=";
    char *end = NULL;
    long ranks = 0;
    if (strncmp(text, word, sizeof word - 1) == 0)
        ranks = strtol(text + sizeof word - 1, &end, 10);
    if (end == NULL || *end != '\0' || ranks < 1 || ranks > ORR_SYNTHESIS_RANKS)
        return orr_fail(err, ORR_INVALID, "--scale: '%s' is not ranks=N with 1 <= N <= %d", text,
                        ORR_SYNTHESIS_RANKS);
    *ret = (uint32_t)ranks;
    return ORR_OK;
}

static orr_status read_options(synthesis *s)
{
    const orr_settings *settings = &s->settings;
    orr_error *err = &s->session.err;
    ORR_TRY(orr_session_analysis(&s->session));
    s->options.annotation = s->session.analysis.annotation;
    s->options.obfuscate = settings->obfuscate;
    s->options.threads = (uint32_t)settings->threads;
    s->options.n_steps = (uint32_t)settings->steps;
    if (settings->scale != NULL)
        ORR_TRY(parse_scale(settings->scale, &s->options.n_ranks, err));
    return orr_parse_seed(settings->seed != NULL ? settings->seed : "1", &s->options.seed, err);
}

/* An error of a source is the command's. */
static orr_status load(synthesis *s)
{
    const size_t n = s->settings.n_args;
    if (n > ORR_SYNTHESIS_SOURCES)
        return orr_fail(&s->session.err, ORR_LIMIT, "%zu jobs are more than %d", n,
                        ORR_SYNTHESIS_SOURCES);
    s->of_source = orr_arena_array(s->session.arena, orr_session, n);
    if (s->of_source == NULL)
        return orr_fail_memory(&s->session.err);
    for (size_t i = 0; i < n; i++) {
        orr_session *source = &s->of_source[s->n++];
        orr_status status = orr_session_init(source, &s->settings);
        if (status == ORR_OK)
            status = orr_session_load(source, &s->settings.args[i], 1);
        s->session.err = source->err;
        ORR_TRY(status);
    }
    return ORR_OK;
}

static orr_status make(synthesis *s)
{
    const orr_job **jobs = orr_arena_array(s->session.arena, const orr_job *, s->n);
    if (jobs == NULL)
        return orr_fail_memory(&s->session.err);
    for (uint32_t i = 0; i < s->n; i++)
        jobs[i] = s->of_source[i].job;
    if (s->options.obfuscate && s->n < 2)
        orr_session_remark(&s->session, "--obfuscate: of one job nobody can doubt whose it is; "
                                        "give several, and it is one among them");
    return orr_synthesize(jobs, s->n, &s->options, s->session.arena, &s->made, &s->session.err);
}

static orr_status write_ranks(synthesis *s)
{
    orr_session *session = &s->session;
    struct stat st;
    if (mkdir(s->folder, 0777) != 0 &&
        (errno != EEXIST || stat(s->folder, &st) != 0 || !S_ISDIR(st.st_mode)))
        return orr_fail(&session->err, ORR_IO, "%s: cannot make the directory: %s", s->folder,
                        strerror(errno));
    for (uint32_t g = 0; g < s->made.job->n_graphs; g++) {
        const char *path = orr_arena_printf(session->arena, "%s/rank%u.et", s->folder,
                                            s->made.job->rank_of_graph[g]);
        if (path == NULL)
            return orr_fail_memory(&session->err);
        ORR_TRY(orr_trace_write(path, ORR_FORMAT_CHAKRA, s->made.job->graphs[g], &session->err));
    }
    return ORR_OK;
}

static orr_status compare(synthesis *s, orr_synthesis_comparison *ret)
{
    const char **names = orr_arena_array(s->session.arena, const char *, s->n);
    if (names == NULL)
        return orr_fail_memory(&s->session.err);
    for (uint32_t i = 0; i < s->n; i++)
        names[i] = orr_session_printable(&s->session, s->settings.args[i]);
    return orr_synthesis_compare(&s->made, names, s->session.arena, ret, &s->session.err);
}

/* Files come last of what can fail: a job that could not be compared leaves none. */
static orr_status write_and_print(synthesis *s)
{
    orr_session *session = &s->session;
    orr_synthesis_comparison c;
    orr_table_style style;
    ORR_TRY(compare(s, &c));
    ORR_TRY(orr_session_output(session, &style));
    ORR_TRY(write_ranks(s));
    const orr_named_table tables[] = {
        {"sources",
         {"orrery.synthesis_sources/1", "each source beside the generated job", source_columns,
          sizeof source_columns / sizeof *source_columns, c.rows, sizeof *c.rows, c.n_rows}},
        {"distributions",
         {"orrery.synthesis_distributions/1", "durations by kind of work", distribution_columns,
          sizeof distribution_columns / sizeof *distribution_columns, c.distributions,
          sizeof *c.distributions, c.n_distributions}},
    };
    style.max_rows = 0;
    if (style.format == ORR_TABLE_JSON)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.synthesize/1\",\"version\":\"%s\",\"seed\":%" PRIu64
                          ",\"obfuscated\":%s,\"ranks\":%u,\"steps\":%u,\"blocks\":%u,"
                          "\"tables\":{",
                          orr_version(), s->options.seed, s->options.obfuscate ? "true" : "false",
                          s->made.job->n_graphs, s->made.walk.n_steps, s->made.walk.n_runs);
    orr_session_tables(session, &style, tables, 2, 0);
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}\n");
    return orr_output_finish(session->out, &session->err);
}

static void finish(synthesis *s)
{
    orr_synthesis_free(&s->made);
    for (uint32_t i = 0; i < s->n; i++)
        orr_session_done(&s->of_source[i]);
    orr_session_done(&s->session);
}

int orr_command_synthesize(const orr_settings *settings)
{
    synthesis s = {.settings = *settings, .folder = settings->output};
    int code = EXIT_DONE;
    if (s.folder == NULL || *s.folder == '\0') {
        orr_complain("synthesize: say with -o DIR where to write");
        return EXIT_USAGE;
    }
    s.settings.output = NULL;
    if (orr_session_init(&s.session, &s.settings) != ORR_OK || read_options(&s) != ORR_OK) {
        code = orr_session_fail(&s.session);
        if (s.session.err.status == ORR_INVALID)
            code = EXIT_USAGE;
    } else if (load(&s) != ORR_OK || make(&s) != ORR_OK || write_and_print(&s) != ORR_OK) {
        code = orr_session_fail(&s.session);
    }
    finish(&s);
    return code;
}
