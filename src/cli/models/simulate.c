/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/models/simulate.h"

#include <stdio.h>
#include <string.h>

#include "model/plan/plan.h"
#include "cli/arguments/job.h"

/* What `explore` searches and a plan may leave open. */
static void tell_crossing(const orr_job_request *r)
{
    const orr_cluster *cluster = r->outcome.cluster;
    const orr_plan *plan = &r->outcome.plan;
    if (cluster->n_sites < 2 || r->plan.cross != 0 || orr_plan_has_sites(&r->plan) ||
        r->outcome.n_ranks <= cluster->sites[0].devices)
        return;
    orr_session_remark(r->session,
                       "the plan does not say what crosses sites: cross=%s, and sites are filled "
                       "in order; orrery explore searches for what is best",
                       plan->cross == ORR_CROSS_PP ? "pp" : "dp");
}

static orr_status print_tables(const orr_job_request *r, orr_job_summary_hook *remark, void *ctx)
{
    orr_session *session = r->session;
    orr_table_style style;
    orr_named_table tables[ORR_OUTCOME_TABLES];
    tell_crossing(r);
    if (session->settings->emit && !r->outcome.memory.fits)
        orr_session_remark(session, "the plan's memory does not fit");
    if (session->settings->emit)
        return orr_job_request_emit(r, &r->plan);
    ORR_TRY(orr_outcome_tables(&r->outcome, session->arena, tables, &session->err));
    ORR_TRY(orr_session_output(session, &style));
    orr_output *out = session->out;
    if (style.format == ORR_TABLE_JSON)
        orr_output_printf(
            out, "{\"schema\":\"orrery.outcome/1\",\"version\":\"%s\",\"fits\":%s,\"tables\":{",
            orr_version(), r->outcome.memory.fits ? "true" : "false");
    else if (style.format == ORR_TABLE_TEXT)
        orr_job_request_summary(r, out);
    if (style.format == ORR_TABLE_TEXT && remark != NULL)
        remark(r, ctx);
    if (style.format == ORR_TABLE_TEXT)
        orr_output_text(out, "\n");
    /* What the first table says stands in the lines above it. */
    orr_session_tables(session, &style, tables, ORR_OUTCOME_TABLES,
                       style.format == ORR_TABLE_TEXT ? 1 : 0);
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(out, "}}\n");
    return orr_output_finish(out, &session->err);
}

static orr_status write_timeline(const orr_job_request *r)
{
    orr_session *session = r->session;
    const char *path = session->settings->trace;
    const orr_job *job;
    ORR_TRY(orr_simulation_job(r->outcome.simulation, NULL, &job, &session->err));
    const orr_status status = orr_job_write(path, orr_format_from_path(path), job, &session->err);
    orr_job_free(job);
    return status;
}

static orr_status write_page(const orr_job_request *r)
{
    orr_session *session = r->session;
    ORR_TRY(orr_plan_html(session->settings->html, &r->outcome, NULL, &session->err));
    orr_session_remark(session, "report written to %s", session->settings->html);
    return ORR_OK;
}

static orr_status write_all(const orr_job_request *r)
{
    const orr_settings *settings = r->session->settings;
    if (settings->trace)
        ORR_TRY(write_timeline(r));
    if (settings->ranks_as_trace)
        ORR_TRY(orr_simulate_write_rank_traces(r));
    return settings->html ? write_page(r) : ORR_OK;
}

static int fail(orr_session *session, orr_job_request *r, int code)
{
    orr_session_fail(session);
    orr_job_request_done(r);
    orr_session_done(session);
    return code;
}

static orr_status check_timeline(orr_session *session)
{
    const char *path = session->settings->trace;
    const orr_format format = path ? orr_format_from_path(path) : ORR_FORMAT_PERFETTO;
    return format == ORR_FORMAT_PERFETTO || format == ORR_FORMAT_CHROME
               ? ORR_OK
               : orr_fail(&session->err, ORR_INVALID, "--trace %s: .pftrace or .json", path);
}

int orr_simulate_spec(const orr_settings *settings, const orr_job_spec *words,
                      orr_job_summary_hook *remark, void *ctx)
{
    orr_session session;
    orr_job_request r = {0};
    if (orr_session_init(&session, settings) != ORR_OK || check_timeline(&session) != ORR_OK ||
        orr_job_request_read(&session, words, &r) != ORR_OK)
        return fail(&session, &r, orr_job_exit_code_of_input(session.err.status));
    if (orr_job_request_run(&r) != ORR_OK)
        return fail(&session, &r, orr_job_exit_code_of_plan(session.err.status));
    if (write_all(&r) != ORR_OK || print_tables(&r, remark, ctx) != ORR_OK)
        return fail(&session, &r, EXIT_INPUT);
    const bool fits = r.outcome.memory.fits;
    orr_job_request_done(&r);
    orr_session_done(&session);
    return fits ? EXIT_DONE : EXIT_INFEASIBLE;
}

int orr_command_simulate(const orr_settings *settings)
{
    if (settings->n_args == 0)
        return orr_simulate_astra(settings);
    if (settings->task != NULL && strcmp(settings->task, "serve") == 0)
        return orr_simulate_serve(settings);
    const orr_job_spec words = {settings->args[0], settings->cluster, settings->plan};
    return orr_simulate_spec(settings, &words, NULL, NULL);
}
