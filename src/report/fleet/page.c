/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "report/fleet/parts.h"
#include "report/fleet/svg.h"
#include "report/humanize/human.h"
#include "report/page/page.h"

enum { ROWS_SHOWN = 200 };

typedef struct fleet_report {
    const orr_fleet *fleet;
    const orr_failure_catalog *catalog;
} fleet_report;

static const orr_fleet *fleet_of(const orr_html_page *p)
{
    return ((const fleet_report *)p->subject)->fleet;
}

static void put_about(const orr_html_page *p)
{
    const orr_fleet_options *o = &fleet_of(p)->options;
    orr_html_printf(p->out, "%u GPUs, %s", o->gpus, o->failures->title);
}

static void put_nav(const orr_html_page *p)
{
    orr_html_link(p->out, "pictures", "Pictures");
    orr_html_link(p->out, "tables", "Tables");
}

static void put_tiles(const orr_html_page *p, const char *const *names)
{
    orr_html_tiles_open(p->out);
    for (uint32_t i = 0; i < fleet_of(p)->n; i++) {
        const orr_fleet_outcome *o = &fleet_of(p)->outcomes[i];
        char value[ORR_HUMAN_MAX], low[ORR_HUMAN_MAX], high[ORR_HUMAN_MAX], note[128];
        orr_human_frac(low, o->effective.low);
        orr_human_frac(high, o->effective.high);
        if (fleet_of(p)->options.tokens > 0)
            snprintf(note, sizeof note, "%s to %s; %.1f days", low, high,
                     o->wall_ns.mean / 86400e9);
        else
            snprintf(note, sizeof note, "%s to %s", low, high);
        orr_html_tile(p->out, NULL, names[i], orr_human_frac(value, o->effective.mean), note);
    }
    orr_html_tiles_close(p->out);
}

static uint32_t count_ft(const orr_fleet *fleet)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < fleet->n; i++)
        n += fleet->outcomes[i].policy.recovery == ORR_FLEET_FT;
    return n;
}

static void put_pictures(const orr_html_page *p, const char *const *names)
{
    orr_html_section_open(p->out, "pictures", "Effective training time");
    put_tiles(p, names);
    orr_html_figure_open(p->out, "Where the time goes",
                         "share of wall time and GPUs, mean of all lives");
    orr_svg_fleet_losses(p->out, fleet_of(p), names);
    orr_html_figure_close(p->out);
    if (count_ft(fleet_of(p)) > 1) {
        orr_html_figure_open(p->out, "By number of replicas", "bars: 5 to 95 % of lives");
        orr_svg_fleet_replicas(p->out, fleet_of(p));
        orr_html_figure_close(p->out);
    }
    orr_html_figure_open(
        p->out, "A day in the middle of the first life",
        "height: replicas that contribute; colours as above; the same failures for all");
    orr_svg_fleet_day(p->out, fleet_of(p), names);
    orr_html_figure_close(p->out);
    for (uint32_t i = 0; i < fleet_of(p)->n && fleet_of(p)->n_effects > 0; i++) {
        orr_html_figure_open(p->out, "What each setting moves", names[i]);
        orr_output_text(p->out,
                        "<p class=\"note\">Change of the effective time; blue: halved, orange: "
                        "doubled.</p>\n");
        orr_svg_fleet_sensitivity(p->out, fleet_of(p), i);
        orr_html_figure_close(p->out);
    }
    orr_html_section_close(p->out);
}

static orr_status put_main(const orr_html_page *p)
{
    const orr_fleet *fleet = fleet_of(p);
    orr_named_table tables[ORR_FLEET_TABLES];
    const char **names = orr_arena_array(p->arena, const char *, fleet->n);
    ORR_TRY(orr_fleet_tables(fleet, ((const fleet_report *)p->subject)->catalog, p->arena, tables,
                             p->err));
    if (names == NULL)
        return orr_fail_memory(p->err);
    for (uint32_t i = 0; i < fleet->n; i++)
        if ((names[i] = orr_fleet_policy_text(&fleet->outcomes[i].policy, p->arena)) == NULL)
            return orr_fail_memory(p->err);
    put_pictures(p, names);
    orr_html_section_open(p->out, "tables", "Tables");
    ORR_TRY(orr_html_named_tables(p, "table", tables, ORR_FLEET_TABLES, ROWS_SHOWN));
    orr_html_section_close(p->out);
    return ORR_OK;
}

orr_status orr_fleet_html(const char *path, const orr_fleet *fleet,
                          const orr_failure_catalog *catalog, orr_error *err)
{
    static const orr_html_kind kind = {"fleet", "page.js", put_about, put_nav, put_main, NULL};
    const fleet_report report = {fleet, catalog};
    return orr_html_page_make(path, &kind, "What failures cost", &report, err);
}
