/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "cli/traces/condition.h"
#include "cli/command/help.h"
#include "cli/command/option.h"
#include "cli/command/session.h"
#include "io/json/writer.h"

/* What a person is shown unless asked otherwise: the most telling tables, in this order. */
static const char *const DIGEST[] = {
    "temporal_breakdown", "critical_path",        "gpu_kernel_breakdown",
    "gpu_kernels",        "idle_time_breakdown",  "exposed_communication",
    "collective_summary", "potential_stragglers", "memory_summary",
};

static bool in_digest(const orr_analysis *analysis)
{
    for (size_t i = 0; i < sizeof DIGEST / sizeof *DIGEST; i++)
        if (strcmp(DIGEST[i], analysis->name) == 0)
            return true;
    return false;
}

static bool in_list(const char *list, const char *name)
{
    const size_t n = strlen(name);

    for (const char *at = list; *at;) {
        const size_t len = strcspn(at, ",");
        if (len == n && memcmp(at, name, n) == 0)
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

/* --only may name an analysis that is not there. */
static orr_status check_only(const char *list, orr_error *err)
{
    for (const char *at = list; *at;) {
        const size_t len = strcspn(at, ",");
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)len, at);
        if (len && !orr_analysis_find(word))
            return orr_condition_unknown_analysis("--only", word, err);
        at += len + (at[len] == ',');
    }
    return ORR_OK;
}

static bool is_wanted(const orr_settings *settings, const orr_analysis *analysis)
{
    if (settings->only)
        return in_list(settings->only, analysis->name);
    if (settings->all || strcmp(settings->format, "table") != 0)
        return !analysis->series;
    return in_digest(analysis);
}

static int list_analyses(void)
{
    size_t n;
    const orr_analysis *all = orr_analyses(&n);

    for (size_t i = 0; i < n; i++)
        printf("%-32s%s\n", all[i].name, all[i].about);
    return EXIT_DONE;
}

static void begin_document(const orr_session *session, const orr_table_style *style)
{
    const orr_job *job = session->job;

    if (style->format == ORR_TABLE_JSON) {
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.analyze/1\",\"version\":\"%s\",\"ranks\":%u,"
                          "\"recorded_ranks\":%u,\"tables\":{",
                          orr_version(), job->n_ranks, job->n_graphs);
    } else if (style->format == ORR_TABLE_TEXT) {
        uint64_t nodes = 0;
        for (uint32_t g = 0; g < job->n_graphs; g++)
            nodes += job->graphs[g]->n_nodes;
        orr_output_printf(session->out,
                          "%u of %u ranks recorded, %llu nodes, %u matched collectives\n\n",
                          job->n_graphs, job->n_ranks, (unsigned long long)nodes, job->n_matches);
    }
}

static void print_table(orr_session *session, const char *name, const orr_table *table,
                        const orr_table_style *style, size_t *n_printed)
{
    if (style->format == ORR_TABLE_JSON)
        orr_output_printf(session->out, "%s\n\"%s\":", *n_printed ? "," : "", name);
    else if (*n_printed)
        orr_output_text(session->out, "\n");
    orr_table_write(table, style, session->out);
    *n_printed += 1;
}

/* One analysis: its table printed, its rows held against the condition. */
static orr_status run_one(orr_session *session, const orr_analysis *analysis,
                          const orr_table_style *style, size_t *n_printed, orr_condition *condition)
{
    orr_table table;
    const orr_arena_mark mark = orr_arena_get_mark(session->arena);
    const bool wanted = is_wanted(session->settings, analysis);

    if (!wanted && !orr_condition_applies_to(condition, analysis->name))
        return ORR_OK;
    ORR_TRY(analysis->run(session->job, &session->analysis, session->arena, &table, &session->err));
    ORR_TRY(orr_condition_check(condition, analysis->name, &table, &session->err));
    if (wanted && (table.n_rows || style->format == ORR_TABLE_JSON || session->settings->only))
        print_table(session, analysis->name, &table, style, n_printed);
    orr_arena_rewind(session->arena, mark);
    return ORR_OK;
}

/* The threads that analyses leave out, where there are any. */
static orr_status print_pollers(orr_session *session, const orr_table_style *style,
                                size_t *n_printed)
{
    orr_table pollers;
    if (session->settings->only)
        return ORR_OK;
    ORR_TRY(orr_pollers_table(session->job, session->arena, &pollers, &session->err));
    if (pollers.n_rows > 0)
        print_table(session, "pollers", &pollers, style, n_printed);
    return ORR_OK;
}

/* --rank may name a rank that is not there. */
static orr_status check_rank(orr_session *session)
{
    const orr_job *job = session->job;
    const uint32_t rank = session->analysis.rank;

    if (rank == ORR_NONE || (rank < job->n_ranks && job->graph_of_rank[rank] != ORR_NONE))
        return ORR_OK;
    return orr_fail(&session->err, ORR_NOT_FOUND, "rank %u is not recorded; the job has %u ranks",
                    rank, job->n_ranks);
}

static orr_status run_all(orr_session *session, orr_condition *condition)
{
    size_t n, n_printed = 0;
    const orr_analysis *all = orr_analyses(&n);
    orr_table_style style;

    ORR_TRY(orr_session_output(session, &style));
    begin_document(session, &style);
    for (size_t i = 0; i < n; i++)
        ORR_TRY(run_one(session, &all[i], &style, &n_printed, condition));
    ORR_TRY(print_pollers(session, &style, &n_printed));
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}\n");
    return orr_output_finish(session->out, &session->err);
}

/* The last part of the first input's path heads the page. NULL: out of memory. */
static const char *page_title(const orr_session *session)
{
    size_t len;
    const char *last = orr_path_basename(session->settings->args[0], &len);
    return orr_arena_strndup(session->arena, last, len);
}

static orr_status write_page(orr_session *session)
{
    const orr_trace_html_options page = {.struct_bytes = sizeof page, .title = page_title(session)};

    if (!page.title)
        return orr_fail_memory(&session->err);

    ORR_TRY(orr_trace_html(session->settings->html, session->job, &session->analysis, &page,
                           &session->err));
    orr_session_remark(session, "report written to %s", session->settings->html);
    return ORR_OK;
}

int orr_command_analyze(const orr_settings *settings)
{
    orr_session session;
    orr_condition condition;
    int code = EXIT_DONE;

    if (settings->only && strcmp(settings->only, "list") == 0)
        return list_analyses();
    if (settings->n_args == 0)
        return orr_help_usage(orr_command_find("analyze"));
    if (orr_session_init(&session, settings) != ORR_OK) {
        code = orr_session_fail(&session);
    } else if ((settings->only && check_only(settings->only, &session.err) != ORR_OK) ||
               orr_session_analysis(&session) != ORR_OK ||
               orr_condition_parse(settings->fail_if, &condition, &session.err) != ORR_OK) {
        orr_session_fail(&session);
        code = EXIT_USAGE;
    } else if (orr_session_load(&session, settings->args, settings->n_args) != ORR_OK ||
               check_rank(&session) != ORR_OK || run_all(&session, &condition) != ORR_OK ||
               (settings->html && write_page(&session) != ORR_OK)) {
        code = orr_session_fail(&session);
        if (condition.refused)
            code = EXIT_USAGE;
    } else if (condition.held) {
        orr_session_remark(&session, "condition holds: %s", condition.finding);
        code = EXIT_CONDITION;
    }
    orr_session_done(&session);
    return code;
}
