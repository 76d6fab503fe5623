/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/explore/svg.h"
#include "report/explore/tables.h"
#include "report/explore/describe.h"
#include "report/explore/questions.h"
#include "report/page/page.h"
#include "report/plan/svg.h"

static const orr_explore_report *report_of(const orr_html_page *p)
{
    return p->subject;
}
static orr_objective objective_of(const orr_html_page *p)
{
    return (orr_objective)report_of(p)->options->objective;
}
static const orr_explored *winner_of(const orr_html_page *p)
{
    return report_of(p)->exploration->n > 0 ? &report_of(p)->exploration->best[0] : NULL;
}
static bool has_front(const orr_html_page *p)
{
    return report_of(p)->exploration->n_front > 0 && report_of(p)->options->second < ORR_OBJECTIVES;
}

/* --- head ------------------------------------------------------------------------------------ */

static bool has_changes(const orr_html_page *p)
{
    return report_of(p)->sensitivity != NULL && report_of(p)->sensitivity->n_changes > 0;
}

static void put_about(const orr_html_page *p)
{
    const orr_cluster *cluster = report_of(p)->cluster;
    char many[ORR_HUMAN_MAX];
    orr_html_printf(p->out, "least %s, on %s: %s devices", orr_objective_about(objective_of(p)),
                    cluster->name, orr_human_count(many, cluster->n_devices));
}

static void put_nav(const orr_html_page *p)
{
    if (winner_of(p) != NULL) {
        orr_html_link(p->out, "answer", "Answer");
        if (report_of(p)->answer != NULL)
            orr_html_link(p->out, "set", "Set");
        orr_html_link(p->out, "why", "Why");
    }
    if (report_of(p)->n_answers > 0)
        orr_html_link(p->out, "questions", "Questions");
    if (has_front(p))
        orr_html_link(p->out, "front", "Front");
    if (has_changes(p))
        orr_html_link(p->out, "sensitivity", "What if");
    if (report_of(p)->n_baseline_plans > 0)
        orr_html_link(p->out, "baselines", "Others");
    orr_html_link(p->out, "space", "Search");
    orr_html_link(p->out, "tables", "Tables");
}

/* --- the answer ------------------------------------------------------------------------------ */

static void put_speed(const orr_html_page *p, const orr_explored *best)
{
    char value[ORR_HUMAN_MAX], a[ORR_HUMAN_MAX], b[ORR_HUMAN_MAX];
    const orr_exploration *x = report_of(p)->exploration;
    const double record = orr_explore_record_of(report_of(p), &best->plan);
    orr_html_tile(p->out, NULL, "Step", orr_human_ns(value, (double)best->step_ns),
                  orr_arena_printf(p->arena, "this plan takes at least %s: its own bound",
                                   orr_human_ns(a, (double)best->bound_ns)));
    orr_html_tile(p->out, NULL, "Gap", orr_human_frac(value, x->gap_frac),
                  orr_arena_printf(p->arena, "%s; no plan of the search is below %s",
                                   orr_explore_status(report_of(p)),
                                   orr_objective_human(objective_of(p), x->bound, b)));
    orr_html_tile(
        p->out, NULL, "MFU",
        isfinite(best->mfu_frac) ? orr_human_frac(value, best->mfu_frac) : "not known",
        best->mfu_frac > record
            ? orr_arena_printf(p->arena, "above all that was published: %s",
                               orr_human_frac(b, record))
            : orr_arena_printf(p->arena, "on %s devices", orr_human_count(a, best->n_devices)));
    if (isfinite(best->tokens_per_s))
        orr_html_tile(
            p->out, NULL, "Tokens/s", orr_human_count(value, (uint64_t)llround(best->tokens_per_s)),
            orr_arena_printf(p->arena, "%.0f a device", best->tokens_per_s / best->n_devices));
    orr_html_tile(
        p->out, NULL, "Memory at the peak", orr_human_bytes(value, (double)best->peak_bytes),
        best->usable_bytes > 0
            ? orr_arena_printf(p->arena, "of %s", orr_human_bytes(b, (double)best->usable_bytes))
            : "");
}

static void put_price(const orr_html_page *p, const orr_explored *best)
{
    char value[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX];
    const double *v = best->value;
    const bool budget = report_of(p)->options->tokens > 0;
    if (budget && isfinite(v[ORR_OBJECTIVE_BUDGET]))
        orr_html_tile(p->out, NULL, "Budget",
                      orr_objective_human(ORR_OBJECTIVE_BUDGET, v[ORR_OBJECTIVE_BUDGET], value),
                      isfinite(best->effective_frac)
                          ? orr_arena_printf(p->arena, "%s of the time is progress",
                                             orr_human_frac(share, best->effective_frac))
                          : "failures left out");
    if (isfinite(v[ORR_OBJECTIVE_COST]))
        orr_html_tile(p->out, NULL, "USD",
                      v[ORR_OBJECTIVE_COST] < 1000 ? orr_human_number(value, v[ORR_OBJECTIVE_COST])
                                                   : orr_human_si(value, v[ORR_OBJECTIVE_COST]),
                      budget ? "of the budget" : "of a step");
    if (isfinite(v[ORR_OBJECTIVE_ENERGY]))
        orr_html_tile(p->out, NULL, "Energy",
                      orr_objective_human(ORR_OBJECTIVE_ENERGY, v[ORR_OBJECTIVE_ENERGY], value),
                      budget ? "of the budget, an upper bound" : "of a step, an upper bound");
}

static orr_status put_limits(const orr_html_page *p)
{
    orr_explore_bottleneck limits[ORR_EXPLORE_BOTTLENECKS];
    const uint32_t n = orr_explore_bottlenecks(&report_of(p)->outcomes[0], p->arena, limits);
    char share[ORR_HUMAN_MAX];
    if (n == 0)
        return orr_fail_memory(p->err);
    orr_output_text(p->out, "<p class=\"lead\">What limits it now: ");
    for (uint32_t i = 0; i < n && i < 4 && limits[i].ns > 0; i++) {
        orr_html_printf(p->out, "%s%s", i > 0 ? ", " : "", limits[i].limit);
        if (*limits[i].where != '\0')
            orr_html_printf(p->out, " (%s)", limits[i].where);
        orr_output_printf(p->out, " <b>%s</b>", orr_human_frac(share, limits[i].share_frac));
    }
    orr_output_printf(
        p->out, " of the step; memory is <b>%s</b> full.</p>\n",
        orr_human_frac(share, limits[n - 1].ns == 0 ? limits[n - 1].share_frac : NAN));
    return ORR_OK;
}

/* Without sites the machine has room for its hosts. */
static void put_machine(const orr_html_page *p)
{
    if (report_of(p)->cluster->n_sites > 0)
        return;
    orr_html_figure_open(p->out, "The plan on the machine", report_of(p)->cluster->name);
    orr_svg_machine(p->out, &report_of(p)->outcomes[0]);
    orr_html_figure_close(p->out);
}

static orr_status put_answer(const orr_html_page *p)
{
    const orr_explored *best = winner_of(p);
    const char *plan = orr_plan_short_text(&best->plan, p->arena);
    if (plan == NULL)
        return orr_fail_memory(p->err);
    orr_html_section_open(p->out, "answer",
                          report_of(p)->interrupted ? "The best so far: the search was interrupted"
                                                    : "The answer");
    orr_html_plan(p->out, plan);
    orr_html_tiles_open(p->out);
    put_speed(p, best);
    put_price(p, best);
    orr_html_tiles_close(p->out);
    if (best->other_numerics)
        orr_output_text(p->out, "<p class=\"note\">It changes the numerics: another precision, "
                                "compressed gradients, or local steps.</p>\n");
    if (report_of(p)->n_outcomes > 0) {
        if (report_of(p)->cluster->n_sites > 0)
            orr_html_figure_open(
                p->out, "The plan over the sites",
                "columns: stages, rows: replicas; lines: what crosses, as wide as bytes, "
                "from blue to red by how full the cut is");
        else
            orr_html_figure_open(p->out, "The plan on the cluster",
                                 "columns: stages, rows: replicas");
        ORR_TRY(orr_svg_explore_sites(p->out, report_of(p), p->arena, p->err));
        orr_html_figure_close(p->out);
        put_machine(p);
    }
    orr_html_section_close(p->out);
    return ORR_OK;
}

/* --- what it means --------------------------------------------------------------------------- */

/* NULL: out of memory; "": nothing to say. */
static orr_status put_words(const orr_html_page *p, const char *text)
{
    if (text == NULL)
        return orr_fail_memory(p->err);
    if (*text == '\0')
        return ORR_OK;
    orr_output_printf(p->out, "<p class=\"lead\">%c", toupper((unsigned char)*text));
    orr_html_text(p->out, text + 1);
    orr_output_text(p->out, ".</p>\n");
    return ORR_OK;
}

static orr_status put_meaning(const orr_html_page *p)
{
    const orr_explore_report *r = report_of(p);
    const orr_html_table_options few = {.max_rows = 20};
    orr_table set, published;
    if (r->answer == NULL)
        return ORR_OK;
    ORR_TRY(orr_explore_table_decision(r, p->arena, &set, p->err));
    ORR_TRY(orr_explore_table_published(r, p->arena, &published, p->err));
    orr_html_section_open(p->out, "set", "Plans that cannot be told apart");
    ORR_TRY(put_words(p, orr_explore_set_text(r, p->arena)));
    ORR_TRY(put_words(p, orr_explore_record_warning(r, p->arena)));
    ORR_TRY(put_words(p, orr_explore_fp8_text(r, p->arena)));
    if (set.n_rows > 0)
        orr_html_table(p->out, &set, &few);
    if (published.n_rows > 0) {
        orr_output_text(p->out, "<p class=\"lead\">Published of this job, simulated as it stands:"
                                "</p>\n");
        orr_html_table(p->out, &published, &few);
    }
    orr_html_section_close(p->out);
    return ORR_OK;
}

static orr_status put_infeasible(const orr_html_page *p)
{
    const orr_exploration *x = report_of(p)->exploration;
    orr_table table;
    ORR_TRY(orr_explore_table_relaxations(report_of(p), p->arena, &table, p->err));
    orr_html_section_open(p->out, "answer",
                          report_of(p)->interrupted ? "Interrupted"
                          : x->complete             ? "No feasible plan"
                                                    : "Stopped");
    orr_output_text(p->out, "<p class=\"lead\">");
    orr_html_text(p->out, !x->complete            ? "The search ended before a plan was found."
                          : x->infeasible != NULL ? x->infeasible
                                                  : "The space is empty.");
    orr_output_text(p->out, "</p>\n");
    if (table.n_rows > 0)
        orr_html_table(p->out, &table, &(orr_html_table_options){.max_rows = 20});
    orr_html_section_close(p->out);
    return ORR_OK;
}

/* --- why ------------------------------------------------------------------------------------- */

static orr_status put_alternative(const orr_html_page *p, uint32_t i)
{
    const orr_exploration *x = report_of(p)->exploration;
    const orr_explored *best = &x->best[0], *other = &x->best[i];
    const char *differs = orr_plan_differences(&best->plan, &other->plan, p->arena);
    const char *plan = orr_plan_short_text(&other->plan, p->arena);
    const char *needs = report_of(p)->sensitivity
                            ? orr_explore_break_even_text(report_of(p)->sensitivity, i, p->arena)
                            : "";
    char time[ORR_HUMAN_MAX];
    if (differs == NULL || plan == NULL || needs == NULL)
        return orr_fail_memory(p->err);
    orr_output_printf(p->out,
                      "<article class=\"card\"><h3><span>Plan %u</span><span>%+.1f %%</span>"
                      "</h3><p>",
                      i + 1,
                      100 * (other->value[objective_of(p)] / best->value[objective_of(p)] - 1));
    orr_html_text(p->out, differs);
    orr_output_text(p->out, "</p>\n");
    if (i < report_of(p)->n_outcomes) {
        int64_t ns;
        const char *payer = orr_explore_largest_penalty(&report_of(p)->outcomes[0],
                                                        &report_of(p)->outcomes[i], &ns);
        if (payer != NULL)
            orr_output_printf(p->out, "<p>It pays for <b>%s</b>: %s more a step.</p>\n", payer,
                              orr_human_ns(time, (double)ns));
    }
    if (*needs != '\0') {
        orr_output_text(p->out, "<p>It would win with ");
        orr_html_text(p->out, needs);
        orr_output_text(p->out, ".</p>\n");
    } else if (report_of(p)->sensitivity != NULL) {
        orr_output_text(p->out, "<p>No factor alone makes it win, up to 16 either way.</p>\n");
    }
    orr_output_text(p->out, "<p class=\"note\"><code>");
    orr_html_text(p->out, plan);
    orr_output_text(p->out, "</code></p></article>\n");
    return ORR_OK;
}

/* The winner as `simulate` would show it, where its graphs are still there. */
static orr_status put_winner(const orr_html_page *p)
{
    const orr_outcome *o = &report_of(p)->outcomes[0];
    if (o->simulation == NULL)
        return ORR_OK;
    orr_html_figure_open(
        p->out, "Its pipeline",
        "blue forward, green backward, violet weight gradients; below: transfers; hatched: bubble");
    ORR_TRY(orr_svg_gantt(p->out, o, p->arena, p->err));
    orr_html_figure_close(p->out);
    orr_html_figure_open(p->out, "Its memory", "a rank of the fullest stage, over the step");
    ORR_TRY(orr_svg_memory(p->out, o, p->arena, p->err));
    orr_html_figure_close(p->out);
    if (o->n_axes > 0) {
        orr_html_figure_open(p->out, "Its process groups", "mean of all ranks, over the step");
        orr_svg_links(p->out, o);
        orr_html_figure_close(p->out);
    }
    return ORR_OK;
}

static orr_status put_why(const orr_html_page *p)
{
    if (report_of(p)->n_outcomes == 0)
        return ORR_OK;
    orr_html_section_open(p->out, "why", "Why it won");
    ORR_TRY(put_limits(p));
    orr_html_figure_open(p->out, "Where the step goes",
                         "mean of all ranks; the winner and the next ones");
    orr_svg_explore_waterfalls(p->out, report_of(p));
    orr_html_figure_close(p->out);
    orr_output_text(p->out, "<div class=\"alternatives\">\n");
    for (uint32_t i = 1; i < report_of(p)->exploration->n; i++)
        ORR_TRY(put_alternative(p, i));
    orr_output_text(p->out, "</div>\n");
    ORR_TRY(put_winner(p));
    orr_html_section_close(p->out);
    return ORR_OK;
}

/* --- beside it ------------------------------------------------------------------------------- */

static void put_front(const orr_html_page *p)
{
    if (!has_front(p))
        return;
    orr_html_section_open(p->out, "front", "What one gives for the other");
    orr_html_figure_open(
        p->out, "The front",
        "green: not worse in both than any other; blue: the next plans; diamonds: other searchers; hatched: "
        "cannot be, or was not found");
    orr_svg_explore_front(p->out, report_of(p));
    orr_html_figure_close(p->out);
    orr_html_section_close(p->out);
}

static void put_sensitivity(const orr_html_page *p)
{
    if (!has_changes(p) || report_of(p)->exploration->n == 0)
        return;
    orr_html_section_open(p->out, "sensitivity", "If the machine were another");
    orr_html_figure_open(
        p->out, "What each number moves",
        "blue: half of it, orange: half as much again; a diamond: where the plan is that then wins");
    orr_svg_explore_tornado(p->out, report_of(p));
    orr_html_figure_close(p->out);
    orr_html_section_close(p->out);
}

static void put_baselines(const orr_html_page *p)
{
    if (report_of(p)->n_baseline_plans == 0 || report_of(p)->exploration->n == 0)
        return;
    orr_html_section_open(p->out, "baselines", "What others would choose");
    orr_html_figure_open(p->out, "Other searchers",
                         "as far as their publications say; judged by the same simulator");
    orr_svg_explore_baselines(p->out, report_of(p));
    orr_html_figure_close(p->out);
    orr_html_section_close(p->out);
}

static void put_search(const orr_html_page *p)
{
    const orr_exploration *x = report_of(p)->exploration;
    char space[ORR_HUMAN_MAX], sets[ORR_HUMAN_MAX], many[ORR_HUMAN_MAX], wall[ORR_HUMAN_MAX];
    orr_html_section_open(p->out, "space", "How it was searched");
    orr_output_printf(p->out, "<p class=\"lead\">%s plans in %s sets of modules; %s were simulated",
                      orr_human_si(space, x->space), orr_human_count(sets, x->families),
                      orr_human_count(many, x->simulated));
    if (x->resumed > 0)
        orr_output_printf(p->out, ", %s by an earlier run", orr_human_count(many, x->resumed));
    orr_output_printf(p->out, "; it took %s.</p>\n", orr_human_ns(wall, (double)x->wall_ns));
    orr_html_figure_open(p->out, "What became of the plans", "by why they were not followed");
    orr_svg_explore_space(p->out, report_of(p));
    orr_html_figure_close(p->out);
    orr_html_section_close(p->out);
}

static orr_status put_tables(const orr_html_page *p)
{
    orr_named_table tables[ORR_EXPLORE_TABLES];
    ORR_TRY(orr_explore_tables(report_of(p), p->arena, tables, p->err));
    orr_html_section_open(p->out, "tables", "Tables");
    ORR_TRY(orr_html_named_tables(p, "table", tables, ORR_EXPLORE_TABLES, 100));
    orr_html_section_close(p->out);
    return ORR_OK;
}

static orr_status put_main(const orr_html_page *p)
{
    if (winner_of(p) != NULL) {
        ORR_TRY(put_answer(p));
        ORR_TRY(put_meaning(p));
        ORR_TRY(put_why(p));
    } else {
        ORR_TRY(put_infeasible(p));
        if (report_of(p)->answer != NULL && report_of(p)->answer->n_published > 0)
            ORR_TRY(put_meaning(p));
    }
    ORR_TRY(orr_explore_put_questions(p, report_of(p)));
    put_front(p);
    put_sensitivity(p);
    put_baselines(p);
    put_search(p);
    return put_tables(p);
}

orr_status orr_explore_html(const char *path, const orr_explore_report *report, orr_error *err)
{
    static const orr_html_kind kind = {"explore", "page.js", put_about, put_nav, put_main, NULL};
    char title[160];
    snprintf(title, sizeof title, "The best arrangement of %s", report->model->title);
    return orr_html_page_make(path, &kind, title, report, err);
}
