/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/experts/parts.h"
#include "report/experts/svg.h"
#include "report/humanize/human.h"

enum { ROWS_MAX = 400 }; /* of a table: moves may be many thousands */

static const orr_experts_report *report_of(const orr_html_page *p)
{
    return p->subject;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void put_about(const orr_html_page *p)
{
    const orr_experts_report *r = report_of(p);
    const orr_expert_statistics *s = r->statistics;
    char tokens[ORR_HUMAN_MAX];
    orr_html_printf(p->out, "%u layer%s of %u experts", s->layers, plural(s->layers), s->experts);
    if (r->routes != NULL)
        orr_html_printf(p->out, ", %s tokens of %u request%s", orr_human_count(tokens, s->tokens),
                        r->routes->requests, plural(r->routes->requests));
    if (r->n_plans > 0)
        orr_html_printf(p->out, ", over %u ranks of %s", r->options->ranks, r->cluster->name);
}

static void put_nav(const orr_html_page *p)
{
    if (report_of(p)->n_plans > 0)
        orr_html_link(p->out, "placement", "Placement");
    orr_html_link(p->out, "routes", "Routes");
    orr_html_link(p->out, "tables", "Tables");
}

/* --- the routes ------------------------------------------------------------------------------- */

/* A figure, and the same without the concentrated layers where there are such. */
static const char *note_of(const orr_html_page *p, const char *what, double without)
{
    return report_of(p)->statistics->concentrated > 0 && !isnan(without)
               ? orr_arena_printf(p->arena, "%s; %.3f without the concentrated", what, without)
               : what;
}

static void put_number(const orr_html_page *p, const char *swatch, const char *name, double value,
                       const char *note)
{
    if (!isnan(value))
        orr_html_tile(p->out, swatch, name, orr_arena_printf(p->arena, "%.3f", value), note);
}

static void put_imbalance(const orr_html_page *p)
{
    const orr_expert_linear_imbalance *row = orr_experts_imbalance_row(report_of(p));
    if (row == NULL)
        return;
    put_number(p, "comm", "Imbalance", row->all.mean,
               note_of(p,
                       orr_arena_printf(p->arena, "mean over layers, %u ranks in expert order",
                                        row->ranks),
                       row->without.mean));
    put_number(p, "path", "Worst layer", row->all.worst,
               note_of(p, orr_arena_printf(p->arena, "layer %u", row->all.worst_layer),
                       row->without.worst));
}

static orr_status put_next(const orr_html_page *p)
{
    orr_expert_spread all, without;
    char share[ORR_HUMAN_MAX];
    ORR_TRY(orr_experts_spread_of(report_of(p)->statistics,
                                  orr_experts_figure_find("next_layer_accuracy_frac"), p->arena,
                                  &all, &without, p->err));
    if (!isnan(all.mean))
        orr_html_tile(p->out, "good", "Next layer predicted", orr_human_frac(share, all.mean),
                      note_of(p, "of choices, by the expert before", without.mean));
    return ORR_OK;
}

static void put_concentrated(const orr_html_page *p)
{
    const orr_expert_statistics *s = report_of(p)->statistics;
    char names[160] = "none has an expert with over 90 %";
    size_t n = 0;
    for (uint32_t l = 0; l < s->layers && n < sizeof names - 40; l++)
        if (s->of_layer[l].concentrated)
            n += (size_t)snprintf(names + n, sizeof names - n, "%slayer %u", n > 0 ? ", " : "",
                                  s->of_layer[l].layer);
    orr_html_tile(p->out, NULL, "Concentrated layers",
                  orr_arena_printf(p->arena, "%u", s->concentrated),
                  orr_arena_printf(p->arena, "%s", names));
}

static orr_status put_routes(const orr_html_page *p)
{
    const orr_experts_report *r = report_of(p);
    const orr_expert_request_statistics *q = &r->statistics->request;
    orr_html_section_open(p->out, "routes", "The routes");
    orr_html_tiles_open(p->out);
    put_imbalance(p);
    put_number(p, "less", "Prefill predicts decode", q->own,
               orr_arena_printf(p->arena, "correlation; %.3f with another request's", q->other));
    ORR_TRY(put_next(p));
    put_concentrated(p);
    orr_html_tiles_close(p->out);
    orr_html_figure_open(p->out, "Load by layer and expert",
                         "against the mean of the layer's experts");
    ORR_TRY(orr_experts_svg_loads(p->out, r, p->arena, p->err));
    orr_html_figure_close(p->out);
    orr_html_section_close(p->out);
    return ORR_OK;
}

/* --- the placement ---------------------------------------------------------------------------- */

static void put_step(const orr_html_page *p, const orr_experts_plan *plan)
{
    const orr_experts_plan *before = report_of(p)->before;
    char value[ORR_HUMAN_MAX], was[ORR_HUMAN_MAX], bound[ORR_HUMAN_MAX], gap[ORR_HUMAN_MAX];
    if (!(plan->all.step_ns > 0))
        return;
    orr_html_tile(p->out, "good", "Experts of a step", orr_human_ns(value, plan->all.step_ns),
                  before != NULL ? orr_arena_printf(p->arena, "%s: %s", before->policy,
                                                    orr_human_ns(was, before->all.step_ns))
                                 : NULL);
    if (plan->result.bound_ns > 0)
        orr_html_tile(p->out, "path", "Bound", orr_human_ns(bound, plan->result.bound_ns),
                      orr_arena_printf(p->arena, "the gap is at most %s",
                                       orr_human_frac(gap, plan->result.gap_frac)));
}

static void put_bytes(const orr_html_page *p, const orr_experts_plan *plan)
{
    const orr_experts_report *r = report_of(p);
    static const char *const names[] = {"Within hosts", "Between hosts"};
    char value[ORR_HUMAN_MAX], was[ORR_HUMAN_MAX];
    if (r->routes == NULL || r->options->costs == NULL)
        return;
    for (int level = 0; level < 2; level++)
        orr_html_tile(p->out, level == 0 ? "tp" : "dp", names[level],
                      orr_human_bytes(value, orr_experts_step_bytes(r, &plan->all, level)),
                      r->before != NULL
                          ? orr_arena_printf(p->arena, "a step; %s: %s", r->before->policy,
                                             orr_human_bytes(was, orr_experts_step_bytes(
                                                                      r, &r->before->all, level)))
                          : "a step");
}

static void put_quality(const orr_html_page *p, const orr_experts_plan *plan)
{
    const orr_expert_quality *q = &plan->all;
    const orr_experts_plan *before = report_of(p)->before;
    char share[ORR_HUMAN_MAX], was[ORR_HUMAN_MAX];
    orr_html_tiles_open(p->out);
    put_step(p, plan);
    put_number(p, "comm", "Imbalance", q->imbalance_mean,
               note_of(p, "mean over layers", plan->without.imbalance_mean));
    put_number(p, "path", "Worst layer", q->imbalance_worst,
               note_of(p,
                       orr_arena_printf(p->arena, "layer %u",
                                        plan->result.placement.number[q->worst_layer]),
                       plan->without.imbalance_worst));
    if (!isnan(q->remote_frac))
        orr_html_tile(
            p->out, "less", "Dispatches that are remote", orr_human_frac(share, q->remote_frac),
            before != NULL ? orr_arena_printf(p->arena, "%s: %s", before->policy,
                                              orr_human_frac(was, before->all.remote_frac))
                           : NULL);
    put_bytes(p, plan);
    orr_html_tiles_close(p->out);
}

static orr_status put_fill(const orr_html_page *p, const orr_experts_plan *plan)
{
    orr_html_figure_open(p->out,
                         orr_arena_printf(p->arena, "Load by layer and rank: %s", plan->policy),
                         "against the mean of the layer's ranks");
    ORR_TRY(orr_experts_svg_ranks(p->out, report_of(p), plan, p->arena, p->err));
    orr_html_figure_close(p->out);
    return ORR_OK;
}

static orr_status put_placement(const orr_html_page *p)
{
    const orr_experts_report *r = report_of(p);
    const orr_experts_plan *plan = &r->plans[0];
    orr_html_section_open(p->out, "placement", "The placement");
    if (plan->refused != NULL) {
        orr_output_text(p->out, "<p class=\"lead\">");
        orr_html_printf(p->out, "%s: none: %s", plan->policy, plan->refused);
        orr_output_text(p->out, "</p>\n");
    } else {
        put_quality(p, plan);
        ORR_TRY(put_fill(p, plan));
    }
    if (r->before != NULL)
        ORR_TRY(put_fill(p, r->before));
    orr_html_section_close(p->out);
    return ORR_OK;
}

/* --- the page --------------------------------------------------------------------------------- */

static orr_status put_main(const orr_html_page *p)
{
    orr_named_table tables[ORR_EXPERTS_TABLES];
    uint32_t n;
    ORR_TRY(orr_experts_tables(report_of(p), p->arena, tables, &n, p->err));
    if (report_of(p)->n_plans > 0)
        ORR_TRY(put_placement(p));
    ORR_TRY(put_routes(p));
    orr_html_section_open(p->out, "tables", "Tables");
    ORR_TRY(orr_html_named_tables(p, "table", tables, (int)n, ROWS_MAX));
    orr_html_section_close(p->out);
    return ORR_OK;
}

orr_status orr_experts_html(const char *path, const orr_experts_report *report, orr_error *err)
{
    static const orr_html_kind kind = {"experts", "page.js", put_about, put_nav, put_main, NULL};
    const char *source = report->routes != NULL ? report->routes->source : report->windows->source;
    const char *slash = strrchr(source, '/');
    char title[200];
    (void)snprintf(title, sizeof title, "Experts of %s",
                   report->model != NULL ? report->model->title
                   : slash != NULL       ? slash + 1
                                         : source);
    return orr_html_page_make(path, &kind, title, report, err);
}
