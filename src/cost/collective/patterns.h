/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_COLLECTIVE_PATTERNS_H
#define ORR_COST_COLLECTIVE_PATTERNS_H

#include <orrery/cost.h>

/* Message patterns on one level: hops of the longest message, and link congestion: how much longer
 * the busiest link takes than one message alone on an endpoint (its messages times the endpoint's
 * bandwidth over its own).
 *
 * Letters: n units take part, of `size` that the level joins.
 *
 *   SWITCH           every link is an endpoint's
 *   RING, n = size   two links to neighbours, half the bandwidth each; the shorter way, and on
 *                    a tie clockwise from units of even index
 *   RING, n < size   n units side by side: a line
 *   FULLY_CONNECTED  a link to each of the size - 1 others
 *
 * Two units alone on a level have all its bandwidth whatever the topology. */
typedef struct orr_coll_topology {
    uint32_t n, size;
    uint8_t topology; /* orr_topology */
} orr_coll_topology;
typedef struct orr_coll_load {
    double hops, load;
} orr_coll_load;

orr_coll_topology orr_coll_topology_of(const orr_network *network, uint32_t level, uint32_t n);

/* Shift: every unit sends to the unit d places further, 1 <= d < n. */
orr_coll_load orr_coll_shift(const orr_coll_topology *shape, uint32_t d);
/* Exchange: partners that are d apart, a power of two, send to each other. */
orr_coll_load orr_coll_exchange(const orr_coll_topology *shape, uint32_t d);
/* All pairs: every unit sends one message to every other. */
orr_coll_load orr_coll_all_pairs(const orr_coll_topology *shape);
/* One to all: a unit, at the worst place, sends to every other. */
orr_coll_load orr_coll_one_to_all(const orr_coll_topology *shape);
/* Point to point: a unit sends to its neighbour. */
orr_coll_load orr_coll_point_to_point(const orr_coll_topology *shape);
/* Rings: `steps` steps around as many disjoint rings as the links allow, each with its share of
 * a message; hops in all, load of one step. */
orr_coll_load orr_coll_disjoint_rings(const orr_coll_topology *shape, uint32_t steps);

#endif /* ORR_COST_COLLECTIVE_PATTERNS_H */
