/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "explore/explore.h"

/* Layouts of given degrees on the cluster: the order of the parallel axes, and, on several sites,
 * how much of the crossing axis each site gets. */

orr_plan orr_plan_with_layout(const orr_plan *plan, const orr_space_layout *layout)
{
    orr_plan p = *plan;
    memcpy(p.order, layout->order, sizeof p.order);
    p.cross = layout->cross;
    p.dp_outer = layout->dp_outer;
    memcpy(p.sites, layout->sites, sizeof p.sites);
    memcpy(p.section_stages, layout->section_stages, sizeof p.section_stages);
    memcpy(p.section_layers, layout->section_layers, sizeof p.section_layers);
    return p;
}

static uint32_t degree_of(const orr_plan *p, uint32_t axis)
{
    switch (axis) {
    case ORR_AXIS_TP:
        return p->tp;
    case ORR_AXIS_CP:
        return p->cp;
    case ORR_AXIS_DP:
        return p->dp;
    default:
        return p->pp;
    }
}

/* Orders that differ only in the places of axes of degree 1 are equal: the first is kept. On
 * several sites the axis that crosses is outermost and has to be named as such. */
static bool same_order(const orr_plan *p, const uint8_t *a, const uint8_t *b)
{
    uint32_t j = 0;
    for (uint32_t i = 0; i < ORR_BASE_AXES; i++) {
        if (degree_of(p, a[i] - 1U) == 1)
            continue;
        while (degree_of(p, b[j] - 1U) == 1)
            j++;
        if (a[i] != b[j++])
            return false;
    }
    return true;
}

static bool is_first_equivalent(const orr_space *s, const orr_plan *p, uint32_t at)
{
    const uint32_t last = ORR_BASE_AXES - 1;
    for (uint32_t i = 0; i < at; i++)
        if (same_order(p, s->order[i], s->order[at]) &&
            (s->cluster->n_sites < 2 || s->order[i][last] == s->order[at][last]))
            return false;
    return true;
}

static orr_space_layout single_site_layout(const orr_space *s, const uint8_t *order)
{
    orr_space_layout l = {.dp_outer = orr_plan_degree(s->constraints.fixed.dp_outer)};
    memcpy(l.order, order, sizeof l.order);
    memcpy(l.section_stages, s->constraints.fixed.section_stages, sizeof l.section_stages);
    memcpy(l.section_layers, s->constraints.fixed.section_layers, sizeof l.section_layers);
    return l;
}

uint32_t orr_space_layouts(const orr_space *s, const orr_plan *degrees, orr_space_layout *ret)
{
    uint32_t n = 0;
    const uint32_t outer = orr_plan_degree(s->constraints.fixed.dp_outer);
    if (degrees->dp % outer != 0)
        return 0;
    for (uint32_t i = 0; i < s->n_orders && n < ORR_SPACE_LAYOUTS; i++) {
        if (!is_first_equivalent(s, degrees, i))
            continue;
        if (s->cluster->n_sites > 1)
            n += orr_space_site_layouts(s, degrees, s->order[i], ret + n, ORR_SPACE_LAYOUTS - n);
        else
            ret[n++] = single_site_layout(s, s->order[i]);
    }
    return n;
}
