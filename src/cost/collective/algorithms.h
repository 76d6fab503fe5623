/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_COLLECTIVE_ALGORITHMS_H
#define ORR_COST_COLLECTIVE_ALGORITHMS_H

#include "cost/collective/patterns.h"

/* Algorithms on one level: steps and bytes of a collective among n >= 2 units, as in the table
 * of collective.h. `bytes`: S. False: the algorithm (neither AUTO nor HIERARCHICAL) does not
 * serve the collective. */
typedef struct orr_coll_traffic {
    double steps, bytes;
} orr_coll_traffic;
bool orr_coll_level_traffic(const orr_coll_topology *shape, bool in_network,
                            orr_collective collective, orr_algorithm algorithm, double bytes,
                            orr_coll_traffic *ret);
/* Least L with 2^L >= n. */
uint32_t orr_coll_log2(uint32_t n);

#endif /* ORR_COST_COLLECTIVE_ALGORITHMS_H */
