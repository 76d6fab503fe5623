/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "model/plan/groups.h"
#include "report/page/html.h"
#include "report/page/svg.h"
#include "report/plan/svg.h"

/* A square for each host, coloured by the stage that is on it, in boxes of the level above; beside
 * them the first host, device by device. Hosts of several stages show that of their first device.
 */
enum { HOST = 11, GAP = 2, PAD = 6, HOSTS_MAX = 6144, CELL = 34, DEVICES_MAX = 72, LEFT = 330 };

typedef struct layout {
    orr_output *out;
    const orr_outcome *outcome;
    uint32_t a_host;        /* devices */
    uint32_t hosts, a_box;  /* that are drawn; of a box */
    uint32_t across, a_row; /* squares of a row of a box; boxes of a row */
    int box_width, box_height;
} layout;

static uint32_t stage_of(const layout *l, uint32_t rank)
{
    return orr_plan_coordinates(&l->outcome->plan, rank).at[ORR_AXIS_PP];
}

static void draw_host(const layout *l, uint32_t host, int x, int y)
{
    const uint32_t rank = host * l->a_host, stage = stage_of(l, rank);
    char words[80];
    snprintf(words, sizeof words, "ranks from %u on: stage %u", rank, stage);
    orr_svg_stage(l->out, stage, x, y, HOST, HOST, words);
}

static void draw_box(const layout *l, uint32_t box)
{
    const int x = LEFT + (int)(box % l->a_row) * (l->box_width + PAD);
    const int y = (int)(box / l->a_row) * (l->box_height + PAD);
    orr_svg_rect(l->out, "frame", x, y, l->box_width, l->box_height, NULL);
    for (uint32_t i = 0; i < l->a_box && box * l->a_box + i < l->hosts; i++)
        draw_host(l, box * l->a_box + i, x + PAD + (int)(i % l->across) * (HOST + GAP),
                  y + PAD + (int)(i / l->across) * (HOST + GAP));
}

/* One device: its stage as a colour, its slice and replica in words. */
static void draw_device(const layout *l, uint32_t rank, int x, int y)
{
    const orr_coordinates at = orr_plan_coordinates(&l->outcome->plan, rank);
    char words[80];
    snprintf(words, sizeof words, "rank %u: tp %u, cp %u, dp %u, pp %u", rank, at.at[ORR_AXIS_TP],
             at.at[ORR_AXIS_CP], at.at[ORR_AXIS_DP], at.at[ORR_AXIS_PP]);
    orr_svg_stage(l->out, at.at[ORR_AXIS_PP], x, y, CELL, CELL, words);
    orr_svg_text(l->out, "in", ORR_SVG_MIDDLE, x + CELL / 2, y + CELL / 2 + 4, "%u",
                 at.at[ORR_AXIS_TP]);
}

static void draw_first_host(const layout *l)
{
    const uint32_t n = l->a_host < DEVICES_MAX ? l->a_host : DEVICES_MAX;
    const uint32_t across = n > 32 ? 8 : 4;
    for (uint32_t i = 0; i < n && i < l->outcome->n_ranks; i++)
        draw_device(l, i, (int)(i % across) * (CELL + GAP), 22 + (int)(i / across) * (CELL + GAP));
    orr_svg_text(l->out, "", ORR_SVG_START, 0, 12, "the first %s: tensor-parallel slices",
                 l->outcome->cluster->levels[0].name);
}

static layout lay_out(orr_output *out, const orr_outcome *o)
{
    const orr_cluster *c = o->cluster;
    layout l = {.out = out, .outcome = o, .a_host = c->levels[0].devices};
    const uint32_t all = (o->n_ranks + l.a_host - 1) / l.a_host;
    uint32_t level = c->n_levels > 1 ? 1 : 0;
    while (level + 1 < c->n_levels && c->levels[level].devices / l.a_host < 16)
        level++;
    l.hosts = all < HOSTS_MAX ? all : HOSTS_MAX;
    l.a_box = c->levels[level].devices / l.a_host;
    l.a_box = l.a_box < l.hosts ? l.a_box : l.hosts;
    l.across = l.a_box < 32 ? l.a_box : 32;
    l.box_width = (int)l.across * (HOST + GAP) - GAP + 2 * PAD;
    l.box_height = (int)((l.a_box + l.across - 1) / l.across) * (HOST + GAP) - GAP + 2 * PAD;
    l.a_row = (uint32_t)((ORR_SVG_WIDTH - LEFT) / (l.box_width + PAD));
    l.a_row = l.a_row > 0 ? l.a_row : 1;
    return l;
}

void orr_svg_machine(orr_output *out, const orr_outcome *outcome)
{
    const layout l = lay_out(out, outcome);
    const uint32_t all = (outcome->n_ranks + l.a_host - 1) / l.a_host;
    const uint32_t boxes = (l.hosts + l.a_box - 1) / l.a_box;
    const int down = (int)((boxes + l.a_row - 1) / l.a_row) * (l.box_height + PAD);
    const int beside = 22 + (int)((l.a_host + 3) / 4) * (CELL + GAP);
    orr_svg_open(out, "The plan on the machine", down > beside ? down : beside);
    draw_first_host(&l);
    for (uint32_t box = 0; box < boxes; box++)
        draw_box(&l, box);
    orr_svg_close(out);
    orr_output_text(out, "<p class=\"note\">");
    orr_html_printf(out, "%u of %u %ss, a square each, coloured by pipeline stage.", l.hosts, all,
                    outcome->cluster->levels[0].name);
    orr_output_text(out, "</p>\n");
}
