/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "model/tables/tables.h"
#include "report/humanize/human.h"
#include "report/page/page.h"
#include "report/plan/svg.h"

enum { ROWS_SHOWN = 100 };

/* One plan, or two side by side. */
typedef struct plans {
    const orr_outcome *outcomes[2];
    int n;
} plans;

static const plans *plans_of(const orr_html_page *p)
{
    return p->subject;
}

static void put_about(const orr_html_page *p)
{
    const orr_outcome *o = plans_of(p)->outcomes[0];
    orr_html_printf(p->out, "%s on %u of %s", orr_task_name((orr_task)o->workload.task), o->n_ranks,
                    o->cluster->name);
}

static void put_nav(const orr_html_page *p)
{
    const bool two = plans_of(p)->n > 1;
    if (two)
        orr_html_link(p->out, "difference", "Side by side");
    orr_html_link(p->out, "plan-a", two ? "A" : "Plan");
    if (two)
        orr_html_link(p->out, "plan-b", "B");
}

static void put_tiles(const orr_html_page *p, const orr_outcome *o)
{
    const orr_stage_memory *m = &o->memory.stages[o->memory.worst];
    char value[ORR_HUMAN_MAX], low[ORR_HUMAN_MAX], high[ORR_HUMAN_MAX];
    char *note = NULL;
    orr_html_tiles_open(p->out);
    if (o->low_ns >= 0)
        note = orr_arena_printf(p->arena, "90 %% of jobs alike: %s to %s",
                                orr_human_ns(low, (double)o->low_ns),
                                orr_human_ns(high, (double)o->high_ns));
    orr_html_tile(p->out, NULL, "Step", orr_human_ns(value, (double)o->step_ns),
                  note ? note : "no error band is known");
    note = orr_arena_printf(p->arena, "%.0f TFLOP/s a device", o->flops_per_s_per_device / 1e12);
    orr_html_tile(p->out, NULL, "MFU",
                  isfinite(o->mfu_frac) ? orr_human_frac(value, o->mfu_frac) : "not known",
                  note ? note : "");
    const bool tokens = isfinite(o->tokens_per_s);
    const double rate = tokens ? o->tokens_per_s : o->samples_per_s;
    note = orr_arena_printf(p->arena, "%.0f a device", rate / o->n_ranks);
    orr_html_tile(p->out, NULL, tokens ? "Tokens/s" : "Samples/s",
                  orr_human_count(value, (uint64_t)llround(rate)), note ? note : "");
    note = orr_arena_printf(p->arena, "stage %u%s", o->memory.worst,
                            o->memory.fits ? "" : ": does not fit");
    orr_html_tile(p->out, NULL, "Memory at the peak", orr_human_bytes(value, (double)m->peak_bytes),
                  note ? note : "");
    orr_html_tile(p->out, NULL, "Bubble", orr_human_frac(value, o->bubble_frac),
                  "of a stage's work");
    if (o->expert_slots > 0) {
        char imbalance[ORR_HUMAN_MAX];
        snprintf(imbalance, sizeof imbalance, "%.3f", o->expert_imbalance[0]);
        note = orr_arena_printf(p->arena, "of the mean; worst layer %.3f; at most %u slots",
                                o->expert_imbalance[1], o->expert_slots);
        orr_html_tile(p->out, NULL, "Fullest rank of experts", imbalance, note ? note : "");
    }
    if (isfinite(o->energy_j)) {
        note = orr_arena_printf(p->arena, "%.4g kWh", o->energy_j / 3.6e6);
        orr_html_tile(p->out, NULL, "Energy of a step", note ? note : "", "an upper bound");
    }
    orr_html_tiles_close(p->out);
}

static orr_status put_pictures(const orr_html_page *p, const orr_outcome *o, int64_t whole_ns)
{
    orr_html_figure_open(p->out, "From ideal time to the step", "mean of all ranks");
    orr_svg_waterfall(p->out, o, whole_ns);
    orr_html_figure_close(p->out);
    orr_html_figure_open(
        p->out, "Pipeline",
        "blue forward, green backward, violet weight gradients; below: transfers; hatched: bubble");
    ORR_TRY(orr_svg_gantt(p->out, o, p->arena, p->err));
    orr_html_figure_close(p->out);
    orr_html_figure_open(p->out, "Memory of a rank of the fullest stage", "over the step");
    ORR_TRY(orr_svg_memory(p->out, o, p->arena, p->err));
    orr_html_figure_close(p->out);
    if (o->n_axes > 0) {
        orr_html_figure_open(p->out, "Links", "mean of all ranks, over the step");
        orr_svg_links(p->out, o);
        orr_html_figure_close(p->out);
    }
    orr_html_figure_open(p->out, "The plan on the machine", o->cluster->name);
    orr_svg_machine(p->out, o);
    orr_html_figure_close(p->out);
    return ORR_OK;
}

/* Of a recommendation model: how its tables are sharded, where that was said. */
static void put_sharding(const orr_html_page *p, const orr_embedding_plan *tables)
{
    if (tables == NULL)
        return;
    orr_output_text(p->out, "<p class=\"lead\">Embedding tables: ");
    orr_html_printf(p->out, "%s; over %u ranks.", orr_embedding_plan_kinds(tables, p->arena),
                    tables->ranks);
    orr_output_text(p->out, "</p>\n");
}

static orr_status put_outcome(const orr_html_page *p, int i, int64_t whole_ns)
{
    const plans *all = plans_of(p);
    const orr_outcome *o = all->outcomes[i];
    const char *id = i == 0 ? "plan-a" : "plan-b";
    const char *plan = orr_plan_text(&o->plan, p->arena);
    const char *title = all->n == 1
                            ? o->model->title
                            : orr_arena_printf(p->arena, "%c: %s", 'A' + i, o->model->title);
    orr_named_table tables[ORR_OUTCOME_TABLES];
    if (plan == NULL || title == NULL)
        return orr_fail_memory(p->err);
    ORR_TRY(orr_outcome_tables(o, p->arena, tables, p->err));
    orr_html_section_open(p->out, id, title);
    orr_html_plan(p->out, plan);
    put_sharding(p, o->workload.tables);
    put_tiles(p, o);
    ORR_TRY(put_pictures(p, o, whole_ns));
    ORR_TRY(orr_html_named_tables(p, id, tables, ORR_OUTCOME_TABLES, ROWS_SHOWN));
    orr_html_section_close(p->out);
    return ORR_OK;
}

static orr_status put_difference(const orr_html_page *p)
{
    const plans *all = plans_of(p);
    orr_named_table tables[ORR_COMPARISON_TABLES];
    ORR_TRY(orr_comparison_tables(all->outcomes[0], all->outcomes[1], p->arena, tables, p->err));
    orr_html_section_open(p->out, "difference", "Side by side");
    ORR_TRY(orr_html_named_tables(p, "difference", tables, ORR_COMPARISON_TABLES, ROWS_SHOWN));
    orr_html_section_close(p->out);
    return ORR_OK;
}

static orr_status put_main(const orr_html_page *p)
{
    const plans *all = plans_of(p);
    int64_t whole_ns = 1;
    for (int i = 0; i < all->n; i++)
        if (all->outcomes[i]->step_ns > whole_ns)
            whole_ns = all->outcomes[i]->step_ns;
    if (all->n > 1)
        ORR_TRY(put_difference(p));
    for (int i = 0; i < all->n; i++)
        ORR_TRY(put_outcome(p, i, whole_ns));
    return ORR_OK;
}

orr_status orr_plan_html(const char *path, const orr_outcome *outcome, const orr_outcome *beside,
                         orr_error *err)
{
    static const orr_html_kind kind = {"plan", "page.js", put_about, put_nav, put_main, NULL};
    const plans all = {.outcomes = {outcome, beside}, .n = beside ? 2 : 1};
    return orr_html_page_make(path, &kind, outcome->model->title, &all, err);
}
