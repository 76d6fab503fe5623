/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chrome/args.h"

#include <stdio.h>
#include <string.h>

#include "trace/comm/names.h"

static void write_str(orr_json_writer *w, const orr_graph *g, orr_str s)
{
    orr_json_write_text(w, orr_graph_str(g, s), orr_graph_str_len(g, s));
}

static void write_value(orr_json_writer *w, const orr_graph *g, orr_attr_kind kind,
                        const void *values, uint32_t i)
{
    switch (kind) {
    case ORR_ATTR_DOUBLE:
        orr_json_write_double(w, ((const double *)values)[i]);
        return;
    case ORR_ATTR_FLOAT:
        orr_json_write_double(w, (double)((const float *)values)[i]);
        return;
    case ORR_ATTR_INT32:
    case ORR_ATTR_SINT32:
    case ORR_ATTR_SFIXED32:
        orr_json_write_int(w, ((const int32_t *)values)[i]);
        return;
    case ORR_ATTR_INT64:
    case ORR_ATTR_SINT64:
    case ORR_ATTR_SFIXED64:
        orr_json_write_int(w, ((const int64_t *)values)[i]);
        return;
    case ORR_ATTR_UINT32:
    case ORR_ATTR_FIXED32:
        orr_json_write_uint(w, ((const uint32_t *)values)[i]);
        return;
    case ORR_ATTR_UINT64:
    case ORR_ATTR_FIXED64:
        orr_json_write_uint(w, ((const uint64_t *)values)[i]);
        return;
    case ORR_ATTR_BOOL:
        orr_json_write_bool(w, ((const uint8_t *)values)[i] != 0);
        return;
    case ORR_ATTR_STRING:
        write_str(w, g, ((const orr_str *)values)[i]);
        return;
    case ORR_ATTR_JSON: { /* valid, whatever was read: see orr_json_raw() */
        const orr_str s = ((const orr_str *)values)[i];
        orr_json_write_raw(w, orr_graph_str(g, s), orr_graph_str_len(g, s));
        return;
    }
    case ORR_ATTR_BYTES:
    case ORR_ATTR_UNKNOWN:
    case ORR_ATTR_NONE:
        orr_json_write_null(w);
    }
}

void orr_chrome_write_attr(orr_json_writer *w, const orr_graph *graph, const orr_attr *attr)
{
    const orr_attr_kind kind = (orr_attr_kind)attr->kind;
    if (!attr->list) {
        write_value(w, graph, kind, attr->values, 0);
        return;
    }
    orr_json_write_array(w);
    for (uint32_t i = 0; i < attr->count; i++)
        write_value(w, graph, kind, attr->values, i);
    orr_json_write_array_end(w);
}

static void put_str(orr_json_writer *w, const orr_graph *g, const char *key, orr_str s)
{
    if (s == 0)
        return;
    orr_json_write_key(w, key);
    write_str(w, g, s);
}

/* Ranks as text "[0, 2, 4]", which is how Kineto has them, or start and stride. */
static void put_group(orr_json_writer *w, const orr_graph *g, const orr_group *group)
{
    put_str(w, g, "Process Group Name", group->name);
    put_str(w, g, "Process Group Description", group->desc);
    if (group->size == 0)
        return;
    if (group->ranks == NULL && group->start >= 0) {
        orr_json_member_int(w, "Global rank start", group->start);
        orr_json_member_int(w, "Global rank stride", group->stride);
        return;
    }
    char text[400];
    size_t n = 0;
    for (uint32_t r = 0; r < group->size && n + 16 < sizeof text; r++)
        n += (size_t)snprintf(text + n, sizeof text - n, r == 0 ? "[%u" : ", %u",
                              orr_group_rank(group, r));
    if (group->ranks == NULL || n + 16 >= sizeof text)
        return;
    orr_json_write_key(w, "Process Group Ranks");
    text[n++] = ']';
    orr_json_write_text(w, text, n);
}

/* Bytes as counts of elements of the recorded type, or of bytes where there is none. */
static void put_sizes(orr_json_writer *w, const orr_graph *g, const orr_comm *comm)
{
    uint32_t bytes =
        orr_element_bytes(orr_graph_str(g, comm->dtype), orr_graph_str_len(g, comm->dtype));
    if (comm->dtype == 0 && (comm->in_bytes >= 0 || comm->out_bytes >= 0)) {
        bytes = 1;
        orr_json_write_key(w, "dtype");
        orr_json_write_cstr(w, "Byte");
    }
    put_str(w, g, "dtype", comm->dtype);
    if (bytes > 0 && comm->in_bytes >= 0)
        orr_json_member_int(w, "In msg nelems", comm->in_bytes / bytes);
    if (bytes > 0 && comm->out_bytes >= 0)
        orr_json_member_int(w, "Out msg nelems", comm->out_bytes / bytes);
    put_str(w, g, "In split size", comm->in_splits);
    put_str(w, g, "Out split size", comm->out_splits);
}

static void put_comm(orr_json_writer *w, const orr_graph *g, const orr_comm *comm)
{
    char name[32];
    if (comm->collective != ORR_COLL_UNKNOWN) {
        snprintf(name, sizeof name, "%s%s", orr_collective_name((orr_collective)comm->collective),
                 comm->vector ? "v" : "");
        orr_json_write_key(w, "Collective name");
        orr_json_write_cstr(w, name);
    }
    put_sizes(w, g, comm);
    if (comm->group_size > 0)
        orr_json_member_int(w, "Group size", comm->group_size);
    if (comm->group != ORR_NONE)
        put_group(w, g, &g->groups[comm->group]);
    if (comm->seq >= 0)
        orr_json_member_int(w, "Seq", comm->seq);
    if (comm->peer >= 0 || comm->root >= 0)
        orr_json_member_int(w, "Rank", comm->peer >= 0 ? comm->peer : comm->root);
}

static void put_copy(orr_json_writer *w, const orr_copy *copy)
{
    orr_json_write_key(w, "bytes");
    orr_json_write_uint(w, copy->bytes);
    if (copy->bandwidth_bytes_per_s > 0) {
        orr_json_write_key(w, "memory bandwidth (GB/s)");
        orr_json_write_double(w, copy->bandwidth_bytes_per_s / 1e9);
    }
}

static void put_memory(orr_json_writer *w, const orr_memory *memory)
{
    orr_json_member_int(w, "Device Type", memory->device_type);
    orr_json_member_int(w, "Device Id", memory->device);
    orr_json_write_key(w, "Addr");
    orr_json_write_uint(w, memory->addr);
    orr_json_member_int(w, "Bytes", memory->bytes);
    if (memory->allocated_bytes >= 0)
        orr_json_member_int(w, "Total Allocated", memory->allocated_bytes);
    if (memory->reserved_bytes >= 0)
        orr_json_member_int(w, "Total Reserved", memory->reserved_bytes);
}

static void put_ids(orr_json_writer *w, const orr_graph *g, orr_node_id v)
{
    const orr_lane *lane = &g->lanes[g->lane[v]];
    const bool on_device = lane->kind == ORR_LANE_STREAM;
    if (g->source_id[v] != 0) {
        orr_json_write_key(w, on_device || g->kind[v] == ORR_NODE_RUNTIME ? "correlation"
                                                                          : "Record function id");
        orr_json_write_uint(w, g->source_id[v]);
    }
    if (!on_device)
        return;
    orr_json_member_int(w, "device", lane->device);
    if (lane->tid != INT64_MIN)
        orr_json_member_int(w, "stream", lane->tid);
}

void orr_chrome_write_args(orr_json_writer *w, const orr_graph *graph, orr_node_id node)
{
    const orr_comm *comm = orr_graph_comm(graph, node);
    const orr_copy *copy = orr_graph_copy(graph, node);
    const orr_memory *memory = orr_graph_memory(graph, node);
    orr_json_write_object(w);
    if (memory != NULL)
        put_memory(w, memory);
    else
        put_ids(w, graph, node);
    if (comm != NULL)
        put_comm(w, graph, comm);
    if (copy != NULL)
        put_copy(w, copy);
    orr_attr_iter it = orr_graph_attrs(graph, node);
    for (orr_attr attr; orr_attr_next(&it, &attr);) {
        if (attr.kind == ORR_ATTR_UNKNOWN || attr.kind == ORR_ATTR_BYTES)
            continue;
        orr_json_write_key(w, orr_graph_str(graph, attr.name));
        orr_chrome_write_attr(w, graph, &attr);
    }
    orr_json_write_object_end(w);
}
