/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/copies.h"

#include <math.h>

typedef double measure(const orr_layer *layer);

/* A change of one or two experts: e goes from rank a to rank b, f from b to a. Either may be absent
 * on its side: with from == NONE a copy appears, with to == NONE it disappears. */
enum { NONE = UINT32_MAX };
typedef struct change {
    uint32_t e, e_from, e_to;
    uint32_t f, f_from, f_to; /* f NONE: e alone */
} change;

static void move_copy(orr_layer *layer, uint32_t expert, uint32_t from, uint32_t to)
{
    if (from != NONE)
        orr_layer_drop(layer, expert, from);
    if (to != NONE)
        orr_layer_add(layer, expert, to);
}

static void apply(orr_layer *layer, const change *c, bool back)
{
    orr_layer_take_out(layer, c->e);
    move_copy(layer, c->e, back ? c->e_to : c->e_from, back ? c->e_from : c->e_to);
    orr_layer_put_in(layer, c->e);
    if (c->f == NONE)
        return;
    orr_layer_take_out(layer, c->f);
    move_copy(layer, c->f, back ? c->f_to : c->f_from, back ? c->f_from : c->f_to);
    orr_layer_put_in(layer, c->f);
}

/* By how much a change lowers a measure; nothing is changed. */
static double gain_of(orr_layer *layer, const change *c, measure *by)
{
    const double before = by(layer);
    apply(layer, c, false);
    const double ret = before - by(layer);
    apply(layer, c, true);
    return ret;
}

static bool exchangeable(const orr_layer *layer, uint32_t e, uint32_t a, uint32_t f, uint32_t b)
{
    return e != f && a != b && layer->has[(size_t)e * layer->ranks + a] &&
           layer->has[(size_t)f * layer->ranks + b] && orr_layer_may(layer, e, b) &&
           orr_layer_may(layer, f, a);
}

/* --- by the smooth measure -------------------------------------------------------------------- */

/* Another copy for the one that a rank misses least. */
static bool replace_copy(orr_layer *layer, uint32_t rank, double least, uint64_t *trials)
{
    double most = -INFINITY, fewest = -INFINITY;
    uint32_t add = NONE, drop = NONE;
    for (uint32_t e = 0; e < layer->experts && (*trials) > 0; e++) {
        const bool here = layer->has[(size_t)e * layer->ranks + rank];
        if (layer->copies[e] == 0 || (here ? layer->copies[e] < 2 : !orr_layer_may(layer, e, rank)))
            continue;
        const change c = {e, here ? rank : NONE, here ? NONE : rank, NONE, NONE, NONE};
        const double gain = gain_of(layer, &c, orr_layer_smooth);
        --*trials;
        if (here ? gain > fewest : gain > most) {
            *(here ? &fewest : &most) = gain;
            *(here ? &drop : &add) = e;
        }
    }
    if (add == NONE || drop == NONE)
        return false;
    const change c = {add, NONE, rank, drop, rank, NONE};
    if (gain_of(layer, &c, orr_layer_smooth) <= least)
        return false;
    apply(layer, &c, false);
    return true;
}

/* Rows that tokens of a rank alone send to an expert: an exchange that brings two ranks more of
 * their own is worth a look. */
static double own(const orr_layer *layer, uint32_t expert, uint32_t rank)
{
    return (double)layer->flow[(size_t)expert * layer->ranks + rank];
}

static bool exchange_copies(orr_layer *layer, uint32_t e, uint32_t a, double least,
                            uint64_t *trials)
{
    change best = {.e = NONE};
    double most = least;
    for (uint32_t f = 0; f < layer->experts; f++)
        for (uint32_t i = 0; i < layer->copies[f] && *trials > 0; i++) {
            const uint32_t b = layer->copy[(size_t)f * layer->ranks + i];
            if (!exchangeable(layer, e, a, f, b) ||
                own(layer, e, b) + own(layer, f, a) <= own(layer, e, a) + own(layer, f, b))
                continue;
            const change c = {e, a, b, f, b, a};
            const double gain = gain_of(layer, &c, orr_layer_smooth);
            --*trials;
            if (gain > most) {
                most = gain;
                best = c;
            }
        }
    if (best.e == NONE)
        return false;
    apply(layer, &best, false);
    return true;
}

static bool sweep(orr_layer *layer, double least, uint64_t *trials)
{
    bool changed = false;
    for (uint32_t r = 0; r < layer->ranks; r++)
        while (*trials > 0 && replace_copy(layer, r, least, trials))
            changed = true;
    for (uint32_t e = 0; e < layer->experts; e++)
        for (uint32_t i = 0; i < layer->copies[e] && *trials > 0; i++)
            changed |=
                exchange_copies(layer, e, layer->copy[(size_t)e * layer->ranks + i], least, trials);
    return changed;
}

/* --- by the step's measure -------------------------------------------------------------------- */

/* The rank with most rows, or with the fullest port. */
static uint32_t binding_rank(const orr_layer *layer, bool ports)
{
    uint32_t ret = 0;
    double most = -1;
    for (uint32_t r = 0; r < layer->ranks; r++) {
        double now = layer->rows[r];
        if (ports)
            now = fmax(fmax(layer->port[0][ORR_HOST][r], layer->port[0][ORR_NETWORK][r]),
                       fmax(layer->port[1][ORR_HOST][r], layer->port[1][ORR_NETWORK][r]));
        if (now > most) {
            most = now;
            ret = r;
        }
    }
    return ret;
}

/* The best exchange with a rank's copies. */
static bool relieve(orr_layer *layer, uint32_t rank, double least, uint64_t *trials)
{
    change best = {.e = NONE};
    double most = least;
    for (uint32_t e = 0; e < layer->experts; e++) {
        if (!layer->has[(size_t)e * layer->ranks + rank])
            continue;
        for (uint32_t f = 0; f < layer->experts; f++)
            for (uint32_t i = 0; i < layer->copies[f] && *trials > 0; i++) {
                const uint32_t b = layer->copy[(size_t)f * layer->ranks + i];
                if (!exchangeable(layer, e, rank, f, b))
                    continue;
                const change c = {e, rank, b, f, b, rank};
                const double gain = gain_of(layer, &c, orr_layer_step);
                --*trials;
                if (gain > most) {
                    most = gain;
                    best = c;
                }
            }
    }
    if (best.e == NONE)
        return false;
    apply(layer, &best, false);
    return true;
}

void orr_copies_improve(orr_layer *layer, uint64_t trials, const volatile bool *stop)
{
    orr_layer_sum(layer, false);
    const double least = 1e-7 * orr_layer_smooth(layer);
    while (trials > 0 && !(stop != NULL && *stop) && sweep(layer, least, &trials))
        continue;
    orr_layer_sum(layer, false);
}

void orr_copies_relieve(orr_layer *layer, uint64_t trials, const volatile bool *stop)
{
    orr_layer_sum(layer, true);
    const double least = 1e-7 * orr_layer_step(layer);
    for (bool changed = true; changed && trials > 0 && !(stop != NULL && *stop);) {
        changed = relieve(layer, binding_rank(layer, true), least, &trials);
        changed |= relieve(layer, binding_rank(layer, false), least, &trials);
    }
    orr_layer_sum(layer, true);
}

/* --- shares ----------------------------------------------------------------------------------- */

/* Pours `rows` onto the copies of an expert until their ranks are level (water-filling), and says
 * which share each got. */
static void pour(const orr_layer *layer, uint32_t expert, double rows, double *of_rank, float *ret)
{
    const uint16_t *copy = layer->copy + (size_t)expert * layer->ranks;
    const uint32_t n = layer->copies[expert];
    double level = INFINITY;
    /* Each round leaves out ranks that are above the level of the others. */
    for (uint32_t round = 0; round <= n; round++) {
        double sum = rows;
        uint32_t below = 0;
        for (uint32_t i = 0; i < n; i++)
            if (of_rank[copy[i]] < level) {
                sum += of_rank[copy[i]];
                below++;
            }
        if (below == 0 || sum / below >= level)
            break;
        level = sum / below;
    }
    for (uint32_t i = 0; i < n; i++) {
        const double part = fmax(level - of_rank[copy[i]], 0);
        of_rank[copy[i]] += part;
        ret[i] = rows > 0 ? (float)(part / rows) : 1.0F / (float)n;
    }
}

/* Rows of an expert that no copy on the token's own rank takes. */
static double spilled(const orr_layer *layer, uint32_t expert)
{
    double ret = (double)layer->total[expert];
    for (uint32_t i = 0; i < layer->copies[expert] && !layer->by_share; i++)
        ret -= own(layer, expert, layer->copy[(size_t)expert * layer->ranks + i]);
    return fmax(ret, 0);
}

void orr_copies_share(const orr_layer *layer, double *rows, float *ret)
{
    enum { ROUNDS = 8 };
    for (uint32_t r = 0; r < layer->ranks; r++)
        rows[r] = 0;
    for (uint32_t e = 0; e < layer->experts; e++)
        for (uint32_t i = 0; i < layer->copies[e]; i++) {
            const size_t at = (size_t)e * layer->ranks;
            const uint32_t r = layer->copy[at + i];
            ret[at + i] = 1.0F / (float)layer->copies[e];
            rows[r] +=
                (layer->by_share ? 0 : own(layer, e, r)) + spilled(layer, e) / layer->copies[e];
        }
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t e = 0; e < layer->experts; e++) {
            const size_t at = (size_t)e * layer->ranks;
            const double rest = spilled(layer, e);
            if (layer->copies[e] < 2)
                continue;
            for (uint32_t i = 0; i < layer->copies[e]; i++)
                rows[layer->copy[at + i]] -= rest * (double)ret[at + i];
            pour(layer, e, rest, rows, ret + at);
        }
}
