/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command/session.h"
#include "cli/traces/part.h"

static const char *extension_of(orr_format format)
{
    switch (format) {
    case ORR_FORMAT_CHAKRA:
        return "et";
    case ORR_FORMAT_PERFETTO:
        return "pftrace";
    case ORR_FORMAT_TEXT:
        return "textproto";
    case ORR_FORMAT_DOT:
    case ORR_FORMAT_GRAPHML:
        return orr_format_name(format);
    default:
        return "json";
    }
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The pattern with each %r replaced by the rank, in the arena. NULL: out of memory. */
static const char *expand_pattern(orr_arena *arena, const char *pattern, uint32_t rank)
{
    const char *at = strstr(pattern, "%r");

    if (!at)
        return orr_arena_strndup(arena, pattern, strlen(pattern));
    const char *rest = expand_pattern(arena, at + 2, rank);
    return rest ? orr_arena_printf(arena, "%.*s%u%s", (int)(at - pattern), pattern, rank, rest)
                : NULL;
}

static orr_format format_to_write(const orr_settings *settings)
{
    return settings->to ? orr_format_from_name(settings->to)
                        : orr_format_from_path(settings->output);
}

/* What the output of each rank is called: from the pattern, inside the directory, or the file
 * itself. */
static orr_status path_of_rank(orr_session *session, orr_format format, uint32_t rank,
                               const char **ret)
{
    const char *output = session->settings->output;

    *ret = strstr(output, "%r")   ? expand_pattern(session->arena, output, rank)
           : is_directory(output) ? orr_arena_printf(session->arena, "%s/rank%u.%s", output, rank,
                                                     extension_of(format))
                                  : output;
    return *ret ? ORR_OK : orr_fail_memory(&session->err);
}

static orr_status make_directory(orr_session *session)
{
    const char *path = session->settings->output;

    if (is_directory(path) || mkdir(path, 0777) == 0)
        return ORR_OK;
    return orr_fail(&session->err, ORR_IO, "%s: cannot make the directory: %s", path,
                    strerror(errno));
}

static orr_status write_each(orr_session *session, orr_format format)
{
    const orr_job *job = session->job;
    const bool pattern = strstr(session->settings->output, "%r") != NULL;

    if (job->n_graphs > 1 && !pattern)
        ORR_TRY(make_directory(session));
    for (uint32_t g = 0; g < job->n_graphs; g++) {
        const char *path;
        ORR_TRY(path_of_rank(session, format, job->rank_of_graph[g], &path));
        ORR_TRY(orr_trace_write(path, format, job->graphs[g], &session->err));
        if (session->settings->verbose)
            orr_session_remark(session, "%s: %u nodes, %u dependencies", path,
                               job->graphs[g]->n_nodes, job->graphs[g]->n_deps);
    }
    return ORR_OK;
}

static orr_status write_job(orr_session *session)
{
    const char *output = session->settings->output;
    const orr_format format = format_to_write(session->settings);
    const bool one_file = session->job->n_graphs > 1 && !strstr(output, "%r") &&
                          !is_directory(output) && output[strlen(output) - 1] != '/';

    if (one_file && (format == ORR_FORMAT_PERFETTO || format == ORR_FORMAT_CHROME))
        return orr_job_write(output, format, session->job, &session->err);
    return write_each(session, format);
}

int orr_command_convert(const orr_settings *settings)
{
    orr_session session;
    int code = EXIT_DONE;

    if (!settings->output || !*settings->output) {
        fputs("orrery: say with -o OUTPUT where to write\n", stderr);
        return EXIT_USAGE;
    }
    if (format_to_write(settings) == ORR_FORMAT_UNKNOWN) {
        fprintf(
            stderr,
            "orrery: convert: the ending of %s is none of .et, .pftrace, .json, .textproto, .dot, "
            ".graphml; say the format with --to\n",
            settings->output);
        return EXIT_USAGE;
    }
    if (orr_session_init(&session, settings) != ORR_OK ||
        orr_session_load(&session, settings->args, settings->n_args) != ORR_OK ||
        (orr_part_asked(settings) && orr_session_reduce(&session) != ORR_OK) ||
        write_job(&session) != ORR_OK)
        code = orr_session_fail(&session);
    orr_session_done(&session);
    return code;
}
