/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/single.h"

#include <math.h>

enum { SWEEPS = 16 };

/* The mean port's ns where an expert's one copy is on a rank. */
static double links_at(const orr_layer *layer, uint32_t e, uint32_t rank)
{
    const double own = (double)layer->flow[(size_t)e * layer->ranks + rank];
    const double near =
        (double)layer->host_flow[(size_t)e * layer->hosts + rank / layer->host_ranks];
    return ((near - own) * orr_layer_row_ns(layer, e, rank, ORR_HOST) +
            ((double)layer->total[e] - near) * orr_layer_row_ns(layer, e, rank, ORR_NETWORK)) /
           layer->live;
}

static double evenness(const orr_layer *layer)
{
    const double sum = layer->mean_rows * layer->live;
    return sum > 0 ? layer->costs->evenness / sum : 0;
}

/* --- hottest first ---------------------------------------------------------------------------- */

static uint32_t hottest_left(const orr_layer *layer, const bool *missing)
{
    uint32_t ret = UINT32_MAX;
    for (uint32_t e = 0; e < layer->experts; e++)
        if (layer->copies[e] == 0 && (missing == NULL || !missing[e]) &&
            (ret == UINT32_MAX || layer->total[e] > layer->total[ret]))
            ret = e;
    return ret;
}

static bool place_hottest_first(orr_layer *layer, const uint32_t *room, const bool *missing)
{
    const double even = evenness(layer);
    for (uint32_t e; (e = hottest_left(layer, missing)) != UINT32_MAX;) {
        const double load = (double)layer->total[e];
        double best = INFINITY;
        uint32_t to = UINT32_MAX;
        for (uint32_t r = 0; r < layer->ranks; r++) {
            if (layer->used[r] >= room[r] || !orr_layer_may(layer, e, r))
                continue;
            const double ns = links_at(layer, e, r) + even * load * (2 * layer->rows[r] + load);
            if (ns < best) {
                best = ns;
                to = r;
            }
        }
        if (to == UINT32_MAX)
            return false;
        orr_layer_add(layer, e, to);
        orr_layer_put_in(layer, e);
    }
    return true;
}

/* --- exchanges -------------------------------------------------------------------------------- */

static void put(orr_layer *layer, uint32_t e, uint32_t from, uint32_t to)
{
    orr_layer_take_out(layer, e);
    orr_layer_drop(layer, e, from);
    orr_layer_add(layer, e, to);
    orr_layer_put_in(layer, e);
}

/* Exchanges the ranks of two experts. With a sample of tokens the change is counted on it before:
 * false, and nothing is changed, where it does not help after all. */
static bool exchange(orr_layer *layer, orr_merge *merge, uint32_t e, uint32_t f, double combine,
                     double rows)
{
    const uint32_t a = layer->copy[(size_t)e * layer->ranks];
    const uint32_t b = layer->copy[(size_t)f * layer->ranks];
    if (merge == NULL) {
        put(layer, e, a, b);
        put(layer, f, b, a);
        return true;
    }
    const double dispatch = orr_merge_move(merge, layer, e, b, f, a) / layer->live;
    if (dispatch + combine + rows > -1e-9 * layer->mean_rows) {
        (void)orr_merge_move(merge, layer, e, a, f, b);
        return false;
    }
    put(layer, e, a, b);
    put(layer, f, b, a);
    return true;
}

static double combine_at(const orr_layer *layer, uint32_t e, uint32_t rank)
{
    const double own = (double)layer->flow[(size_t)e * layer->ranks + rank];
    const double near =
        (double)layer->host_flow[(size_t)e * layer->hosts + rank / layer->host_ranks];
    return ((near - own) * layer->costs->combine_ns[ORR_HOST] +
            ((double)layer->total[e] - near) * layer->costs->combine_ns[ORR_NETWORK]) /
           layer->live;
}

typedef struct partner {
    uint32_t expert;
    double links, rows; /* change of the smooth measure */
} partner;

/* The expert whose exchange with e helps most. */
static partner best_partner(const orr_layer *layer, uint32_t e, double even)
{
    const uint32_t a = layer->copy[(size_t)e * layer->ranks];
    const double here = links_at(layer, e, a);
    partner ret = {.expert = UINT32_MAX};
    double best = -1e-9 * layer->mean_rows;
    for (uint32_t f = 0; f < layer->experts; f++) {
        const uint32_t b = layer->copy[(size_t)f * layer->ranks];
        if (layer->copies[f] == 0 || a == b || !orr_layer_may(layer, e, b) ||
            !orr_layer_may(layer, f, a))
            continue;
        const double moved = (double)layer->total[e] - (double)layer->total[f];
        const double rows = even * 2 * moved * (layer->rows[b] - layer->rows[a] + moved);
        const double links =
            links_at(layer, e, b) - here + links_at(layer, f, a) - links_at(layer, f, b);
        if (links + rows < best) {
            best = links + rows;
            ret = (partner){f, links, rows};
        }
    }
    return ret;
}

static bool sweep(orr_layer *layer, orr_merge *merge, double even)
{
    bool changed = false;
    for (uint32_t e = 0; e < layer->experts; e++) {
        if (layer->copies[e] == 0)
            continue;
        const partner p = best_partner(layer, e, even);
        if (p.expert == UINT32_MAX)
            continue;
        const uint32_t a = layer->copy[(size_t)e * layer->ranks];
        const uint32_t b = layer->copy[(size_t)p.expert * layer->ranks];
        const double combine = combine_at(layer, e, b) - combine_at(layer, e, a) +
                               combine_at(layer, p.expert, a) - combine_at(layer, p.expert, b);
        changed |= exchange(layer, merge, e, p.expert, combine, p.rows);
    }
    return changed;
}

bool orr_place_single(orr_layer *layer, orr_merge *merge, const uint32_t *room, const bool *missing,
                      const volatile bool *stop)
{
    if (!place_hottest_first(layer, room, missing))
        return false;
    if (merge != NULL)
        orr_merge_place(merge, layer);
    orr_layer_sum(layer, false);
    const double even = evenness(layer);
    for (int i = 0; i < SWEEPS && !(stop != NULL && *stop); i++)
        if (!sweep(layer, merge, even))
            break;
    orr_layer_sum(layer, false);
    return true;
}
