/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "report/page/page.h"
#include "report/humanize/human.h"
#include "report/plan/svg.h"

typedef struct page {
    orr_output *out;
    orr_arena *arena;
    const orr_outcome *outcomes[2];
    int n;
    orr_error *err;
} page;

/* Text between markup. */
static void put(const page *p, const char *before, const char *text, const char *after)
{
    orr_output_text(p->out, before);
    orr_html_text(p->out, text);
    orr_output_text(p->out, after);
}

static void put_head(const page *p)
{
    const orr_outcome *o = p->outcomes[0];
    orr_html_page_head(p->out, o->model->title, o->model->title, NULL);
    orr_html_printf(p->out, "%s on %u of %s", orr_task_name((orr_task)o->workload.task), o->n_ranks,
                    o->cluster->name);
    orr_html_page_nav(p->out);
    orr_output_text(p->out, p->n == 1 ? "<a href=\"#plan-0\">Plan</a>"
                                      : "<a href=\"#moved\">Side by side</a>"
                                        "<a href=\"#plan-0\">A</a><a href=\"#plan-1\">B</a>");
    orr_html_page_main(p->out);
}

static void put_tiles(const page *p, const orr_outcome *o)
{
    const orr_stage_memory *m = &o->memory.stages[o->memory.worst];
    char value[ORR_HUMAN_MAX], low[ORR_HUMAN_MAX], high[ORR_HUMAN_MAX];
    char *note = NULL;
    orr_output_text(p->out, "<dl class=\"tiles\">\n");
    if (o->low_ns >= 0)
        note = orr_arena_printf(p->arena, "90 %% of jobs alike: %s to %s",
                                orr_human_ns(low, (double)o->low_ns),
                                orr_human_ns(high, (double)o->high_ns));
    orr_html_tile(p->out, "Step", orr_human_ns(value, (double)o->step_ns),
                  note ? note : "no error band is known");
    note = orr_arena_printf(p->arena, "%.0f TFLOP/s a device", o->flops_per_s_per_device / 1e12);
    orr_html_tile(p->out, "MFU",
                  isfinite(o->mfu_frac) ? orr_human_frac(value, o->mfu_frac) : "not known",
                  note ? note : "");
    note = orr_arena_printf(p->arena, "%.0f a device", o->tokens_per_s_per_device);
    orr_html_tile(p->out, "Tokens/s", orr_human_count(value, (uint64_t)llround(o->tokens_per_s)),
                  note ? note : "");
    note = orr_arena_printf(p->arena, "stage %u%s", o->memory.worst,
                            o->memory.fits ? "" : ": does not fit");
    orr_html_tile(p->out, "Memory at the peak", orr_human_bytes(value, (double)m->peak_bytes),
                  note ? note : "");
    orr_html_tile(p->out, "Bubble", orr_human_frac(value, o->bubble_frac), "of a stage's work");
    if (isfinite(o->energy_j)) {
        note = orr_arena_printf(p->arena, "%.4g kWh", o->energy_j / 3.6e6);
        orr_html_tile(p->out, "Energy of a step", note ? note : "", "an upper bound");
    }
    orr_output_text(p->out, "</dl>\n");
}

static orr_status put_pictures(const page *p, const orr_outcome *o, int64_t whole_ns)
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

static orr_status put_tables(const page *p, const orr_outcome *o)
{
    orr_named_table tables[ORR_OUTCOME_TABLES];
    ORR_TRY(orr_outcome_tables(o, p->arena, tables, p->err));
    for (int i = 0; i < ORR_OUTCOME_TABLES; i++)
        if (tables[i].table.n_rows > 0)
            orr_html_table(p->out, NULL, "", &tables[i].table, NULL, 100);
    return ORR_OK;
}

static orr_status put_outcome(const page *p, int i, int64_t whole_ns)
{
    const orr_outcome *o = p->outcomes[i];
    const char *plan = orr_plan_text(&o->plan, p->arena);
    orr_output_printf(p->out, "<section id=\"plan-%d\"><h2>%s", i,
                      p->n == 1 ? ""
                      : i == 0  ? "A: "
                                : "B: ");
    put(p, "", o->model->title, "</h2>");
    put(p, "<p class=\"note\"><code>", plan ? plan : "", "</code></p>\n");
    put_tiles(p, o);
    ORR_TRY(put_pictures(p, o, whole_ns));
    ORR_TRY(put_tables(p, o));
    orr_output_text(p->out, "</section>\n");
    return ORR_OK;
}

static orr_status put_comparison(const page *p)
{
    orr_named_table tables[ORR_COMPARISON_TABLES];
    if (p->n == 1)
        return ORR_OK;
    ORR_TRY(orr_comparison_tables(p->outcomes[0], p->outcomes[1], p->arena, tables, p->err));
    orr_output_text(p->out, "<section id=\"moved\"><h2>Side by side</h2>\n");
    for (int i = 0; i < ORR_COMPARISON_TABLES; i++)
        orr_html_table(p->out, NULL, "", &tables[i].table, NULL, 100);
    orr_output_text(p->out, "</section>\n");
    return ORR_OK;
}

static orr_status put_page(const orr_html_page *made, const void *ctx)
{
    page page_of = *(const page *)ctx;
    page *p = &page_of;
    p->out = made->out;
    p->arena = made->arena;
    p->err = made->err;
    int64_t whole_ns = 1;
    for (int i = 0; i < p->n; i++)
        if (p->outcomes[i]->step_ns > whole_ns)
            whole_ns = p->outcomes[i]->step_ns;
    put_head(p);
    ORR_TRY(put_comparison(p));
    for (int i = 0; i < p->n; i++)
        ORR_TRY(put_outcome(p, i, whole_ns));
    return ORR_OK;
}

orr_status orr_plan_html(const char *path, const orr_outcome *outcome, const orr_outcome *beside,
                         orr_error *err)
{
    const page p = {.outcomes = {outcome, beside}, .n = beside ? 2 : 1};
    return orr_html_page_make(path, put_page, &p, err);
}
