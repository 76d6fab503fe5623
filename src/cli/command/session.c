/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/progress.h"
#include "base/printable.h"
#include "base/term.h"
#include "cli/command/help.h"
#include "cli/command/interrupt.h"

orr_status orr_session_init(orr_session *session, const orr_settings *settings)
{
    *session = (orr_session){.settings = settings, .arena = orr_arena_new(0, 0)};
    orr_analysis_options_init(&session->analysis);
    return session->arena ? ORR_OK : orr_fail_memory(&session->err);
}

void orr_session_done(orr_session *session)
{
    orr_output_close(session->out);
    orr_job_free(session->job);
    orr_arena_free(session->arena);
}

int orr_session_fail(const orr_session *session)
{
    if (session->err.status == ORR_IO && session->err.os_errno == EPIPE)
        orr_interrupt_end_like_sigpipe();
    orr_complain("%s", session->err.text);
    return EXIT_INPUT;
}

void orr_session_read_options(const orr_session *session, orr_read_options *ret)
{
    const orr_settings *settings = session->settings;

    orr_read_options_init(ret);
    ret->tolerant = settings->tolerant;
    ret->threads = (int)settings->threads;
    if (settings->from)
        ret->format = orr_format_from_name(settings->from);
}

static bool show_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes)
{
    orr_progress_update(ctx, done_bytes, total_bytes);
    return true;
}

orr_status orr_session_read(orr_session *session, const char *const *paths, size_t n_paths)
{
    orr_read_options options;
    orr_progress progress;

    orr_session_read_options(session, &options);
    orr_progress_init(&progress, "reading", true, STDERR_FILENO, session->settings->quiet, NULL);
    options.progress = show_progress;
    options.progress_ctx = &progress;
    const orr_status status = orr_job_read(paths, n_paths, &options, session->arena, &session->job,
                                           &session->files, &session->n_files, &session->err);
    orr_progress_done(&progress);
    return status;
}

/* "2", or "2:5", both included. */
static orr_status parse_steps(const char *text, orr_analysis_options *ret, orr_error *err)
{
    char *end;
    const long first = strtol(text, &end, 10);
    long last = first;

    if (end != text && *end == ':') {
        const char *second = end + 1;
        last = strtol(second, &end, 10);
        if (end == second)
            end = (char *)second - 1;
    }
    if (end == text || *end || first < 0 || last < first || last > INT32_MAX)
        return orr_fail(err, ORR_INVALID, "--step: '%s' is not A or A:B with 0 <= A <= B", text);
    ret->step_first = (int32_t)first;
    ret->step_last = (int32_t)last;
    return ORR_OK;
}

orr_status orr_session_analysis(orr_session *session)
{
    const orr_settings *settings = session->settings;
    orr_analysis_options *options = &session->analysis;

    if (settings->rank >= 0)
        options->rank = (uint32_t)settings->rank;
    if (settings->annotation)
        options->annotation = settings->annotation;
    if (settings->op)
        options->operator_name = settings->op;
    options->path_hta = settings->path && strcmp(settings->path, "hta") == 0;
    if (settings->top > 0)
        options->top_kernels = (uint32_t)settings->top;
    if (settings->all)
        options->top_kernels = 0;
    return settings->step ? parse_steps(settings->step, options, &session->err) : ORR_OK;
}

const char *orr_session_printable(const orr_session *session, const char *text)
{
    char *copy = orr_arena_strndup(session->arena, text, strlen(text));

    if (copy)
        orr_text_make_printable(copy);
    return copy ? copy : "?";
}

static orr_table_format table_format(const char *name)
{
    return strcmp(name, "json") == 0  ? ORR_TABLE_JSON
           : strcmp(name, "csv") == 0 ? ORR_TABLE_CSV
           : strcmp(name, "md") == 0  ? ORR_TABLE_MARKDOWN
                                      : ORR_TABLE_TEXT;
}

orr_status orr_session_output(orr_session *session, orr_table_style *ret_style)
{
    const orr_settings *settings = session->settings;
    const bool to_stdout = !settings->output || strcmp(settings->output, "-") == 0;

    orr_color color = ORR_COLOR_AUTO;
    orr_color_from_name(settings->color, &color); /* the option table lets no other name pass */
    ORR_TRY(orr_output_open(to_stdout ? "-" : settings->output, &session->out, &session->err));
    const bool seen = to_stdout && orr_term_is_tty(STDOUT_FILENO);
    *ret_style = (orr_table_style){
        .format = table_format(settings->format),
        .width = seen ? orr_term_width(STDOUT_FILENO) : 0,
        .color = to_stdout && orr_term_use_color(color, STDOUT_FILENO),
        .no_formulas = settings->csv_safe,
        .max_rows = settings->all ? 0 : (size_t)settings->top,
    };
    return ORR_OK;
}

void orr_session_remark(const orr_session *session, const char *format, ...)
{
    char text[1024];
    va_list args;

    if (session->settings->quiet)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    orr_complain("%s", text);
}

static void remark_faults(const orr_session *session, const orr_job_file *file)
{
    for (int fault = 0; fault < ORR_TRACE_FAULTS; fault++)
        if (file->report.faults[fault])
            orr_session_remark(session, "%s: let pass %llu x: %s", file->path,
                               (unsigned long long)file->report.faults[fault],
                               orr_trace_fault_text((orr_trace_fault)fault));
}

static void remark_link(const orr_session *session, const orr_job_file *file)
{
    const orr_link_report *link = &file->report.link;
    const uint32_t matched = link->matched_by_id + link->matched_by_order;

    if (!file->paired_with || !file->report.linked ||
        (!session->settings->verbose && matched == link->host_ops))
        return;
    orr_session_remark(session, "%s: %u of %u operators matched (%u by id, %u by order)",
                       file->path, matched, link->host_ops, link->matched_by_id,
                       link->matched_by_order);
    for (int miss = 0; miss < ORR_LINK_MISSES; miss++)
        if (link->missed[miss])
            orr_session_remark(session, "%s: %u not matched: %s", file->path, link->missed[miss],
                               orr_link_miss_text((orr_link_miss)miss));
}

/* Of a sample of ranks, those are not missing that lie outside of it. */
static orr_status remark_missing_ranks(orr_session *session)
{
    const orr_job *job = session->job;
    uint32_t missing = 0, first = ORR_NONE;
    orr_job_sample sample;

    ORR_TRY(orr_job_sample_of(job, session->arena, &sample, &session->err));
    if (sample.sampled)
        orr_session_remark(session, "a sample of %u of %u ranks, as the files say",
                           sample.n_sampled, job->n_ranks);
    for (uint32_t rank = 0; rank < job->n_ranks; rank++) {
        if (job->graph_of_rank[rank] != ORR_NONE || (sample.sampled && !sample.sampled[rank]))
            continue;
        missing++;
        if (first == ORR_NONE)
            first = rank;
    }
    if (missing == 1)
        orr_session_remark(session, "rank %u of %u is missing", first, job->n_ranks);
    else if (missing)
        orr_session_remark(session, "%u of %u ranks are missing, the first is rank %u", missing,
                           job->n_ranks, first);
    return ORR_OK;
}

static orr_status remark_files(orr_session *session)
{
    for (size_t i = 0; i < session->n_files; i++) {
        const orr_job_file *file = &session->files[i];
        if (session->settings->verbose)
            orr_session_remark(
                session, "%s: %s, rank %d, %llu records, %llu bytes", file->path,
                orr_format_name(file->report.format), file->rank == ORR_NONE ? -1 : (int)file->rank,
                (unsigned long long)file->report.events, (unsigned long long)file->report.bytes);
        remark_faults(session, file);
        remark_link(session, file);
    }
    return remark_missing_ranks(session);
}

/* Threads that only poll are named, since analyses leave them out. */
static orr_status remark_pollers(orr_session *session)
{
    orr_table pollers;
    ORR_TRY(orr_pollers_table(session->job, session->arena, &pollers, &session->err));
    if (pollers.n_rows > 0)
        orr_session_remark(session,
                           "threads that only poll: %zu; they take no part in path, span and "
                           "what-ifs",
                           pollers.n_rows);
    return ORR_OK;
}

orr_status orr_session_load(orr_session *session, const char *const *paths, size_t n_paths)
{
    ORR_TRY(orr_session_read(session, paths, n_paths));
    ORR_TRY(remark_files(session));
    return remark_pollers(session);
}

void orr_session_tables(const orr_session *session, const orr_table_style *style,
                        const orr_named_table *tables, size_t n, size_t from)
{
    if (style->format == ORR_TABLE_JSON) {
        orr_named_tables_write_json(tables + from, n - from, session->out);
        return;
    }
    for (size_t i = from, printed = 0; i < n; i++) {
        if (tables[i].table.n_rows == 0)
            continue;
        if (printed)
            orr_output_text(session->out, "\n");
        orr_table_write(&tables[i].table, style, session->out);
        printed++;
    }
}
