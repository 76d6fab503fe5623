/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/explore.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/progress.h"
#include "cli/command/interrupt.h"
#include "io/transport/transport.h"
#include "report/explore/summary.h"
#include "report/explore/describe.h"

/* Of the processes that share a search one speaks: all of them find the same. */
static bool speaks(void)
{
    uint32_t rank = 0, n = 1;
    return !orr_launcher_ranks(&rank, &n) || rank == 0;
}

/* --- the search ------------------------------------------------------------------------------ */

typedef struct shower {
    orr_progress meter;
    orr_objective objective;
} shower;

static void show_progress(void *ctx, const orr_explore_progress *at)
{
    shower *s = ctx;
    int64_t elapsed_ns;
    char line[200];
    if (!orr_progress_due(&s->meter, &elapsed_ns))
        return;
    orr_explore_progress_line(at, s->objective, elapsed_ns, line, sizeof line);
    orr_progress_say(&s->meter, line);
}

static orr_status search(orr_explore_request *r)
{
    shower shown = {.objective = (orr_objective)r->options.objective};
    orr_progress_init(&shown.meter, "exploring", false, STDERR_FILENO,
                      r->session.settings->quiet || !speaks(), NULL);
    r->options.progress = show_progress;
    r->options.progress_ctx = &shown;
    r->options.stop = orr_interrupt_flag();
    const orr_status status = orr_explore(r->job.model, r->job.cluster, &r->options,
                                          r->session.arena, &r->exploration, &r->session.err);
    orr_progress_done(&shown.meter);
    r->options.progress = NULL;
    r->options.progress_ctx = NULL;
    return status;
}

/* --- why ------------------------------------------------------------------------------------- */

/* The first plans once more, whole. Of those behind the winner the graphs are not needed. */
static orr_status simulate_again(orr_explore_request *r)
{
    orr_job_options options;
    orr_job_options_init(&options);
    options.workload = r->options.workload;
    options.software_year = r->options.software_year;
    options.calibration = r->options.calibration;
    for (uint32_t i = 0; i < r->exploration.n && i < ORR_EXPLORE_SHOWN; i++) {
        orr_outcome outcome = {0};
        if (i > 0 && orr_interrupt_requested(NULL))
            break;
        ORR_TRY(orr_outcome_of(r->job.model, &r->exploration.best[i].plan, r->job.cluster, &options,
                               r->session.arena, &outcome, &r->session.err));
        r->outcomes[i] = outcome;
        r->n_outcomes = i + 1;
        if (i > 0) {
            orr_outcome_free(&outcome);
            r->outcomes[i].ensemble = NULL;
            r->outcomes[i].simulation = NULL;
            r->outcomes[i].job = NULL;
        }
    }
    return ORR_OK;
}

static orr_status ask_baselines(orr_explore_request *r)
{
    for (uint32_t i = 0; i < r->n_baselines && !orr_interrupt_requested(NULL); i++) {
        orr_error why = {0};
        orr_explore_baseline_plan *baseline_plan = &r->baseline_plans[i];
        baseline_plan->baseline = r->baselines[i];
        const orr_status status =
            orr_baseline_of((orr_baseline)baseline_plan->baseline, r->job.model, r->job.cluster,
                            &r->options, &baseline_plan->explored, &why);
        if (status == ORR_NO_MEMORY)
            return orr_fail_memory(&r->session.err);
        if (status != ORR_OK &&
            (baseline_plan->why_not = orr_arena_printf(r->session.arena, "%s", why.text)) == NULL)
            return orr_fail_memory(&r->session.err);
    }
    return ORR_OK;
}

/* Where no plan's objective is known there is nothing to decide, and for a plan in words alone
 * nothing to tell. */
static orr_status find_meaning(orr_explore_request *r)
{
    orr_decision_options how;
    if (r->session.settings->emit || strcmp(r->session.settings->format, "plan") == 0)
        return ORR_OK;
    orr_decision_options_init(&how);
    how.threads = r->options.threads;
    const orr_status status =
        orr_explore_answer_of(r->job.model, r->job.cluster, &r->options, &r->exploration, &how,
                              r->session.arena, &r->answer, &r->session.err);
    r->has_answer = status == ORR_OK;
    return status == ORR_INVALID ? ORR_OK : status;
}

static orr_status look_behind(orr_explore_request *r)
{
    if (r->exploration.n == 0)
        return orr_interrupt_requested(NULL) ? ORR_OK : find_meaning(r);
    ORR_TRY(orr_explore_network_ask(r));
    ORR_TRY(simulate_again(r));
    if (!orr_interrupt_requested(NULL)) {
        ORR_TRY(orr_explore_sensitivity(r->job.model, r->job.cluster, &r->options, &r->exploration,
                                        r->session.settings->sensitivity, r->session.arena,
                                        &r->sensitivity, &r->session.err));
        r->has_sensitivity = true;
    }
    if (!orr_interrupt_requested(NULL))
        ORR_TRY(find_meaning(r));
    return ask_baselines(r);
}

/* --- the answer ------------------------------------------------------------------------------ */

static orr_explore_report report_of(const orr_explore_request *r)
{
    return (orr_explore_report){
        .model = r->job.model,
        .cluster = r->job.cluster,
        .options = &r->options,
        .exploration = &r->exploration,
        .outcomes = r->outcomes,
        .n_outcomes = r->n_outcomes,
        .sensitivity = r->has_sensitivity ? &r->sensitivity : NULL,
        .baseline_plans = r->baseline_plans,
        .n_baseline_plans = r->n_outcomes > 0 ? r->n_baselines : 0,
        .interrupted = orr_interrupt_requested(NULL),
        .answer = r->has_answer ? &r->answer : NULL,
        .answers = r->questions.answers,
        .n_answers = r->questions.n_answers,
        .network = r->checks,
        .n_network = r->n_checks,
    };
}

/* People see what tells why; what a plan holds and rests on only with --all. */
static void print_text(orr_explore_request *r, const orr_table_style *style,
                       const orr_named_table *tables)
{
    static const char *const details[] = {"break_even", "search", "memory", "basis", "answers"};
    for (int i = 0; i < ORR_EXPLORE_TABLES; i++) {
        bool detail = false;
        for (size_t d = 0; d < sizeof details / sizeof *details; d++)
            detail |= strcmp(tables[i].name, details[d]) == 0;
        if (tables[i].table.n_rows == 0 || (detail && !r->session.settings->all))
            continue;
        orr_output_text(r->session.out, "\n");
        orr_table_write(&tables[i].table, style, r->session.out);
    }
}

/* Words for a script; where there are none a person is told why. */
static orr_status print_plan(orr_explore_request *r)
{
    const orr_exploration *x = &r->exploration;
    if (x->n == 0) {
        (void)fprintf(stderr, "orrery: no plan was found: %s\n",
                      x->infeasible != NULL ? x->infeasible : "stopped before one was");
        return ORR_OK;
    }
    const char *plan = orr_plan_short_text(&x->best[0].plan, r->session.arena);
    if (plan == NULL)
        return orr_fail_memory(&r->session.err);
    orr_output_printf(r->session.out, "%s\n", plan);
    return ORR_OK;
}

static orr_status print(orr_explore_request *r, const orr_explore_report *report)
{
    orr_session *session = &r->session;
    orr_table_style style;
    orr_named_table tables[ORR_EXPLORE_TABLES];
    if (session->settings->emit && r->exploration.n > 0)
        return orr_job_request_emit(&r->job, &r->exploration.best[0].plan);
    ORR_TRY(orr_explore_tables(report, session->arena, tables, &session->err));
    ORR_TRY(orr_session_output(session, &style));
    if (strcmp(session->settings->format, "plan") == 0) {
        ORR_TRY(print_plan(r));
    } else if (style.format == ORR_TABLE_JSON) {
        ORR_TRY(orr_explore_json(report, tables, session->arena, session->out, &session->err));
    } else if (style.format == ORR_TABLE_TEXT) {
        ORR_TRY(orr_explore_summary(report, session->arena, session->out, &session->err));
        print_text(r, &style, tables);
    } else {
        orr_session_tables(session, &style, tables, ORR_EXPLORE_TABLES, 0);
    }
    return orr_output_finish(session->out, &session->err);
}

static orr_status tell(orr_explore_request *r)
{
    const orr_explore_report report = report_of(r);
    const char *html = r->session.settings->html;
    if (html != NULL) {
        ORR_TRY(orr_explore_html(html, &report, &r->session.err));
        orr_session_remark(&r->session, "report written to %s", html);
    }
    return print(r, &report);
}

/* --- the command ----------------------------------------------------------------------------- */

static int done(orr_explore_request *r, int code)
{
    for (uint32_t i = 0; i < r->n_outcomes && i < 1; i++)
        orr_outcome_free(&r->outcomes[i]);
    orr_job_request_done(&r->job);
    orr_session_done(&r->session);
    return code;
}

static int fail(orr_explore_request *r, int code)
{
    if (speaks())
        orr_session_fail(&r->session);
    return done(r, code);
}

static void remark_batch(const orr_explore_request *r)
{
    if (r->batch_assumed && speaks())
        orr_session_remark(&r->session,
                           "16 Mi tokens a step, in samples of %u: assumed; --batch, "
                           "--tokens-per-step and --seq say otherwise",
                           r->options.workload.seq);
}

/* What a device costs is the catalogue's where nobody else says it. */
static void remark_price(const orr_explore_request *r)
{
    const orr_explore_options *o = &r->options;
    const orr_cluster *c = r->job.cluster;
    const bool cost = o->objective == ORR_OBJECTIVE_COST || o->second == ORR_OBJECTIVE_COST;
    for (uint32_t s = 0; cost && !(o->price_per_hour > 0) && (s == 0 || s < c->n_sites); s++) {
        const orr_device *d = c->n_sites > 0 ? c->sites[s].device : c->device;
        if (!isnan(d->price_per_hour.value) && speaks() &&
            (c->n_sites == 0 || isnan(c->sites[s].price_per_hour.value))) {
            orr_session_remark(&r->session,
                               "%s at %g USD an hour (%s), where no site says more; --price says "
                               "otherwise",
                               d->name, d->price_per_hour.value, d->price_per_hour.source);
            return;
        }
    }
}

static int code_of(const orr_explore_request *r)
{
    if (orr_interrupt_requested(NULL))
        return 128 + orr_interrupt_signal();
    if (r->exploration.n > 0)
        return EXIT_DONE;
    return r->exploration.complete ? EXIT_INFEASIBLE : EXIT_CONDITION;
}

/* What may stand alone. */
static int print_effects(orr_explore_request *r)
{
    return orr_explore_print_effects(&r->session) == ORR_OK ? done(r, EXIT_DONE)
                                                            : fail(r, EXIT_INPUT);
}

int orr_command_explore(const orr_settings *settings)
{
    orr_explore_request r = {0};
    if (orr_session_init(&r.session, settings) != ORR_OK)
        return fail(&r, EXIT_INPUT);
    if (settings->effects)
        return print_effects(&r);
    if (orr_explore_request_read(&r) != ORR_OK)
        return fail(&r, orr_job_exit_code_of_input(r.session.err.status));
    remark_batch(&r);
    remark_price(&r);
    orr_interrupt_watch();
    if (search(&r) != ORR_OK)
        return fail(&r, orr_job_exit_code_of_input(r.session.err.status));
    for (uint32_t i = 0; i < r.exploration.n_remarks && speaks(); i++)
        orr_session_remark(&r.session, "%s", r.exploration.remarks[i]);
    if (speaks() && orr_explore_ask(&r) != ORR_OK)
        return fail(&r, orr_job_exit_code_of_input(r.session.err.status));
    if (speaks() && (look_behind(&r) != ORR_OK || tell(&r) != ORR_OK))
        return fail(&r, EXIT_INPUT);
    return done(&r, code_of(&r));
}
