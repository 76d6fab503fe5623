/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/plan/price.h"

#include "model/plan/plan.h"

const uint32_t *orr_members_ranks(const orr_members *members, orr_arena *arena)
{
    if (members->ranks != NULL)
        return members->ranks;
    uint32_t *list = orr_arena_array(arena, uint32_t, members->n);
    for (uint32_t i = 0; list != NULL && i < members->n; i++)
        list[i] = members->first + i * members->stride;
    return list;
}

orr_members orr_plan_members(const orr_plan *plan, uint32_t grouping, uint32_t rank,
                             const orr_graph *graph, orr_node_id node, uint32_t pair[2])
{
    const orr_strided_group s = orr_plan_group(plan, grouping, rank);
    if (graph->kind[node] == ORR_NODE_COLLECTIVE)
        return (orr_members){.first = s.first, .stride = s.stride, .n = s.size};
    const int32_t number = orr_graph_comm(graph, node)->peer;
    const uint32_t peer = s.first + (uint32_t)(number > 0 ? number : 0) * s.stride;
    pair[0] = rank < peer ? rank : peer;
    pair[1] = rank < peer ? peer : rank;
    return (orr_members){.ranks = pair, .n = 2};
}

static orr_work work_of(const orr_graph *graph, orr_node_id node)
{
    orr_work work;
    if (orr_work_of_node(graph, node, &work, NULL) != ORR_OK)
        work = (orr_work){.op = "", .kernel = orr_graph_str(graph, graph->name[node])};
    orr_work_complete(&work);
    return work;
}

bool orr_kernel_price(const orr_pricing *pricing, const orr_graph *graph, orr_node_id node,
                      orr_price *ret)
{
    if (pricing == NULL || pricing->device == NULL)
        return false;
    const orr_work work = work_of(graph, node);
    *ret = orr_cost_price(&pricing->chain, pricing->device, &work);
    return ret->ns >= 0 && ret->basis != ORR_BASIS_NONE;
}

bool orr_kernel_prices(const orr_pricing *pricing, orr_kernel_at before, orr_kernel_at after,
                       orr_price *ret_before, orr_price *ret_after)
{
    if (pricing == NULL || pricing->device == NULL)
        return false;
    const orr_work was = work_of(before.graph, before.node), is = work_of(after.graph, after.node);
    return orr_cost_price_pair(&pricing->chain, (orr_priced_work){pricing->device, &was},
                               (orr_priced_work){pricing->device, &is}, ret_before, ret_after);
}
