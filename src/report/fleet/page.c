/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "report/fleet/parts.h"
#include "report/page/page.h"
#include "report/humanize/human.h"

typedef struct page {
    orr_output *out;
    orr_arena *arena;
    const orr_fleet *fleet;
    const orr_failure_catalog *catalog;
    const char **names;
    orr_error *err;
} page;

static void put_head(const page *p)
{
    const orr_fleet_options *o = &p->fleet->options;
    orr_html_page_head(p->out, "What failures cost", "What failures cost", NULL);
    orr_html_printf(p->out, "%u GPUs, %s", o->gpus, o->failures->title);
    orr_html_page_nav(p->out);
    orr_output_text(p->out, "<a href=\"#pictures\">Pictures</a><a href=\"#tables\">Tables</a>");
    orr_html_page_main(p->out);
}

static void put_tiles(const page *p)
{
    orr_output_text(p->out, "<dl class=\"tiles\">\n");
    for (uint32_t i = 0; i < p->fleet->n; i++) {
        const orr_fleet_outcome *o = &p->fleet->outcomes[i];
        char value[ORR_HUMAN_MAX], low[ORR_HUMAN_MAX], high[ORR_HUMAN_MAX], note[128];
        orr_human_frac(low, o->effective.low);
        orr_human_frac(high, o->effective.high);
        if (p->fleet->options.tokens > 0)
            snprintf(note, sizeof note, "%s to %s; %.1f days", low, high,
                     o->wall_ns.mean / 86400e9);
        else
            snprintf(note, sizeof note, "%s to %s", low, high);
        orr_html_tile(p->out, p->names[i], orr_human_frac(value, o->effective.mean), note);
    }
    orr_output_text(p->out, "</dl>\n");
}

static uint32_t count_ft(const orr_fleet *fleet)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < fleet->n; i++)
        n += fleet->outcomes[i].policy.recovery == ORR_FLEET_FT;
    return n;
}

static void put_pictures(const page *p)
{
    orr_output_text(p->out, "<section id=\"pictures\"><h2>Effective training time</h2>\n");
    put_tiles(p);
    orr_html_figure_open(p->out, "Where the time goes",
                         "share of wall time and GPUs, mean of all lives");
    orr_svg_fleet_losses(p->out, p->fleet, p->names);
    orr_html_figure_close(p->out);
    if (count_ft(p->fleet) > 1) {
        orr_html_figure_open(p->out, "By number of replicas", "bars: 5 to 95 % of lives");
        orr_svg_fleet_replicas(p->out, p->fleet);
        orr_html_figure_close(p->out);
    }
    orr_html_figure_open(
        p->out, "A day in the middle of the first life",
        "height: replicas that contribute; colours as above; the same failures for all");
    orr_svg_fleet_day(p->out, p->fleet, p->names);
    orr_html_figure_close(p->out);
    for (uint32_t i = 0; i < p->fleet->n && p->fleet->n_effects > 0; i++) {
        orr_html_figure_open(p->out, "What each setting moves", p->names[i]);
        orr_output_text(p->out,
                        "<p class=\"note\">Change of the effective time; blue: halved, orange: "
                        "doubled.</p>\n");
        orr_svg_fleet_sensitivity(p->out, p->fleet, i);
        orr_html_figure_close(p->out);
    }
    orr_output_text(p->out, "</section>\n");
}

static orr_status put_page(const orr_html_page *made, const void *ctx)
{
    page page_of = *(const page *)ctx;
    page *p = &page_of;
    p->out = made->out;
    p->arena = made->arena;
    p->err = made->err;
    orr_named_table tables[ORR_FLEET_TABLES];
    ORR_TRY(orr_fleet_tables(p->fleet, p->catalog, p->arena, tables, p->err));
    p->names = orr_arena_array(p->arena, const char *, p->fleet->n);
    if (p->names == NULL)
        return orr_fail_memory(p->err);
    for (uint32_t i = 0; i < p->fleet->n; i++)
        if ((p->names[i] = orr_fleet_policy_text(&p->fleet->outcomes[i].policy, p->arena)) == NULL)
            return orr_fail_memory(p->err);
    put_head(p);
    put_pictures(p);
    orr_output_text(p->out, "<section id=\"tables\"><h2>Tables</h2>\n");
    for (int i = 0; i < ORR_FLEET_TABLES; i++)
        if (tables[i].table.n_rows > 0)
            orr_html_table(p->out, NULL, "", &tables[i].table, NULL, 200);
    orr_output_text(p->out, "</section>\n");
    return ORR_OK;
}

orr_status orr_fleet_html(const char *path, const orr_fleet *fleet,
                          const orr_failure_catalog *catalog, orr_error *err)
{
    const page p = {.fleet = fleet, .catalog = catalog};
    return orr_html_page_make(path, put_page, &p, err);
}
