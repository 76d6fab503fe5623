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
    return r->has_given ? orr_price_table_plan(&r->options, &r->given_plan, session->arena,
                                               &r->given, &session->err)
                        : ORR_OK;
}

/* --- the answer ------------------------------------------------------------------------------- */

/* The file is replaced as a whole, or left as it was. */
static orr_status write_plan(orr_tables_request *r, const char *text)
{
    orr_session *session = &r->session;
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

/* Figures, the first table, stand in the lines above. */
static orr_status print_text(orr_tables_request *r, const orr_sharding_report *report,
                             const orr_table_style *style, orr_named_table *tables)
{
    orr_session *session = &r->session;
    orr_sharding_summary(report, session->out);
    for (int i = 1; i < ORR_SHARDING_TABLES; i++) {
        if (tables[i].table.n_rows == 0)
            continue;
        ORR_TRY(without_details(&tables[i].table, session->arena, &session->err));
        orr_output_text(session->out, "\n");
        orr_table_write(&tables[i].table, style, session->out);
    }
    return ORR_OK;
}

static orr_status print(orr_tables_request *r, const orr_sharding_report *report, const char *plan)
{
    orr_session *session = &r->session;
    orr_table_style style;
    orr_named_table tables[ORR_SHARDING_TABLES];
    const orr_settings *settings = session->settings;
    orr_settings to_stdout = *settings;
    to_stdout.output = NULL; /* that is where the plan goes */
    ORR_TRY(orr_sharding_tables(report, session->arena, tables, &session->err));
    session->settings = &to_stdout;
    const orr_status status = orr_session_output(session, &style);
    session->settings = settings;
    ORR_TRY(status);
    if (strcmp(settings->format, "plan") == 0)
        orr_output_text(session->out, plan);
    else if (style.format == ORR_TABLE_JSON)
        orr_sharding_json(report, tables, session->out);
    else if (style.format == ORR_TABLE_TEXT)
        ORR_TRY(print_text(r, report, &style, tables));
    else
        orr_session_tables(session, &style, tables, ORR_SHARDING_TABLES, 0);
    return orr_output_finish(session->out, &session->err);
}

/* Where there is no plan, a script that asked for one is told why. */
static orr_status tell(orr_tables_request *r)
{
    orr_session *session = &r->session;
    const orr_settings *settings = session->settings;
    const bool found = r->best.infeasible == NULL;
    const orr_sharding_report report = {.model = r->model,
                                        .cluster = r->cluster,
                                        .options = &r->options,
                                        .best = &r->best,
                                        .given = r->has_given ? &r->given : NULL,
                                        .interrupted = orr_interrupt_requested(NULL)};
    const char *plan = found ? orr_embedding_plan_text(&r->best.plan, session->arena) : "";
    if (plan == NULL)
        return orr_fail_memory(&session->err);
    if (settings->output != NULL && found)
        ORR_TRY(write_plan(r, plan));
    if (settings->html != NULL) {
        ORR_TRY(orr_sharding_html(settings->html, &report, &session->err));
        orr_session_remark(session, "report written to %s", settings->html);
    }
    if (!found && strcmp(settings->format, "plan") == 0)
        (void)fprintf(stderr, "orrery: no plan: %s\n",
                      orr_session_printable(session, r->best.infeasible));
    return print(r, &report, plan);
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
