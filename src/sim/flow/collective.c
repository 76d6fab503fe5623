/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/flow/collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cost/collective/collective.h"
#include "sim/flow/state.h"

/* Lays a collective out as flows. The members of a group, in order of device, are digits of a
 * mixed-radix number, one digit for each level of the network: a line of a level is the set of
 * members that differ in that digit only. The collective becomes demands on lines, level by
 * level (collective_level.c), or one ring or tree through all members, as the algorithm says;
 * their sum over the busiest link is the closed form of cost/collective/. A group that fills
 * some units more than others is one line on a switch. */
typedef struct lines {
    const orr_flows *flows;
    const uint32_t *members;
    uint32_t n, root, n_levels;
    uint32_t level[ORR_LEVELS_MAX], width[ORR_LEVELS_MAX], below[ORR_LEVELS_MAX];
} lines;

static int by_device(const void *a_, const void *b_)
{
    const uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;
    return (a > b) - (a < b);
}

static lines lines_of(const orr_flows *flows, const uint32_t *sorted, uint32_t n, uint32_t root,
                      const orr_span *span)
{
    lines set = {.flows = flows, .members = sorted, .n = n, .root = root};
    if (!span->even) {
        set.n_levels = 1;
        set.level[0] = ORR_NONE;
        set.width[0] = n;
        set.below[0] = 1;
        return set;
    }
    uint32_t below = 1;
    for (uint32_t k = 0; k < span->n_levels; k++) {
        if (span->width[k] <= 1)
            continue;
        set.level[set.n_levels] = k;
        set.width[set.n_levels] = span->width[k];
        set.below[set.n_levels++] = below;
        below *= span->width[k];
    }
    return set;
}

static orr_flow_level line_at(const lines *set, uint32_t i, uint32_t first, int64_t bytes)
{
    orr_flow_level line = {.members = set->members + first,
                           .stride = set->below[i],
                           .root = set->root / set->below[i] % set->width[i],
                           .bytes = bytes};
    if (set->level[i] == ORR_NONE)
        line.shape = (orr_coll_topology){set->width[i], set->width[i], ORR_TOPOLOGY_SWITCH};
    else
        line.shape = orr_coll_topology_of(&set->flows->network, set->level[i], set->width[i]);
    return line;
}

/* First member of the next line along the i-th level, from `first` on; n: none. A rooted
 * collective has only lines through members that the root of the units below has reached. */
static uint32_t next_line(const lines *set, uint32_t i, uint32_t first, bool through_root)
{
    for (; first < set->n; first++)
        if (first / set->below[i] % set->width[i] == 0 &&
            (!through_root || first % set->below[i] == set->root % set->below[i]))
            return first;
    return set->n;
}

static bool has_root(orr_collective collective)
{
    return collective == ORR_COLL_BROADCAST || collective == ORR_COLL_REDUCE ||
           collective == ORR_COLL_SCATTER || collective == ORR_COLL_GATHER;
}

/* Flat ring: one ring through all members, or as many at once as a unit has members; on each
 * level, the share of the rings that cross it. */
static bool flat_ring(const lines *set, orr_collective collective, int64_t bytes, orr_demands *ret)
{
    if (!has_root(collective))
        bytes = orr_flow_bytes_of_part(
            bytes, (collective == ORR_COLL_ALL_REDUCE ? 2 : 1) * (set->n - 1ull), set->n);
    for (uint32_t i = 0; i < set->n_levels; i++) {
        const bool top = i + 1 == set->n_levels;
        const uint32_t width = set->width[i];
        const int64_t crossing = orr_flow_bytes_of_part(
            bytes, top ? 1 : width - 1, top ? set->below[i] : (uint64_t)set->below[i] * width);
        for (uint32_t at = next_line(set, i, 0, false); at < set->n;
             at = next_line(set, i, at + 1, false)) {
            const orr_flow_level line = line_at(set, i, at, bytes);
            if (!orr_flow_level_ring(&line, crossing, ret))
                return false;
        }
    }
    return true;
}

static bool flat_direct(const lines *set, orr_collective collective, int64_t bytes,
                        orr_demands *ret)
{
    const orr_flow_level line = {.members = set->members,
                                 .stride = 1,
                                 .root = set->root,
                                 .shape = {set->n, set->n, ORR_TOPOLOGY_SWITCH},
                                 .bytes = bytes};
    return orr_flow_level_demands(&line, collective, ORR_ALGORITHM_DIRECT, ret);
}

/* Bytes that a member holds on the i-th level: see cost/collective/schedule.c. */
static int64_t held_bytes(const lines *set, uint32_t i, orr_collective collective,
                          orr_algorithm algorithm, int64_t bytes)
{
    if (collective == ORR_COLL_ALL_GATHER || collective == ORR_COLL_REDUCE_SCATTER)
        return orr_flow_bytes_of_part(bytes, 1, set->below[i]);
    if (collective == ORR_COLL_ALL_REDUCE && algorithm != ORR_ALGORITHM_RECURSIVE_DOUBLING)
        return orr_flow_bytes_of_part(bytes, 1, set->below[i]);
    if (collective == ORR_COLL_SCATTER || collective == ORR_COLL_GATHER)
        return orr_flow_bytes_of_part(bytes, (uint64_t)set->below[i] * set->width[i], set->n);
    return bytes;
}

/* Level by level. An all-reduce goes up and comes down again, unless it sends whole vectors. */
static bool by_levels(const lines *set, orr_collective collective, orr_algorithm algorithm,
                      int64_t bytes, orr_demands *ret)
{
    for (uint32_t i = 0; i < set->n_levels; i++) {
        const bool top = i + 1 == set->n_levels;
        const bool split = collective == ORR_COLL_ALL_REDUCE && !top &&
                           algorithm != ORR_ALGORITHM_RECURSIVE_DOUBLING &&
                           algorithm != ORR_ALGORITHM_TREE;
        const int64_t held = held_bytes(set, i, collective, algorithm, bytes);
        for (uint32_t at = next_line(set, i, 0, has_root(collective)); at < set->n;
             at = next_line(set, i, at + 1, has_root(collective))) {
            const orr_flow_level line = line_at(set, i, at, held);
            for (int way = 0; way <= split; way++)
                if (!orr_flow_level_demands(&line, split ? ORR_COLL_ALL_GATHER : collective,
                                            algorithm, ret))
                    return false;
        }
    }
    return true;
}

static bool add_demands(const lines *set, orr_collective collective, orr_algorithm algorithm,
                        int64_t bytes, orr_demands *ret)
{
    if (set->n_levels > 1 && algorithm == ORR_ALGORITHM_RING)
        return flat_ring(set, collective, bytes, ret);
    if (set->n_levels > 1 && algorithm == ORR_ALGORITHM_DIRECT)
        return flat_direct(set, collective, bytes, ret);
    if (algorithm == ORR_ALGORITHM_HIERARCHICAL)
        algorithm = ORR_ALGORITHM_RING;
    return by_levels(set, collective, algorithm, bytes, ret);
}

/* Latency: what the price has beyond the time in which the busiest level carries the bytes at
 * full bandwidth. */
static int64_t latency_ns(const orr_network *network, const orr_coll_schedule *schedule,
                          int64_t price_ns)
{
    double most_ns = 0;
    for (uint32_t k = 0; k < network->n_levels; k++) {
        double bytes = 0;
        for (uint32_t i = 0; i < schedule->n; i++)
            bytes += schedule->phases[i].bytes[k] * schedule->pieces;
        const double bytes_per_s = network->levels[k].bytes_per_s[ORR_PROTOCOL_BANDWIDTH];
        most_ns = fmax(most_ns, bytes > 0 ? bytes * 1e9 / bytes_per_s : 0);
    }
    return (double)price_ns > most_ns ? price_ns - (int64_t)most_ns : 0;
}

/* Limits the pairs of a large group. An all-to-all is refused; collectives whose bytes through
 * each member equal those of a ring are sent along a ring. */
static orr_status limit_pairs(orr_algorithm *algorithm, orr_collective collective, uint32_t n,
                              orr_error *err)
{
    static const uint64_t MOST_PAIRS = 1 << 22, MOST_IF_AVOIDABLE = 1 << 18;
    const uint64_t pairs = (uint64_t)n * n;
    if (collective == ORR_COLL_ALL_TO_ALL && pairs > MOST_PAIRS)
        return orr_fail(err, ORR_LIMIT, "all pairs of %u members are more than 2^22 flows", n);
    if (collective != ORR_COLL_ALL_TO_ALL && !has_root(collective) &&
        *algorithm == ORR_ALGORITHM_DIRECT && pairs > MOST_IF_AVOIDABLE)
        *algorithm = ORR_ALGORITHM_RING;
    return ORR_OK;
}

static orr_status demands_of(orr_flows *flows, const uint32_t *members, uint32_t *sorted,
                             uint32_t n, orr_collective collective, orr_algorithm algorithm,
                             int64_t bytes, uint32_t root, orr_demands *ret, orr_error *err)
{
    orr_span span;
    orr_coll_schedule schedule = {0};
    memcpy(sorted, members, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_device);
    ORR_TRY(orr_cluster_span(&flows->cluster, sorted, n, &span, err));
    (void)orr_coll_choose(&flows->network, &span, collective, algorithm,
                          bytes > 0 ? (double)bytes : 0, &algorithm, &schedule);
    ret->n = 0;
    ret->price = orr_collective_price(&flows->network, &span, collective, algorithm, bytes);
    ORR_TRY(limit_pairs(&algorithm, collective, n, err));
    ret->latency_ns = latency_ns(&flows->network, &schedule, ret->price.ns);
    if (bytes <= 0 || n < 2)
        return ORR_OK;
    if (collective == ORR_COLL_SEND || collective == ORR_COLL_RECV) {
        const orr_flow_demand demand = {members[0], members[1], bytes};
        return orr_array_push(ret, demand) ? ORR_OK : orr_fail_memory(err);
    }
    const uint32_t *at =
        bsearch(&members[root < n ? root : 0], sorted, n, sizeof *sorted, by_device);
    const lines set = lines_of(flows, sorted, n, (uint32_t)(at - sorted), &span);
    return add_demands(&set, collective, algorithm, bytes, ret) ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_flows_of_collective(orr_flows *flows, const uint32_t *members, uint32_t n,
                                   orr_collective collective, orr_algorithm algorithm,
                                   int64_t bytes, uint32_t root, orr_demands *ret, orr_error *err)
{
    uint32_t *sorted = orr_calloc(n > 0 ? n : 1, sizeof *sorted);
    if (sorted == NULL)
        return orr_fail_memory(err);
    const orr_status status =
        demands_of(flows, members, sorted, n, collective, algorithm, bytes, root, ret, err);
    orr_free(sorted);
    return status;
}

void orr_demands_done(orr_demands *demands)
{
    orr_array_done(demands);
}
