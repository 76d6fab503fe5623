/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/plan/price.h"

#include "model/plan/plan.h"

void orr_network_prices_of(const orr_cluster *cluster, uint8_t algorithm, orr_network_prices *ret)
{
    *ret = (orr_network_prices){.cluster = cluster, .algorithm = algorithm};
    if (cluster != NULL)
        orr_network_of_cluster(cluster, &ret->network);
}

orr_status orr_network_price(const orr_network_prices *wire, const orr_members *members,
                             orr_collective collective, int64_t bytes, orr_arena *scratch,
                             orr_price *ret, orr_error *err)
{
    *ret = (orr_price){.ns = -1, .basis = ORR_BASIS_NONE};
    if (wire->cluster == NULL || bytes < 0 || members->n == 0)
        return ORR_OK;
    orr_span span;
    orr_status status;
    const orr_arena_mark mark = orr_arena_get_mark(scratch);
    const uint32_t *ranks = members->ranks;
    if (ranks == NULL) {
        uint32_t *list = orr_arena_array(scratch, uint32_t, members->n);
        if (list == NULL)
            return orr_fail_memory(err);
        for (uint32_t i = 0; i < members->n; i++)
            list[i] = members->first + i * members->stride;
        ranks = list;
    }
    ORR_TRY_OUT(status, orr_cluster_span(wire->cluster, ranks, members->n, &span, err));
    *ret = orr_collective_price(&wire->network, &span, collective, (orr_algorithm)wire->algorithm,
                                bytes);
out:
    orr_arena_rewind(scratch, mark);
    return status;
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

int64_t orr_priced_bytes(const orr_comm *comm)
{
    switch ((orr_collective)comm->collective) {
    case ORR_COLL_BARRIER:
        return 0;
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_GATHER:
    case ORR_COLL_RECV:
        return comm->out_bytes >= 0 ? comm->out_bytes : comm->in_bytes;
    default:
        return comm->in_bytes >= 0 ? comm->in_bytes : comm->out_bytes;
    }
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
