/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/experts.h"

#include <string.h>

#include "cli/arguments/job.h"
#include "cli/command/interrupt.h"

/* What is told, made before anything of it is written: memory that fails leaves no file. */
typedef struct answer {
    orr_named_table tables[ORR_EXPERTS_TABLES];
    uint32_t n;
    orr_table_style style;
} answer;

/* People read the figures in the lines above the tables, and fewer columns. */
static orr_status without_details(orr_table *table, orr_arena *arena, orr_error *err)
{
    static const char *const details[] = {
        "unused",       "pair_frac",       "pair_noise",          "next_baseline_frac",
        "next_bits",    "imbalance_p95",   "doubled_slots",       "imbalance_p95_without",
        "tail_without", "bound_imbalance", "network_frac",        "dispatches_without",
        "served_mean",  "worst_layer",     "worst_layer_without",
    };
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

static orr_status open_output(orr_session *session, bool has_placement, orr_table_style *ret_style)
{
    const orr_settings *settings = session->settings;
    orr_settings to_stdout = *settings;
    if (has_placement) /* that goes to --output */
        to_stdout.output = NULL;
    session->settings = &to_stdout;
    const orr_status status = orr_session_output(session, ret_style);
    session->settings = settings;
    return status;
}

static orr_status prepare(orr_experts_request *r, answer *ret)
{
    orr_session *session = &r->session;
    ORR_TRY(orr_experts_tables(&r->report, session->arena, ret->tables, &ret->n, &session->err));
    ORR_TRY(open_output(session, r->cluster != NULL, &ret->style));
    for (uint32_t i = 0; i < ret->n && ret->style.format == ORR_TABLE_TEXT; i++)
        if (!session->settings->all)
            ORR_TRY(without_details(&ret->tables[i].table, session->arena, &session->err));
    return ORR_OK;
}

static orr_status write_files(orr_experts_request *r)
{
    orr_session *session = &r->session;
    const orr_settings *settings = session->settings;
    const orr_experts_plan *plan = r->report.n_plans > 0 ? &r->report.plans[0] : NULL;
    if (settings->html != NULL) {
        ORR_TRY(orr_experts_html(settings->html, &r->report, &session->err));
        orr_session_remark(session, "report written to %s", settings->html);
    }
    if (plan == NULL || settings->output == NULL || plan->refused != NULL)
        return ORR_OK;
    ORR_TRY(orr_expert_placement_write(&plan->result.placement, r->format, settings->output,
                                       &session->err));
    orr_session_remark(session, "placement written to %s", settings->output);
    return ORR_OK;
}

static bool is_named(const orr_named_table *table, const char *name)
{
    return strcmp(table->name, name) == 0;
}

/* Of a placement people see its own tables; --all, those of the routes too. Figures over layers and
 * policies are few, and shown whole. */
static void print_text(const orr_experts_request *r, const answer *a)
{
    orr_output *out = r->session.out;
    const bool placed = r->report.n_plans > 0, all = r->session.settings->all;
    orr_experts_summary(&r->report, out);
    for (uint32_t i = 0; i < a->n; i++) {
        const orr_named_table *t = &a->tables[i];
        const bool of_plan = placed && i < ORR_EXPERTS_PLAN_TABLES;
        orr_table_style style = a->style;
        if (t->table.n_rows == 0 || is_named(t, "figures") ||
            (placed && !of_plan && !is_named(t, "windows") && !all))
            continue;
        if (is_named(t, "spread") || is_named(t, "policies"))
            style.max_rows = 0;
        orr_output_text(out, "\n");
        orr_table_write(&t->table, &style, out);
    }
}

static orr_status tell(orr_experts_request *r)
{
    orr_session *session = &r->session;
    answer a;
    ORR_TRY(prepare(r, &a));
    ORR_TRY(write_files(r));
    if (a.style.format == ORR_TABLE_JSON)
        orr_experts_json(&r->report, a.tables, a.n, session->out);
    else if (a.style.format == ORR_TABLE_TEXT)
        print_text(r, &a);
    else
        orr_session_tables(session, &a.style, a.tables, a.n, 0);
    return orr_output_finish(session->out, &session->err);
}

/* --- the command ------------------------------------------------------------------------------ */

static int finish(orr_experts_request *r, int code)
{
    orr_session_done(&r->session);
    return code;
}

static int fail(orr_experts_request *r, int code)
{
    orr_session_fail(&r->session);
    return finish(r, code);
}

/* A placement that cannot be, or one that lacks experts. */
static bool is_infeasible(const orr_experts_request *r)
{
    return r->report.n_plans > 0 &&
           (r->report.plans[0].refused != NULL || r->report.plans[0].result.n_missing > 0);
}

int orr_command_experts(const orr_settings *settings)
{
    orr_experts_request r = {0};
    orr_interrupt_watch();
    if (orr_session_init(&r.session, settings) != ORR_OK ||
        orr_experts_request_read(&r) != ORR_OK || orr_experts_request_answer(&r) != ORR_OK) {
        const orr_status status = r.session.err.status;
        return status == ORR_CANCELED ? finish(&r, 128 + orr_interrupt_signal())
                                      : fail(&r, orr_job_exit_code_of_input(status));
    }
    if (tell(&r) != ORR_OK)
        return fail(&r, EXIT_INPUT);
    if (orr_interrupt_requested(NULL))
        return finish(&r, 128 + orr_interrupt_signal());
    return finish(&r, is_infeasible(&r) ? EXIT_INFEASIBLE : EXIT_DONE);
}
