/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "report/humanize/human.h"
#include "report/page/svg.h"
#include "report/sharding/page_tiers.h"

/* Tiers on the page: how full and how busy each is, what the next GiB of it buys, and hit rates by
 * cached rows of the tables that are read most, each with the place that the plan chose. */

enum {
    WIDTH = ORR_SVG_WIDTH,
    LEFT = 70,
    RIGHT = 30,
    TOP = 14,
    HEIGHT = 360,
    FOOT = 44,
    CURVES = 6
};
#define LEAST_FRAC 1e-5 /* of a table's rows, at the left */
static const char *const CLASSES[CURVES] = {"k-compute", "k-comm", "k-memory",
                                            "k-host",    "k-sync", "k-runtime"};

static void put_tile(const orr_html_page *p, const orr_table_planning *best,
                     const orr_tier_options *o, int tier)
{
    const orr_tier_load *load = &best->tiering->load[tier];
    char used[ORR_HUMAN_MAX], all[ORR_HUMAN_MAX], busy[ORR_HUMAN_MAX], next[ORR_HUMAN_MAX];
    const double step_ns = best->ns + best->tiering->stall_ns;
    const char *what = load->next_gib_ns > 0         ? "off the step"
                       : load->next_gib_fetch_ns > 0 ? "off the fetch, which is hidden"
                                                     : NULL;
    const char *buys =
        what == NULL
            ? "a GiB more buys nothing"
            : orr_arena_printf(p->arena, "a GiB more buys %s %s",
                               orr_human_ns(next, load->next_gib_ns > 0 ? load->next_gib_ns
                                                                        : load->next_gib_fetch_ns),
                               what);
    const char *note = tier == ORR_TIER_DRAM || !(step_ns > 0)
                           ? buys
                           : orr_arena_printf(p->arena, "fetches take %s of the step; %s",
                                              orr_human_frac(busy, load->fetch_ns / step_ns), buys);
    orr_html_tile(p->out, NULL, o->tier[tier].name != NULL ? o->tier[tier].name : "memory",
                  orr_arena_printf(p->arena, "%s of %s", orr_human_bytes(used, (double)load->bytes),
                                   orr_human_bytes(all, (double)o->tier[tier].bytes)),
                  note);
}

/* --- hit rates ----------------------------------------------------------------------------------
 */

static double x_of(double frac)
{
    const double t = log(fmax(frac, LEAST_FRAC) / LEAST_FRAC) / -log(LEAST_FRAC);
    return LEFT + fmin(1, t) * (WIDTH - LEFT - RIGHT);
}

static double y_of(double hit_frac)
{
    return TOP + HEIGHT * (1 - hit_frac);
}

static void put_axes(orr_output *out)
{
    for (int k = 0; k <= 4; k++) {
        orr_svg_line(out, "grid", LEFT, y_of(k / 4.0), WIDTH - RIGHT, y_of(k / 4.0));
        orr_svg_text(out, "tick", ORR_SVG_END, LEFT - 8, y_of(k / 4.0) + 4, "%d %%", 25 * k);
    }
    for (double frac = LEAST_FRAC; frac < 1.5; frac *= 10) {
        orr_svg_line(out, "grid", x_of(frac), TOP, x_of(frac), TOP + HEIGHT);
        orr_svg_text(out, "tick", ORR_SVG_MIDDLE, x_of(frac), TOP + HEIGHT + 18, "%g %%",
                     100 * frac);
    }
    orr_svg_text(out, "tick", ORR_SVG_END, WIDTH - RIGHT, TOP + HEIGHT + 36,
                 "cached rows, of all rows of the table");
}

static void put_curve(const orr_html_page *p, const orr_sharding_report *r, uint32_t table,
                      const char *class)
{
    const orr_hit_curve *c = &r->options->tiers->curves[table];
    const orr_embedding *e = &r->best->plan.tables[table];
    const orr_embedding_placement *place = &r->best->plan.placements[table];
    const orr_tier_choice *choice = &r->best->tiering->choices[table];
    const double rows = (double)e->rows;
    const double cached = choice->cached_rows / (place->columns > 0 ? place->columns : 1) / rows;
    char hit[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX];
    orr_output_printf(p->out,
                      "<path class=\"%s\" style=\"fill:none;stroke:var(--c);stroke-width:2\" d=\"",
                      class);
    for (uint32_t i = 0; i < c->n; i++)
        orr_output_printf(p->out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x_of(c->rows[i] / rows),
                          y_of(c->hit_frac[i]));
    orr_output_text(p->out, "\"/>\n");
    orr_output_printf(
        p->out,
        "<circle class=\"%s\" style=\"fill:var(--c)\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"><title>",
        class, x_of(cached), y_of(choice->hit_frac));
    orr_html_printf(p->out, "%s on %s: %s of the rows cached, %s of the lookups hit", e->name,
                    orr_tier_name((orr_tier)choice->tier), orr_human_frac(share, cached),
                    orr_human_frac(hit, choice->hit_frac));
    orr_output_text(p->out, "</title></circle>\n");
}

/* Tables that are read most from their tiers. */
static uint32_t find_most(const orr_tiering *t, uint32_t n_tables, uint32_t ret[CURVES])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_tables; i++) {
        if (!(t->choices[i].reads > 0))
            continue;
        uint32_t at = n < CURVES ? n++ : CURVES;
        for (; at > 0 && t->choices[i].reads > t->choices[ret[at - 1]].reads; at--)
            if (at < CURVES)
                ret[at] = ret[at - 1];
        if (at < CURVES)
            ret[at] = i;
    }
    return n;
}

static void put_curves(const orr_html_page *p, const orr_sharding_report *r)
{
    uint32_t tables[CURVES];
    const uint32_t n = find_most(r->best->tiering, r->best->plan.n_tables, tables);
    if (n == 0)
        return;
    orr_html_figure_open(p->out, "Hit rate by cached rows",
                         "of the tables that are read most; dots: what the plan gives them");
    orr_html_legend_open(p->out);
    for (uint32_t i = 0; i < n; i++)
        orr_html_legend(p->out, CLASSES[i], "%s", r->best->plan.tables[tables[i]].name);
    orr_html_legend_close(p->out);
    orr_svg_open(p->out, "hit rates of tables by their cached rows", TOP + HEIGHT + FOOT);
    put_axes(p->out);
    for (uint32_t i = 0; i < n; i++)
        put_curve(p, r, tables[i], CLASSES[i]);
    orr_svg_close(p->out);
    orr_html_figure_close(p->out);
}

void orr_sharding_put_tiers(const orr_html_page *p, const orr_sharding_report *r)
{
    const orr_tiering *t = r->best->tiering;
    char fetch[ORR_HUMAN_MAX], stall[ORR_HUMAN_MAX];
    orr_html_section_open(p->out, "tiers", "Tiers");
    orr_html_tiles_open(p->out);
    for (int k = 0; k < ORR_TIERS; k++)
        if (r->options->tiers->tier[k].bytes > 0)
            put_tile(p, r->best, r->options->tiers, k);
    orr_html_tile(p->out, NULL, "Fetch", orr_human_ns(fetch, t->fetch_ns),
                  t->stall_ns > 0 ? orr_arena_printf(p->arena, "%s of it a stall",
                                                     orr_human_ns(stall, t->stall_ns))
                                  : "hidden behind the step");
    orr_html_tiles_close(p->out);
    put_curves(p, r);
    orr_html_section_close(p->out);
}
