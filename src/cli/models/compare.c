/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/arguments/job.h"
#include "estimate/order.h"
#include "report/humanize/human.h"

enum { JOBS = 2 };
typedef struct comparison {
    orr_session session;
    orr_job_request jobs[JOBS];
    orr_order order; /* n 0: not known */
} comparison;

#define C(name, type)                                                                              \
    {                                                                                              \
#name, ORR_COLUMN_##type, offsetof(orr_order_row, name)                                    \
    }
static const orr_column ORDER_COLUMNS[] = {
    C(parameter, TEXT),   C(low, NUMBER),        C(high, NUMBER),
    C(ratio_low, NUMBER), C(ratio_high, NUMBER), C(turns, BOOL),
};
#undef C

static orr_status read_jobs(comparison *c)
{
    const orr_settings *settings = c->session.settings;
    const orr_job_spec otherwise = {settings->model, settings->cluster, settings->plan};
    for (int i = 0; i < JOBS; i++) {
        orr_job_spec words;
        ORR_TRY(orr_job_spec_parse(settings->args[i], &otherwise, c->session.arena, &words,
                                   &c->session.err));
        ORR_TRY(orr_job_request_read(&c->session, &words, &c->jobs[i]));
    }
    return ORR_OK;
}

/* Which of the two is faster may rest on a parameter that was not measured well enough. */
static void tell_order(const comparison *c, orr_output *out)
{
    const orr_order *order = &c->order;
    if (order->n == 0)
        return;
    if (order->n_turns == 0) {
        orr_output_text(out, "which is faster does not depend on any parameter of the "
                             "calibration within its interval\n\n");
        return;
    }
    orr_output_text(out, "a tie: within their intervals these turn the order:");
    for (uint32_t i = 0, n = 0; i < order->n; i++)
        if (order->rows[i].turns)
            orr_output_printf(out, "%s %s (%.4g to %.4g)", n++ > 0 ? "," : "",
                              order->rows[i].parameter, order->rows[i].low, order->rows[i].high);
    orr_output_text(out, "\n\n");
}

static void tell(const comparison *c, orr_output *out)
{
    for (int i = 0; i < JOBS; i++) {
        orr_output_printf(out, "%c: ", 'A' + i);
        orr_job_request_summary(&c->jobs[i], out);
        orr_output_text(out, "\n");
    }
    const double a = (double)c->jobs[0].outcome.step_ns, b = (double)c->jobs[1].outcome.step_ns;
    const orr_outcome *first = &c->jobs[0].outcome, *second = &c->jobs[1].outcome;
    const double tokens = second->tokens_per_s / first->tokens_per_s;
    orr_output_printf(out, "B takes %.3f times as long a step as A, at %.3f times the %s\n\n",
                      b / a,
                      isfinite(tokens) ? tokens : second->samples_per_s / first->samples_per_s,
                      isfinite(tokens) ? "tokens/s" : "samples/s");
    tell_order(c, out);
}

static orr_status print(comparison *c)
{
    orr_session *session = &c->session;
    orr_table_style style;
    orr_named_table tables[ORR_COMPARISON_TABLES + 1];
    ORR_TRY(orr_comparison_tables(&c->jobs[0].outcome, &c->jobs[1].outcome, session->arena, tables,
                                  &session->err));
    tables[ORR_COMPARISON_TABLES] = (orr_named_table){
        "order",
        {"orrery.order/1", "step of B over A, a parameter at the ends of its interval",
         ORDER_COLUMNS, sizeof ORDER_COLUMNS / sizeof *ORDER_COLUMNS, c->order.rows,
         sizeof *c->order.rows, c->order.n}};
    ORR_TRY(orr_session_output(session, &style));
    if (style.format == ORR_TABLE_JSON)
        orr_output_printf(session->out,
                          "{\"schema\":\"orrery.comparison/1\",\"version\":\"%s\",\"tables\":{",
                          orr_version());
    else if (style.format == ORR_TABLE_TEXT)
        tell(c, session->out);
    orr_session_tables(session, &style, tables,
                       ORR_COMPARISON_TABLES + (style.format == ORR_TABLE_JSON), 0);
    if (style.format == ORR_TABLE_JSON)
        orr_output_text(session->out, "}}\n");
    return orr_output_finish(session->out, &session->err);
}

/* Of training steps on one device; of others it is not known. */
static void find_order(comparison *c)
{
    orr_error ignored;
    orr_order_job jobs[JOBS];
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (orr_order_job){c->jobs[i].model, &c->jobs[i].plan, c->jobs[i].cluster};
    if (orr_order_of(jobs, &c->jobs[0].options, c->session.arena, &c->order, &ignored) != ORR_OK)
        c->order = (orr_order){0};
}

static orr_status run(comparison *c)
{
    for (int i = 0; i < JOBS; i++)
        ORR_TRY(orr_job_request_run(&c->jobs[i]));
    find_order(c);
    return ORR_OK;
}

static orr_status write_page(comparison *c)
{
    const char *path = c->session.settings->html;
    if (path == NULL)
        return ORR_OK;
    ORR_TRY(orr_plan_html(path, &c->jobs[0].outcome, &c->jobs[1].outcome, &c->session.err));
    orr_session_remark(&c->session, "report written to %s", path);
    return ORR_OK;
}

int orr_command_compare(const orr_settings *settings)
{
    comparison c = {0};
    int code = EXIT_DONE;
    if (orr_session_init(&c.session, settings) != ORR_OK || read_jobs(&c) != ORR_OK) {
        orr_session_fail(&c.session);
        code = orr_job_exit_code_of_input(c.session.err.status);
    } else if (run(&c) != ORR_OK) {
        orr_session_fail(&c.session);
        code = orr_job_exit_code_of_plan(c.session.err.status);
    } else if (write_page(&c) != ORR_OK || print(&c) != ORR_OK) {
        code = orr_session_fail(&c.session);
    }
    for (int i = 0; i < JOBS; i++)
        orr_job_request_done(&c.jobs[i]);
    orr_session_done(&c.session);
    return code;
}
