/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_FLOW_PATTERNS_H
#define ORR_SIM_ENGINE_FLOW_PATTERNS_H

#include "sim/engine/contention.h"
#include "sim/flow/fabric.h"

/* Inside of orr_flow_classes. Numbers of patterns are those of an interning table of their texts,
 * from 1 on; that of a text that was not there when the patterns were listed is beyond n_patterns,
 * and no group has it. */

/* A flow of a pattern in one group. */
typedef struct orr_folded_flow {
    uint32_t group; /* by number among all groups */
    uint32_t pattern, demand;
    uint32_t first_hop; /* its links: up to the next flow's */
} orr_folded_flow;

/* The flows of one pattern in one group. */
typedef struct orr_flow_instance {
    uint32_t group, pattern;
    uint32_t first, n;            /* of `flows` */
    uint32_t first_part, n_parts; /* of `parts`, where the group is the first of its class */
} orr_flow_instance;

/* A class of flows in an instance, with one of its demands. */
typedef struct orr_flow_part {
    uint32_t class, demand;
} orr_flow_part;

/* A class of flows crosses a class of links. */
typedef struct orr_flow_crossing {
    uint32_t flows, links;
} orr_flow_crossing;

struct orr_flow_classes {
    const orr_ensemble *ensemble;
    orr_strtab *patterns, *colours, *seen;
    uint32_t n_patterns, n_links; /* links of the fabric */
    uint32_t *first_group;        /* shape (groupings): number of its first group */
    uint32_t *position;           /* shape (R): of a rank in its group */
    orr_array(uint32_t) text;
    orr_array(int64_t) sizes;
    orr_array(orr_folded_flow) flows;
    orr_array(uint32_t) colour; /* parallel to `flows` */
    orr_route hops;
    orr_array(orr_flow_instance) instances;
    uint32_t n_words;    /* of a set of links */
    uint64_t *links_of;  /* shape (n_patterns + 1, n_words): links that a pattern uses */
    uint8_t *shares;     /* shape (n_patterns + 1)^2: do two patterns use a link? 0: not known */
    uint32_t *component; /* shape (n_patterns + 1): a pattern of the same component, or itself */
    uint32_t round;
    /* of the last fold */
    orr_link_classes links;
    uint32_t *class_of_link, *number_of; /* shapes (n_links, components), (n_patterns + 1) */
    int64_t *capacity;
    orr_array(orr_flow_part) parts;
    orr_array(orr_flow_crossing) crossings;
    uint32_t *first_crossing; /* shape (classes of flows + 1) */
    orr_array(uint32_t) crossed;
    orr_array(uint32_t) weight;
    /* of the last simulation */
    uint32_t *active; /* shape (n_patterns + 1): transfers under way */
    orr_array(uint32_t) pattern_of_task;
    orr_array(orr_flow_class) begun;
    bool met, strange;
};

/* The links of a flow: hops[first_hop] up to here. */
static inline uint32_t orr_flow_hop_end(const orr_flow_classes *c, size_t flow)
{
    return flow + 1 < c->flows.n ? c->flows.at[flow + 1].first_hop : (uint32_t)c->hops.n;
}

static inline uint32_t orr_flow_group(const orr_flow_classes *c,
                                      const orr_rendezvous_transfer *moved)
{
    return c->first_group[moved->grouping] + moved->group;
}

/* Flows of a pattern in a group; NULL: none. */
const orr_flow_instance *orr_flow_instance_find(const orr_flow_classes *classes, uint32_t group,
                                                uint32_t pattern);

#endif /* ORR_SIM_ENGINE_FLOW_PATTERNS_H */
