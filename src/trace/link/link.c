/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/link/link.h"

#include <string.h>

#include "trace/common/reader.h"

bool orr_link_is_op(const orr_graph *graph, orr_node_id node)
{
    if (graph->lanes[graph->lane[node]].kind != ORR_LANE_HOST)
        return false;
    switch ((orr_node_kind)graph->kind[node]) {
    case ORR_NODE_HOST_OP:
    case ORR_NODE_ANNOTATION:
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
        return true;
    default:
        return false;
    }
}

static orr_status prepare(orr_linker *link, orr_error *err)
{
    const orr_graph *host = link->host, *device = link->device;
    link->partner = orr_arena_array(link->arena, orr_node_id, host->n_nodes);
    link->taken = orr_arena_array(link->arena, bool, device->n_nodes);
    link->by_name = orr_arena_array(link->arena, uint8_t, host->n_nodes);
    link->name = orr_arena_array(link->arena, orr_str, host->n_strings);
    link->lane = orr_arena_array(link->arena, uint32_t, host->n_lanes);
    if (link->partner == NULL || link->taken == NULL || link->by_name == NULL ||
        link->name == NULL || link->lane == NULL)
        return orr_fail_memory(err);
    memset(link->partner, 0xff, host->n_nodes * sizeof *link->partner);
    memset(link->name, 0xff, host->n_strings * sizeof *link->name);
    memset(link->lane, 0xff, host->n_lanes * sizeof *link->lane);
    for (orr_node_id h = 0; h < host->n_nodes; h++) {
        const orr_str name = host->name[h];
        if (link->name[name] == ORR_NONE && orr_link_is_op(host, h))
            link->name[name] = orr_graph_find_str(device, orr_graph_str(host, name));
    }
    for (orr_node_id d = 0; d < device->n_nodes; d++)
        link->n_device_ids += device->source_id[d] != 0 && orr_link_is_op(device, d);
    return ORR_OK;
}

static orr_link_miss why_missed(const orr_linker *link, orr_node_id h)
{
    const bool has_thread = link->lane[link->host->lane[h]] != ORR_NONE;
    if (link->host->source_id[h] != 0 && link->n_device_ids > 0)
        return link->by_name[h] ? ORR_LINK_MISS_NAME_DIFFERS : ORR_LINK_MISS_ID_NOT_FOUND;
    if (!has_thread)
        return ORR_LINK_MISS_NO_THREAD;
    return link->n_device_ids > 0 ? ORR_LINK_MISS_NO_ID : ORR_LINK_MISS_ORDER;
}

static void count(const orr_linker *link, orr_link_report *report)
{
    for (orr_node_id d = 0; d < link->device->n_nodes; d++)
        report->device_ops += orr_link_is_op(link->device, d);
    for (orr_node_id h = 0; h < link->host->n_nodes; h++) {
        if (!orr_link_is_op(link->host, h))
            continue;
        report->host_ops++;
        if (link->partner[h] == ORR_NONE)
            report->missed[why_missed(link, h)]++;
    }
}

static orr_status build(const orr_linker *link, bool loose, const orr_graph **ret, orr_error *err)
{
    orr_graph_builder *builder = orr_graph_builder_new();
    if (builder == NULL)
        return orr_fail_memory(err);
    orr_status status = orr_link_merge(link, loose, builder, err);
    if (status == ORR_OK)
        status = orr_graph_build(builder, ret, err);
    orr_graph_builder_free(builder);
    return status;
}

orr_status orr_trace_add_memory(const orr_graph *snapshot, const orr_graph *trace,
                                const orr_graph **ret_graph, orr_error *err)
{
    static const int64_t a_day_ns = INT64_C(86400) * 1000000000;
    orr_linker link = {.host = snapshot, .device = trace, .memory = true};
    int64_t apart;
    orr_status status;
    for (uint32_t i = 0; i < trace->n_memories && snapshot->n_memories > 0; i++)
        if (trace->memories[i].device_type == snapshot->memories[0].device_type)
            return orr_fail(err, ORR_INVALID,
                            "the trace of rank %d has memory events of a device itself: give the "
                            "memory snapshot one at a time",
                            (int)trace->rank);
    if (__builtin_sub_overflow(snapshot->base_ns, trace->base_ns, &apart) || apart > a_day_ns ||
        apart < -a_day_ns)
        return orr_fail(
            err, ORR_INVALID,
            "the memory snapshot and the trace of rank %d begin a day or more apart, or "
            "one has no time of day: give them one at a time",
            (int)trace->rank);
    link.arena = orr_arena_new(0, 0);
    if (link.arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, prepare(&link, err));
    status = build(&link, true, ret_graph, err);
out:
    orr_arena_free(link.arena);
    return status;
}

orr_status orr_trace_link(const orr_graph *host, const orr_graph *device,
                          const orr_graph **ret_graph, orr_link_report *report, orr_error *err)
{
    orr_link_report own;
    orr_linker link = {.host = host, .device = device};
    orr_status status;
    if (report == NULL)
        report = &own;
    *report = (orr_link_report){0};
    if (host->rank != ORR_NONE && device->rank != ORR_NONE && host->rank != device->rank)
        return orr_fail(err, ORR_INVALID,
                        "the host trace is of rank %u, the device trace of rank %u", host->rank,
                        device->rank);
    link.arena = orr_arena_new(0, 0);
    if (link.arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, prepare(&link, err));
    ORR_TRY_OUT(status, orr_link_by_id(&link, &report->matched_by_id, err));
    ORR_TRY_OUT(status, orr_link_by_order(&link, &report->matched_by_order, err));
    count(&link, report);
    status = build(&link, true, ret_graph, err);
    if (status == ORR_INVALID)
        status = build(&link, false, ret_graph, err);
out:
    orr_arena_free(link.arena);
    return status;
}
