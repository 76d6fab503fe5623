/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/collective/collective.h"

#include <math.h>

#include "cost/collective/algorithms.h"

/* Schedules of collectives over several levels: messages in a row (`steps`) and bytes on each
 * level, before any constant enters. A group spreads over levels from the inside out; level i
 * joins units of below[i] members. Five forms: a flat ring or tree through all members (as many
 * at once as a unit has members); direct, where each pair uses the lowest level that joins it;
 * level by level within one collective, as recursive doubling goes; and hierarchical, with a
 * collective for each level (reduce-scatter inside, all-reduce across, all-gather inside), each
 * with the cheapest algorithm on its level. Two complications: a transfer across a level also
 * passes through the endpoints of levels below in the same network (passed_through), and where
 * units are uneven, traffic between them goes through the ports of the smaller ones (`ports`). */
typedef struct layout {
    const orr_network *network;
    uint32_t n, level[ORR_LEVELS_MAX];
    double below[ORR_LEVELS_MAX]; /* members in one unit that level[i] joins */
    double ports[ORR_LEVELS_MAX]; /* of a unit, for traffic to others */
    double members;
    bool reduces;   /* the collective reduces, so its bytes may be compressed */
    bool exchanges; /* an all-to-all, whose bytes may fan out */
    orr_coll_topology shape[ORR_LEVELS_MAX];
} layout;

/* Average members of the units that are not the fullest; the fullest holds `most`. */
static double fewest(const orr_span *span, double most)
{
    const double units = span->width[span->top], mean = span->n_ranks / units;
    return fmin(fmax((span->n_ranks - most) / (units - 1), mean / 2), mean);
}

static layout layout_of(const orr_network *network, const orr_span *span, orr_collective collective)
{
    layout lay = {.network = network,
                  .exchanges = collective == ORR_COLL_ALL_TO_ALL,
                  .reduces = collective == ORR_COLL_ALL_REDUCE ||
                             collective == ORR_COLL_REDUCE_SCATTER ||
                             collective == ORR_COLL_REDUCE};
    double below = 1;
    for (uint32_t k = 0; k < span->n_levels && k < ORR_LEVELS_MAX; k++) {
        if (span->width[k] <= 1)
            continue;
        lay.level[lay.n] = k;
        lay.below[lay.n] = lay.ports[lay.n] = below;
        if (network->uneven[k] && !span->even && k == span->top)
            lay.ports[lay.n] = fewest(span, below);
        lay.shape[lay.n++] = orr_coll_topology_of(network, k, span->width[k]);
        below *= span->width[k];
    }
    lay.members = lay.n == 1 ? below : span->n_ranks;
    return lay;
}

static double oversubscription(const orr_network *network, uint32_t level)
{
    const double ratio = network->oversubscription[level];
    return ratio > 1 ? ratio : 1;
}

uint32_t orr_network_lowest_level(const orr_network *network, uint32_t k)
{
    while (k > 0 && network->scale_up[k - 1] == network->scale_up[k])
        k--;
    return k;
}

/* Adds steps and bytes of a level to the phase. `peers`: connections over which a member sends
 * at once. */
static void need_through(const layout *lay, uint32_t i, orr_coll_traffic need, double peers,
                         orr_coll_phase *phase)
{
    const uint32_t level = lay->level[i];
    const double frac = lay->network->bytes_frac[level];
    if (lay->reduces && frac > 0 && frac < 1) {
        phase->copied_bytes += 2 * (1 + frac) * need.bytes;
        need.bytes *= frac;
    }
    phase->steps[level] += need.steps;
    phase->bytes[level] += need.bytes * oversubscription(lay->network, level);
    phase->sent[level] += need.bytes / peers;
}

static void need_at(const layout *lay, uint32_t i, orr_coll_traffic need, orr_coll_phase *phase)
{
    need_through(lay, i, need, 1, phase);
}

/* Times as many bytes of an all-to-all as pairs exchange: see orr_network.fan_out. */
static double fan_out(const layout *lay, uint32_t i)
{
    const double times = lay->network->fan_out[lay->level[i]];
    return lay->exchanges && times > 0 ? times : 1;
}

static bool level_need(const layout *lay, uint32_t i, orr_collective collective,
                       orr_algorithm algorithm, double bytes, orr_coll_phase *phase)
{
    orr_coll_traffic need;
    bytes *= fan_out(lay, i);
    if (!orr_coll_level_traffic(&lay->shape[i], lay->network->in_network[lay->level[i]], collective,
                                algorithm, bytes, &need))
        return false;
    need_through(lay, i, need, algorithm == ORR_ALGORITHM_DIRECT ? lay->shape[i].n - 1.0 : 1,
                 phase);
    return true;
}

/* Do transfers across the level above pass through the endpoints of this one? */
static bool passed_through(const layout *lay, uint32_t i)
{
    return i + 1 < lay->n && lay->shape[i].topology == ORR_TOPOLOGY_SWITCH &&
           orr_network_lowest_level(lay->network, lay->level[i + 1]) <= lay->level[i];
}

/* Flat ring through all members: on each level, the edges that cross it, and the share of the
 * bytes that a unit's members carry together. Inside a unit of n the n-th edge of each ring
 * leads out of it. */
static bool flat_ring(const layout *lay, orr_collective collective, double bytes,
                      orr_coll_phase *phase)
{
    const double all_but_one = (lay->members - 1) / lay->members;
    const uint32_t rounds = collective == ORR_COLL_ALL_REDUCE ? 2 : 1;
    double units = 1;
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
        bytes *= rounds * all_but_one;
        break;
    case ORR_COLL_BROADCAST:
    case ORR_COLL_REDUCE:
        break;
    default:
        return false;
    }
    phase->together = true;
    for (uint32_t i = lay->n; i-- > 0;) {
        const orr_coll_topology *shape = &lay->shape[i];
        const bool top = i == lay->n - 1;
        const double edges = units * (top ? shape->n : shape->n - 1) - (i == 0);
        const orr_coll_load around = orr_coll_disjoint_rings(shape, rounds * shape->n);
        const double inside = top || passed_through(lay, i) ? 1 : (shape->n - 1.0) / shape->n;
        const orr_coll_traffic need = {top ? around.hops : rounds * edges,
                                       around.load * inside * bytes / lay->ports[i]};
        need_at(lay, i, need, phase);
        units *= shape->n;
    }
    return true;
}

/* The level on which the longest message takes longest. */
static uint32_t farthest_level(const layout *lay, bool from_root)
{
    double most_ns = -1;
    uint32_t farthest = 0;
    for (uint32_t i = 0; i < lay->n; i++) {
        const orr_coll_load load =
            from_root ? orr_coll_one_to_all(&lay->shape[i]) : orr_coll_all_pairs(&lay->shape[i]);
        const double ns =
            load.hops * lay->network->levels[lay->level[i]].alpha_ns[ORR_PROTOCOL_BANDWIDTH];
        if (ns >= most_ns) {
            most_ns = ns;
            farthest = i;
        }
    }
    return farthest;
}

/* Bytes to other units pass through this level too, in connections that are counted at their own
 * level. */
static void pass_through(const layout *lay, uint32_t i, double bytes, orr_coll_phase *phase)
{
    phase->bytes[lay->level[i]] += bytes * oversubscription(lay->network, lay->level[i]);
}

/* Direct: messages of one member (or of the root) to all others, each over the lowest level that
 * joins the two and, in the same network, through the switches below it. */
static bool flat_direct(const layout *lay, orr_collective collective, double bytes,
                        orr_coll_phase *phase)
{
    const bool from_root = collective == ORR_COLL_BROADCAST || collective == ORR_COLL_REDUCE ||
                           collective == ORR_COLL_SCATTER || collective == ORR_COLL_GATHER;
    const bool whole = collective == ORR_COLL_BROADCAST || collective == ORR_COLL_REDUCE;
    const double message = whole ? bytes : bytes / lay->members;
    const uint32_t rounds = collective == ORR_COLL_ALL_REDUCE ? 2 : 1;
    const uint32_t farthest = farthest_level(lay, from_root);
    phase->together = true;
    for (uint32_t i = 0; i < lay->n; i++) {
        const orr_coll_load load =
            from_root ? orr_coll_one_to_all(&lay->shape[i]) : orr_coll_all_pairs(&lay->shape[i]);
        const double across = rounds * load.load * lay->below[i] * message * fan_out(lay, i);
        const uint32_t base = orr_network_lowest_level(lay->network, lay->level[i]);
        need_through(lay, i, (orr_coll_traffic){i == farthest ? rounds * load.hops : 0, across},
                     (lay->shape[i].n - 1) * lay->below[i], phase);
        for (uint32_t j = 0; j < i; j++)
            if (lay->level[j] >= base && lay->shape[j].topology == ORR_TOPOLOGY_SWITCH)
                pass_through(lay, j, across, phase);
    }
    return true;
}

static bool flat_tree(const layout *lay, double bytes, orr_coll_phase *phase)
{
    phase->together = true;
    for (uint32_t i = 0; i < lay->n; i++) {
        const orr_coll_topology *shape = &lay->shape[i];
        if (shape->topology != ORR_TOPOLOGY_SWITCH)
            return false;
        need_at(lay, i, (orr_coll_traffic){2 * orr_coll_log2(shape->n), 2 * bytes / lay->ports[i]},
                phase);
    }
    return true;
}

/* Bytes that a member (or the root of a unit) holds when the i-th level's turn comes. */
static double held_bytes(const layout *lay, uint32_t i, orr_collective collective, double bytes)
{
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
        return bytes / lay->ports[i];
    case ORR_COLL_SCATTER:
    case ORR_COLL_GATHER:
        for (uint32_t above = i + 1; above < lay->n; above++)
            bytes /= lay->shape[above].n;
        return bytes;
    default:
        return bytes;
    }
}

/* Level by level within one collective. */
static bool by_levels(const layout *lay, orr_collective collective, orr_algorithm algorithm,
                      double bytes, orr_coll_phase *phase)
{
    const bool all_reduce = collective == ORR_COLL_ALL_REDUCE;
    const bool full_vectors = all_reduce && algorithm == ORR_ALGORITHM_RECURSIVE_DOUBLING;
    for (uint32_t i = 0; i < lay->n; i++) {
        const double held = full_vectors ? bytes : held_bytes(lay, i, collective, bytes);
        const bool split = all_reduce && !full_vectors && i + 1 < lay->n;
        if (!split && !level_need(lay, i, collective, algorithm, held, phase))
            return false;
        if (split && (!level_need(lay, i, ORR_COLL_REDUCE_SCATTER, algorithm, held, phase) ||
                      !level_need(lay, i, ORR_COLL_ALL_GATHER, algorithm, held, phase)))
            return false;
    }
    return true;
}

static orr_coll_phase *next_phase(orr_coll_schedule *schedule)
{
    orr_coll_phase *phase = &schedule->phases[schedule->n++];
    *phase = (orr_coll_phase){0};
    return phase;
}

/* One phase: the cheapest algorithm on the i-th level. */
static bool cheapest_on_level(const layout *lay, uint32_t i, orr_collective collective,
                              double bytes, orr_coll_schedule *ret)
{
    double best_ns = INFINITY;
    orr_coll_phase *best = next_phase(ret);
    for (int a = ORR_ALGORITHMS - 1; a > ORR_ALGORITHM_AUTO; a--) {
        orr_coll_phase phase = {.in_network = a == ORR_ALGORITHM_IN_NETWORK};
        if (a == ORR_ALGORITHM_HIERARCHICAL ||
            !level_need(lay, i, collective, (orr_algorithm)a, bytes, &phase))
            continue;
        const double ns = orr_coll_phase_ns(lay->network, &phase, NULL);
        if (ns < best_ns) {
            best_ns = ns;
            *best = phase;
        }
    }
    return best_ns < INFINITY;
}

/* Hierarchical: reduce-scatter inside, all-reduce across, all-gather inside; other collectives
 * once on each level. */
static bool hierarchical(const layout *lay, orr_collective collective, double bytes,
                         orr_coll_schedule *ret)
{
    if (lay->n < 2)
        return false;
    const bool all_reduce = collective == ORR_COLL_ALL_REDUCE;
    if (lay->network->chunks > 1)
        ret->pieces = lay->network->chunks;
    for (uint32_t i = 0; i < lay->n; i++) {
        const double held = held_bytes(lay, i, collective, bytes / ret->pieces);
        const bool top = i + 1 == lay->n;
        if (!cheapest_on_level(lay, i, all_reduce && !top ? ORR_COLL_REDUCE_SCATTER : collective,
                               held, ret))
            return false;
        if (all_reduce && !top && !cheapest_on_level(lay, i, ORR_COLL_ALL_GATHER, held, ret))
            return false;
    }
    return true;
}

static bool one_phase(const layout *lay, orr_collective collective, orr_algorithm algorithm,
                      double bytes, orr_coll_phase *phase)
{
    phase->in_network = algorithm == ORR_ALGORITHM_IN_NETWORK;
    if (lay->n == 1)
        return level_need(lay, 0, collective, algorithm, bytes, phase);
    if (algorithm == ORR_ALGORITHM_RING)
        return flat_ring(lay, collective, bytes, phase);
    if (algorithm == ORR_ALGORITHM_DIRECT)
        return flat_direct(lay, collective, bytes, phase);
    if (algorithm == ORR_ALGORITHM_TREE && collective == ORR_COLL_ALL_REDUCE)
        return flat_tree(lay, bytes, phase);
    return by_levels(lay, collective, algorithm, bytes, phase);
}

bool orr_coll_schedule_of(const orr_network *network, const orr_span *span,
                          orr_collective collective, orr_algorithm algorithm, double bytes,
                          orr_coll_schedule *ret)
{
    const layout lay = layout_of(network, span, collective);
    ret->n = 0;
    ret->pieces = 1;
    if (collective == ORR_COLL_BARRIER) {
        collective = ORR_COLL_ALL_REDUCE;
        bytes = 0;
    }
    if (collective == ORR_COLL_UNKNOWN)
        return false;
    if (lay.n > 0 && (collective == ORR_COLL_SEND || collective == ORR_COLL_RECV)) {
        const orr_coll_load load = orr_coll_point_to_point(&lay.shape[lay.n - 1]);
        if (algorithm != ORR_ALGORITHM_DIRECT)
            return false;
        need_at(&lay, lay.n - 1, (orr_coll_traffic){load.hops, load.load * bytes}, next_phase(ret));
    } else if (lay.n > 0 && algorithm == ORR_ALGORITHM_HIERARCHICAL) {
        return hierarchical(&lay, collective, bytes, ret);
    } else if (lay.n > 0) {
        return one_phase(&lay, collective, algorithm, bytes, next_phase(ret));
    }
    return true;
}

void orr_coll_gather_nearest_first(const orr_network *network, const orr_span *span, double bytes,
                                   orr_coll_phase *ret)
{
    const layout lay = layout_of(network, span, ORR_COLL_ALL_GATHER);
    orr_coll_phase phase = {0};
    double block = bytes / lay.members; /* what each member holds before the i-th level */
    for (uint32_t i = 0; i < lay.n; i++) {
        block *= lay.shape[i].n;
        level_need(&lay, i, ORR_COLL_ALL_GATHER, ORR_ALGORITHM_RECURSIVE_DOUBLING, block, &phase);
    }
    *ret = phase;
}
