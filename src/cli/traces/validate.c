/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/units.h"
#include "cli/command/session.h"
#include "engine/checkpoint/checkpoint.h"

static void describe_file(const orr_session *session, const orr_job_file *file)
{
    const orr_read_report *report = &file->report;
    const char *path = orr_session_printable(session, file->path);

    orr_output_printf(session->out, "%s: %s, %llu records", path, orr_format_name(report->format),
                      (unsigned long long)report->events);
    if (report->orphans)
        orr_output_printf(session->out, ", %llu without a launch",
                          (unsigned long long)report->orphans);
    for (int fault = 0; fault < ORR_TRACE_FAULTS; fault++)
        if (report->faults[fault])
            orr_output_printf(session->out, "\n%s: let pass %llu x: %s", path,
                              (unsigned long long)report->faults[fault],
                              orr_trace_fault_text((orr_trace_fault)fault));
    orr_output_text(session->out, "\n");
}

static void describe_link(const orr_session *session, const orr_job_file *file)
{
    const orr_link_report *link = &file->report.link;

    if (!file->paired_with)
        return;
    const char *path = orr_session_printable(session, file->path);
    if (!file->report.linked) {
        orr_output_printf(session->out, "%s: the memory of a trace that is there\n", path);
        return;
    }
    orr_output_printf(session->out, "%s: %u of %u operators found in the device trace\n", path,
                      link->matched_by_id + link->matched_by_order, link->host_ops);
    for (int miss = 0; miss < ORR_LINK_MISSES; miss++)
        if (link->missed[miss])
            orr_output_printf(session->out, "%s: %u not matched: %s\n", path, link->missed[miss],
                              orr_link_miss_text((orr_link_miss)miss));
}

/* Faults of the job as a whole, a line each; of a sample of its ranks, what the sample lacks. */
static orr_status describe_job(orr_session *session, bool *ret_whole)
{
    const orr_job *job = session->job;
    orr_job_sample sample;
    uint32_t missing = 0;

    ORR_TRY(orr_job_sample_of(job, session->arena, &sample, &session->err));
    for (uint32_t rank = 0; rank < job->n_ranks; rank++)
        missing +=
            job->graph_of_rank[rank] == ORR_NONE && (!sample.sampled || sample.sampled[rank]);
    if (sample.sampled)
        orr_output_printf(session->out, "job: a sample, %u of %u ranks, as the files say\n",
                          sample.n_sampled, job->n_ranks);
    if (missing)
        orr_output_printf(session->out, "job: %u of %u ranks%s %s missing\n", missing,
                          sample.sampled ? sample.n_sampled : job->n_ranks,
                          sample.sampled ? " of the sample" : "", missing == 1 ? "is" : "are");
    if (sample.outside)
        orr_output_printf(session->out,
                          "job: %u communications have members outside of the sample\n",
                          sample.outside);
    const uint32_t unmatched = job->n_graphs > 1 ? job->unmatched - sample.outside : 0;
    if (unmatched)
        orr_output_printf(session->out, "job: %u communications have a member missing\n",
                          unmatched);
    *ret_whole = !missing && !unmatched;
    return ORR_OK;
}

/* What each file is guilty of by itself, when the job could not be read. */
static void blame_files(orr_session *session)
{
    const char *const *files;
    size_t n_files;
    orr_read_options options;
    const orr_error of_job = session->err;
    bool found = false;

    orr_session_read_options(session, &options);
    if (orr_trace_find(session->settings->args, session->settings->n_args, session->arena, &files,
                       &n_files, &session->err) == ORR_OK)
        for (size_t i = 0; i < n_files; i++) {
            const orr_graph *graph;
            if (orr_trace_read(files[i], &options, &graph, NULL, &session->err) == ORR_OK) {
                orr_graph_free(graph);
            } else {
                orr_session_fail(session);
                found = true;
            }
        }
    session->err = of_job;
    if (!found)
        orr_session_fail(session);
}

static int validate(orr_session *session)
{
    orr_table_style style;

    if (orr_session_output(session, &style) != ORR_OK)
        return orr_session_fail(session);
    if (orr_session_read(session, session->settings->args, session->settings->n_args) != ORR_OK) {
        blame_files(session);
        return EXIT_INPUT;
    }
    for (size_t i = 0; i < session->n_files; i++) {
        describe_file(session, &session->files[i]);
        describe_link(session, &session->files[i]);
    }
    bool whole;
    if (describe_job(session, &whole) != ORR_OK)
        return orr_session_fail(session);
    if (whole)
        orr_output_printf(session->out, "%zu file%s, no fault\n", session->n_files,
                          session->n_files == 1 ? "" : "s");
    if (orr_output_finish(session->out, &session->err) != ORR_OK)
        return orr_session_fail(session);
    return whole ? EXIT_DONE : EXIT_CONDITION;
}

/* --- checkpoints of training ------------------------------------------------------------------ */

static bool is_checkpoint(orr_session *session, const char *path)
{
    const char *latest = orr_arena_printf(session->arena, "%s/latest", path);
    return latest != NULL && access(latest, F_OK) == 0;
}

static orr_status describe_checkpoint(orr_session *session, const char *path)
{
    orr_checkpoint *c;
    int64_t bytes = 0;
    char size[ORR_UNIT_CHARS];
    ORR_TRY(orr_checkpoint_open(path, &c, &session->err));
    const orr_status status = orr_checkpoint_verify(c, &bytes, &session->err);
    if (status == ORR_OK)
        orr_output_printf(
            session->out, "%s: checkpoint of %s after step %lld, %u rank%s, %s, no fault\n",
            orr_session_printable(session, path), c->model, (long long)c->step, c->ranks,
            c->ranks == 1 ? "" : "s", orr_format_bytes(size, (uint64_t)bytes));
    orr_checkpoint_close(c);
    return status;
}

/* All of what is named are checkpoints, or none is. */
static int validate_checkpoints(orr_session *session)
{
    const orr_settings *s = session->settings;
    orr_table_style style;
    if (orr_session_output(session, &style) != ORR_OK)
        return orr_session_fail(session);
    for (size_t i = 0; i < s->n_args; i++)
        if (describe_checkpoint(session, s->args[i]) != ORR_OK)
            return orr_session_fail(session);
    return orr_output_finish(session->out, &session->err) == ORR_OK ? EXIT_DONE
                                                                    : orr_session_fail(session);
}

int orr_command_validate(const orr_settings *settings)
{
    orr_session session;

    int code;
    if (orr_session_init(&session, settings) != ORR_OK)
        code = orr_session_fail(&session);
    else if (is_checkpoint(&session, settings->args[0]))
        code = validate_checkpoints(&session);
    else
        code = validate(&session);
    orr_session_done(&session);
    return code;
}
