/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "report/assets.h"
#include "report/fleet_page.h"
#include "report/html.h"
#include "report/human.h"

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
    orr_output_text(p->out,
                    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, "
                    "initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
                    "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    orr_output_text(p->out, "<title>What failures cost · Orrery</title>\n<style>\n");
    for (size_t i = 0; i < orr_n_assets; i++)
        if (strcmp(orr_assets[i].name, "page.css") == 0)
            orr_output_write(p->out, orr_assets[i].bytes, orr_assets[i].n);
    orr_output_text(p->out,
                    "</style>\n</head>\n<body>\n<header class=\"top\"><div class=\"brand\"><div>"
                    "<h1>What failures cost</h1><p>");
    orr_html_printf(p->out, "%u GPUs, %s", o->gpus, o->failures->title);
    orr_output_text(p->out,
                    "</p></div></div><nav aria-label=\"Sections\"><a href=\"#pictures\">Pictures"
                    "</a><a href=\"#tables\">Tables</a></nav></header>\n<main>\n");
}

static void put_tile(const page *p, const char *what, const char *value, const char *note)
{
    orr_output_text(p->out, "<div class=\"tile\"><dt>");
    orr_html_text(p->out, what);
    orr_output_text(p->out, "</dt><dd>");
    orr_html_text(p->out, value);
    orr_output_text(p->out, "</dd><dd class=\"note\">");
    orr_html_text(p->out, note);
    orr_output_text(p->out, "</dd></div>\n");
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
        put_tile(p, p->names[i], orr_human_frac(value, o->effective.mean), note);
    }
    orr_output_text(p->out, "</dl>\n");
}

static uint32_t count_ft(const orr_fleet *fleet)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < fleet->n; i++)
        n += fleet->outcomes[i].policy.way == ORR_FLEET_FT;
    return n;
}

static void put_pictures(const page *p)
{
    orr_output_text(p->out, "<section id=\"pictures\"><h2>Effective training time</h2>\n");
    put_tiles(p);
    orr_html_figure_open(p->out, "Where the time goes", "share of wall time and GPUs, mean of all lives");
    orr_svg_fleet_losses(p->out, p->fleet, p->names);
    orr_html_figure_close(p->out);
    if (count_ft(p->fleet) > 1) {
        orr_html_figure_open(p->out, "By number of replicas", "bars: 5 to 95 % of lives");
        orr_svg_fleet_replicas(p->out, p->fleet);
        orr_html_figure_close(p->out);
    }
    orr_html_figure_open(p->out, "A day in the middle of the first life",
                "height: replicas that contribute; colours as above; the same failures for all");
    orr_svg_fleet_day(p->out, p->fleet, p->names);
    orr_html_figure_close(p->out);
    for (uint32_t i = 0; i < p->fleet->n && p->fleet->n_effects > 0; i++) {
        orr_html_figure_open(p->out, "What each setting moves", p->names[i]);
        orr_output_text(p->out,
                        "<p class=\"note\">Change of the effective time; blue: halved, orange: "
                        "doubled.</p>\n");
        orr_svg_fleet_effects(p->out, p->fleet, i);
        orr_html_figure_close(p->out);
    }
    orr_output_text(p->out, "</section>\n");
}

static orr_status put_page(page *p)
{
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
    orr_output_printf(
        p->out,
        "</section>\n</main>\n<footer class=\"note\">Orrery %s</footer>\n</body>\n</html>\n",
        orr_assets_version);
    return orr_output_finish(p->out, p->err);
}

orr_status orr_fleet_html(const char *path, const orr_fleet *fleet,
                          const orr_failure_catalog *catalog, orr_error *err)
{
    page p = {.fleet = fleet, .catalog = catalog, .err = err, .arena = orr_arena_new(0, 0)};
    orr_status status;
    if (p.arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, orr_output_open(path, &p.out, err));
    status = put_page(&p);
out:
    orr_output_close(p.out);
    orr_arena_free(p.arena);
    return status;
}
