/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_PLAN_PRICE_H
#define ORR_RESCALE_PLAN_PRICE_H

#include <orrery/rescale.h>

#include "cost/collective/transfer.h"

/* Ranks of a group: `ranks`, or `n` from `first` on by `stride`. */
typedef struct orr_members {
    const uint32_t *ranks; /* or NULL */
    uint32_t first, stride, n;
} orr_members;
/* The list of ranks; in the arena. NULL: no memory. */
const uint32_t *orr_members_ranks(const orr_members *members, orr_arena *arena);

/* Who takes part in a communication of a plan: the group of `rank` in the grouping, or of it the
 * pair of a send and its recv. `pair`: room for two. */
orr_members orr_plan_members(const orr_plan *plan, uint32_t grouping, uint32_t rank,
                             const orr_graph *graph, orr_node_id node, uint32_t pair[2]);

/* Price of device work by its recorded shapes; false: no device, or nobody answers. */
bool orr_kernel_price(const orr_pricing *pricing, const orr_graph *graph, orr_node_id node,
                      orr_price *ret);
/* Two to be divided by one another, from one model. */
typedef struct orr_kernel_at {
    const orr_graph *graph;
    orr_node_id node;
} orr_kernel_at;
bool orr_kernel_prices(const orr_pricing *pricing, orr_kernel_at before, orr_kernel_at after,
                       orr_price *ret_before, orr_price *ret_after);

/* COMPUTE, COPY, SET on a stream. */
static inline bool orr_is_kernel(const orr_graph *g, orr_node_id v)
{
    return (g->kind[v] == ORR_NODE_COMPUTE || g->kind[v] == ORR_NODE_COPY ||
            g->kind[v] == ORR_NODE_SET) &&
           g->lanes[g->lane[v]].kind == ORR_LANE_STREAM;
}
static inline bool orr_is_communication(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND ||
           g->kind[v] == ORR_NODE_RECV;
}

#endif /* ORR_RESCALE_PLAN_PRICE_H */
