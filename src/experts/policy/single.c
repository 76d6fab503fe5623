/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/single.h"

#include <math.h>
#include <string.h>

enum { SWEEPS = 16 };
#define WORTH 1e-6 /* of the smooth measure: a sweep that brings less is the last */

orr_status orr_single_new(const orr_policy_problem *p, const orr_merge *merge, orr_arena *arena,
                          orr_single *ret, orr_error *err)
{
    const size_t cells = (size_t)p->ranks * p->experts;
    orr_single s = {.merge = merge,
                    .rank = orr_arena_array(arena, uint16_t, p->experts),
                    .at = orr_arena_array(arena, double, cells),
                    .row_ns = merge != NULL ? orr_arena_array(arena, double, cells) : NULL,
                    .saved = orr_arena_array(arena, double, cells),
                    .there = orr_arena_array(arena, double, p->ranks)};
    if (s.rank == NULL || s.at == NULL || (merge != NULL && s.row_ns == NULL) || s.saved == NULL ||
        s.there == NULL)
        return orr_fail_memory(err);
    *ret = s;
    return ORR_OK;
}

/* The mean port's ns of an expert's rows to a rank, by what a row costs within the host and beyond.
 */
static double port_ns(const orr_layer *layer, uint32_t e, uint32_t rank,
                      const double row_ns[ORR_LEVELS])
{
    const double own = (double)layer->flow[(size_t)e * layer->ranks + rank];
    const double near =
        (double)layer->host_flow[(size_t)e * layer->hosts + rank / layer->host_ranks];
    return ((near - own) * row_ns[ORR_HOST] +
            ((double)layer->total[e] - near) * row_ns[ORR_NETWORK]) /
           layer->live;
}

/* What links cost where experts stand alone. */
static void price_links(orr_single *s)
{
    const orr_layer *layer = s->layer;
    double both[ORR_LEVELS];
    for (int level = 0; level < ORR_LEVELS; level++)
        both[level] = layer->costs->combine_ns[level] + layer->costs->dispatch_ns[level];
    for (uint32_t r = 0; r < layer->ranks; r++)
        for (uint32_t e = 0; e < layer->experts; e++) {
            const size_t i = (size_t)r * layer->experts + e;
            s->at[i] = port_ns(layer, e, r, both);
            s->saved[i] = 0;
            if (s->merge != NULL)
                s->row_ns[i] = layer->total[e] > 0
                                   ? port_ns(layer, e, r, layer->costs->dispatch_ns) /
                                         (double)layer->total[e] * s->merge->rows
                                   : 0;
        }
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

static bool place_hottest_first(orr_single *s, const uint32_t *room, const bool *missing)
{
    orr_layer *layer = s->layer;
    for (uint32_t e; (e = hottest_left(layer, missing)) != UINT32_MAX;) {
        const double load = (double)layer->total[e];
        double best = INFINITY;
        uint32_t to = UINT32_MAX;
        for (uint32_t r = 0; r < layer->ranks; r++) {
            if (layer->used[r] >= room[r] || !orr_layer_may(layer, e, r))
                continue;
            const double ns = s->at[(size_t)r * layer->experts + e] +
                              s->even * load * (2 * layer->rows[r] + load);
            if (ns < best) {
                best = ns;
                to = r;
            }
        }
        if (to == UINT32_MAX)
            return false;
        orr_layer_add(layer, e, to);
        orr_layer_put_in(layer, e);
        s->rank[e] = (uint16_t)to;
    }
    return true;
}

/* --- exchanges -------------------------------------------------------------------------------- */

/* Adds what experts save on a rank by pairs with `e`, `sign` times. */
static void add_pairs(orr_single *s, uint32_t e, uint32_t rank, double sign)
{
    const size_t experts = s->layer->experts;
    const float *pair = s->merge->pair + e * experts;
    const double *row_ns = s->row_ns + rank * experts, own = row_ns[e];
    double *saved = s->saved + rank * experts;
    for (size_t other = 0; other < experts; other++)
        saved[other] += sign * (double)pair[other] * (row_ns[other] + own) / 2;
}

static void move(orr_single *s, uint32_t e, uint32_t to)
{
    const uint32_t from = s->rank[e];
    orr_layer *layer = s->layer;
    orr_layer_take_out(layer, e);
    orr_layer_drop(layer, e, from);
    orr_layer_add(layer, e, to);
    orr_layer_put_in(layer, e);
    s->rank[e] = (uint16_t)to;
    if (s->merge != NULL) {
        add_pairs(s, e, from, -1);
        add_pairs(s, e, to, 1);
    }
}

/* Links of an expert on a rank, with those that are there. */
static double links_at(const orr_single *s, uint32_t e, uint32_t rank)
{
    const size_t i = (size_t)rank * s->layer->experts + e;
    return s->at[i] - s->saving * s->saved[i];
}

/* What the pair of two experts, that each goes where the other was, does not save there. */
static double parted(const orr_single *s, uint32_t e, uint32_t f, uint32_t a, uint32_t b)
{
    const size_t experts = s->layer->experts;
    const double *at_a = s->row_ns + a * experts, *at_b = s->row_ns + b * experts;
    return s->saving * (double)s->merge->pair[e * experts + f] *
           (at_a[e] + at_a[f] + at_b[e] + at_b[f]) / 2;
}

/* The expert whose exchange with e helps most; *ret_change: of the smooth measure. */
static uint32_t best_partner(const orr_single *s, uint32_t e, double *ret_change)
{
    const orr_layer *layer = s->layer;
    const uint32_t a = s->rank[e];
    const double here = links_at(s, e, a);
    uint32_t ret = UINT32_MAX;
    double best = -1e-9 * layer->mean_rows;
    for (uint32_t r = 0; r < layer->ranks; r++)
        s->there[r] = links_at(s, e, r) - here;
    for (uint32_t f = 0; f < layer->experts; f++) {
        const uint32_t b = s->rank[f];
        if (b == UINT16_MAX || a == b)
            continue;
        const double moved = (double)layer->total[e] - (double)layer->total[f];
        double change = s->even * 2 * moved * (layer->rows[b] - layer->rows[a] + moved) +
                        s->there[b] + links_at(s, f, a) - links_at(s, f, b);
        if (change >= best)
            continue;
        if (s->merge != NULL)
            change += parted(s, e, f, a, b);
        if (change < best && orr_layer_may(layer, e, b) && orr_layer_may(layer, f, a)) {
            best = change;
            ret = f;
        }
    }
    *ret_change = best;
    return ret;
}

/* By how much a sweep over all experts lowers the smooth measure. */
static double sweep(orr_single *s)
{
    double ret = 0, change;
    for (uint32_t e = 0; e < s->layer->experts; e++) {
        const uint32_t a = s->rank[e];
        const uint32_t f = a != UINT16_MAX ? best_partner(s, e, &change) : UINT32_MAX;
        if (f == UINT32_MAX)
            continue;
        move(s, e, s->rank[f]);
        move(s, f, a);
        ret -= change;
    }
    return ret;
}

bool orr_single_place(orr_single *s, orr_layer *layer, const uint32_t *room, const bool *missing,
                      const volatile bool *stop)
{
    const double sum = layer->mean_rows * layer->live;
    s->layer = layer;
    s->even = sum > 0 ? layer->costs->evenness / sum : 0;
    s->saving = 0;
    memset(s->rank, 0xff, layer->experts * sizeof *s->rank);
    price_links(s);
    if (!place_hottest_first(s, room, missing))
        return false;
    for (uint32_t e = 0; e < layer->experts && s->merge != NULL; e++)
        if (s->rank[e] != UINT16_MAX)
            add_pairs(s, e, s->rank[e], 1);
    orr_layer_sum(layer, false);
    for (int i = 0; i < SWEEPS && !(stop != NULL && *stop); i++) {
        if (s->merge != NULL)
            s->saving = orr_merge_saving(s->merge, s->rank);
        if (sweep(s) <= WORTH * orr_layer_smooth(layer))
            break;
    }
    if (s->merge != NULL)
        orr_merge_place(s->merge, layer);
    orr_layer_sum(layer, false);
    return true;
}
