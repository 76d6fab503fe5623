/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_COLLECTIVE_H
#define ORR_SIM_FLOW_COLLECTIVE_H

#include "cost/collective/patterns.h"
#include "sim/flow/flows.h"

/* Demands of a collective on one line: members of a group that differ on one level only.
 * orr_flows_of_collective() combines lines.
 *
 * Bytes are those of the closed forms (cost/collective/collective.h), up to rounding up to whole
 * bytes; hierarchical algorithms send along rings (all candidates carry the same bytes through
 * an endpoint). In-network reduction has no peer: what a member sends to the switches is
 * modelled as sent to the next member, which loads the same ports. */
typedef struct orr_flow_level {
    const uint32_t *members; /* devices: members[i * stride], 0 <= i < shape.n */
    size_t stride;
    orr_coll_topology shape;
    uint32_t root; /* index of the root */
    int64_t bytes; /* bytes that a member holds */
} orr_flow_level;
/* Appends the demands of a collective. False: out of memory. */
bool orr_flow_level_demands(const orr_flow_level *line, orr_collective collective,
                            orr_algorithm algorithm, orr_demands *ret);
/* Appends a ring: `bytes` from each member to its neighbours, over as many rings as the links
 * allow. */
bool orr_flow_level_ring(const orr_flow_level *line, int64_t bytes, orr_demands *ret);
/* bytes * part / whole, rounded up; saturates at INT64_MAX. */
int64_t orr_flow_bytes_of_part(int64_t bytes, uint64_t part, uint64_t whole);

#endif /* ORR_SIM_FLOW_COLLECTIVE_H */
