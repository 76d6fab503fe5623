/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_COLLECTIVE_DISPATCH_H
#define ORR_COST_COLLECTIVE_DISPATCH_H

#include <orrery/cost.h>

/* How a router chooses the experts of a token: `top_k` different ones, all equally likely. With
 * group-limited routing it first chooses `top_groups` of `groups` groups of consecutive experts,
 * then experts of these alone (DeepSeek-V3, arXiv 2412.19437, section 2.1.2: node-limited routing,
 * where a group is a host). groups below 2, or top_groups 0: no limit. */
typedef struct orr_routing {
    uint32_t experts, top_k;
    uint32_t groups, top_groups;
} orr_routing;

/* Expected number of units that have any of a token's experts, of `units` that hold consecutive
 * experts in equal shares: units x (1 - the hypergeometric probability that a unit has none). At
 * most min(top_k, units), and top_groups where a unit is a group; 0 units are one. */
double orr_routing_units(const orr_routing *routing, uint32_t units);

/* Traffic of a dispatcher that sends a token once to each host that has any of its experts, to the
 * rank there with the sender's own index, which passes it on within the host, once to each rank
 * that has one (DeepEP, github.com/deepseek-ai/DeepEP, normal kernels; DeepSeek-V3, section
 * 3.2.2). Within one host it is sent once to each such rank. `span`: of the ranks that share the
 * experts. Writes orr_network.fan_out. Returns the bytes to price as an all-to-all, as a share of
 * those of all top_k copies; at most 1. */
double orr_dispatch_once_per_host(const orr_routing *routing, const orr_span *span,
                                  orr_network *network);

#endif /* ORR_COST_COLLECTIVE_DISPATCH_H */
