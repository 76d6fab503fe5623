/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/tables.h"

#include <stdio.h>
#include <string.h>

#include "cli/arguments/job.h"
#include "cli/command/interrupt.h"
#include "report/sharding/parts.h"

static orr_status plan_and_price(orr_tables_request *r)
{
    orr_session *session = &r->session;
    r->options.stop = orr_interrupt_flag();
    if (session->settings->verbose)
        orr_session_remark(session, "planning %u tables over %u ranks", r->options.n_tables,
                           r->options.ranks);
    ORR_TRY(orr_plan_tables(&r->options, session->arena, &r->best, &session->err));
    r->best.plan.groups = r->groups; /* all alike */
    r->best.plan.synchronize = r->synchronize;
    return r->has_given ? orr_price_table_plan(&r->options, &r->given_plan, session->arena,
                                               &r->given, &session->err)
                        : ORR_OK;
}

/* --- the answer ------------------------------------------------------------------------------- */

/* What is told, made before anything of it is written: memory that fails leaves no file. */
typedef struct answer {
    orr_sharding_report report;
    const char *plan; /* text of its file; "": there is none */
    orr_named_table tables[ORR_SHARDING_TABLES];
    orr_table_style style;
} answer;

/* People are told of other kinds in the sentence of each table. */
static orr_status without_details(orr_table *table, orr_arena *arena, orr_error *err)
{
    static const char *const details[] = {"bound_by", "other_kind", "other_ns"};
    orr_column *columns = orr_arena_array(arena, orr_column, table->n_columns);
    size_t n = 0;
    if (columns == NULL)
        return orr_fail_memory(err);
    for (size_t c = 0; c < table->n_columns; c++) {
        bool detail = false;
        for (size_t d = 0; d < sizeof details / sizeof *details; d++)
            detail |= strcmp(table->columns[c].name, details[d]) == 0;
        if (!detail)
            columns[n++] = table->columns[c];
    }
    table->columns = columns;
    table->n_columns = n;
    return ORR_OK;
}

static orr_status open_output(orr_session *session, orr_table_style *ret_style)
{
    const orr_settings *settings = session->settings;
    orr_settings to_stdout = *settings;
    to_stdout.output = NULL; /* that is where the plan goes */
    session->settings = &to_stdout;
    const orr_status status = orr_session_output(session, ret_style);
    session->settings = settings;
    return status;
}

static orr_status prepare(orr_tables_request *r, answer *ret)
{
    orr_session *session = &r->session;
    orr_error *err = &session->err;
    ret->report = (orr_sharding_report){.model = r->model,
                                        .cluster = r->cluster,
                                        .options = &r->options,
                                        .groups = r->groups,
                                        .best = &r->best,
                                        .given = r->has_given ? &r->given : NULL,
                                        .interrupted = orr_interrupt_requested(NULL)};
    ret->plan =
        r->best.infeasible == NULL ? orr_embedding_plan_text(&r->best.plan, session->arena) : "";
    if (ret->plan == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_sharding_tables(&ret->report, session->arena, ret->tables, err));
    ORR_TRY(open_output(session, &ret->style));
    for (int i = 0; i < ORR_SHARDING_TABLES && ret->style.format == ORR_TABLE_TEXT; i++)
        ORR_TRY(without_details(&ret->tables[i].table, session->arena, err));
    return ORR_OK;
}

/* The file is replaced as a whole, or left as it was. */
static orr_status write_plan(orr_session *session, const char *text)
{
    const char *path = session->settings->output;
    orr_output *out;
    ORR_TRY(orr_output_open(path, &out, &session->err));
    orr_output_text(out, text);
    const orr_status status = orr_output_finish(out, &session->err);
    orr_output_close(out);
    ORR_TRY(status);
    orr_session_remark(session, "plan written to %s", path);
    return ORR_OK;
}

static orr_status write_files(orr_session *session, const answer *a)
{
    const orr_settings *settings = session->settings;
    if (settings->html != NULL) {
        ORR_TRY(orr_sharding_html(settings->html, &a->report, &session->err));
        orr_session_remark(session, "report written to %s", settings->html);
    }
    return settings->output != NULL && *a->plan != '\0' ? write_plan(session, a->plan) : ORR_OK;
}

/* Figures, the first table, stand in the lines above the others. */
static void print_text(orr_session *session, const answer *a)
{
    orr_sharding_summary(&a->report, session->out);
    for (int i = 1; i < ORR_SHARDING_TABLES; i++) {
        if (a->tables[i].table.n_rows == 0)
            continue;
        orr_output_text(session->out, "\n");
        orr_table_write(&a->tables[i].table, &a->style, session->out);
    }
}

/* Where there is no plan, a script that asked for one is told why. */
static orr_status print(orr_session *session, const answer *a)
{
    if (strcmp(session->settings->format, "plan") == 0) {
        orr_output_text(session->out, a->plan);
        if (*a->plan == '\0')
            (void)fprintf(stderr, "orrery: no plan: %s\n",
                          orr_session_printable(session, a->report.best->infeasible));
    } else if (a->style.format == ORR_TABLE_JSON) {
        orr_sharding_json(&a->report, a->tables, session->out);
    } else if (a->style.format == ORR_TABLE_TEXT) {
        print_text(session, a);
    } else {
        orr_session_tables(session, &a->style, a->tables, ORR_SHARDING_TABLES, 0);
    }
    return orr_output_finish(session->out, &session->err);
}

static orr_status tell(orr_tables_request *r)
{
    answer a;
    ORR_TRY(prepare(r, &a));
    ORR_TRY(write_files(&r->session, &a));
    return print(&r->session, &a);
}

/* --- the command ------------------------------------------------------------------------------ */

static int finish(orr_tables_request *r, int code)
{
    orr_session_done(&r->session);
    return code;
}

static int fail(orr_tables_request *r, int code)
{
    orr_session_fail(&r->session);
    return finish(r, code);
}

int orr_command_tables(const orr_settings *settings)
{
    orr_tables_request r = {0};
    if (orr_session_init(&r.session, settings) != ORR_OK || orr_tables_request_read(&r) != ORR_OK)
        return fail(&r, orr_job_exit_code_of_input(r.session.err.status));
    orr_interrupt_watch();
    if (plan_and_price(&r) != ORR_OK)
        return fail(&r, orr_job_exit_code_of_input(r.session.err.status));
    if (tell(&r) != ORR_OK)
        return fail(&r, EXIT_INPUT);
    if (orr_interrupt_requested(NULL))
        return finish(&r, 128 + orr_interrupt_signal());
    return finish(&r, r.best.infeasible == NULL ? EXIT_DONE : EXIT_INFEASIBLE);
}
