/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/link/merge.h"

#include <string.h>

#include "trace/link/comm.h"

static orr_status make_arrays(orr_link_merger *m, orr_error *err)
{
    orr_arena *arena = m->link->arena;
    m->str = orr_arena_array(arena, orr_str, m->host->n_strings);
    m->lane = orr_arena_array(arena, orr_lane_id, m->host->n_lanes);
    m->node = orr_arena_array(arena, orr_node_id, m->host->n_nodes);
    m->host_group = orr_arena_array(arena, orr_group_id, m->host->n_groups);
    m->device_group = orr_arena_array(arena, orr_group_id, m->device->n_groups);
    m->moved = orr_arena_array(arena, bool, m->device->n_nodes);
    return m->str == NULL || m->lane == NULL || m->node == NULL || m->host_group == NULL ||
                   m->device_group == NULL || m->moved == NULL
               ? orr_fail_memory(err)
               : ORR_OK;
}

static orr_status add_strings(orr_link_merger *m, orr_error *err)
{
    orr_str same;
    for (orr_str s = 0; s < m->device->n_strings; s++)
        ORR_TRY(orr_builder_str(m->b, orr_graph_str(m->device, s), orr_graph_str_len(m->device, s),
                                &same, err));
    for (orr_str s = 0; s < m->host->n_strings; s++)
        ORR_TRY(orr_builder_str(m->b, orr_graph_str(m->host, s), orr_graph_str_len(m->host, s),
                                &m->str[s], err));
    return ORR_OK;
}

static orr_status add_lanes(orr_link_merger *m, orr_error *err)
{
    orr_lane_id same;
    for (uint32_t l = 0; l < m->device->n_lanes; l++)
        ORR_TRY(orr_builder_lane(m->b, &m->device->lanes[l], &same, err));
    for (uint32_t l = 0; l < m->host->n_lanes; l++) {
        orr_lane lane = m->host->lanes[l];
        lane.process = m->str[lane.process];
        lane.name = m->str[lane.name];
        if (m->link->lane[l] != ORR_NONE)
            m->lane[l] = m->link->lane[l];
        else
            ORR_TRY(orr_builder_lane(m->b, &lane, &m->lane[l], err));
    }
    return ORR_OK;
}

static orr_status add_group(orr_link_merger *m, const orr_group *group, orr_group_id *ret,
                            orr_error *err)
{
    if (group->name != 0)
        return orr_process_groups_named(&m->groups, m->b, group, ret, err);
    return orr_builder_group(m->b, group, ret, err);
}

static orr_status add_groups(orr_link_merger *m, orr_error *err)
{
    for (uint32_t i = 0; i < m->device->n_groups; i++)
        ORR_TRY(add_group(m, &m->device->groups[i], &m->device_group[i], err));
    for (uint32_t i = 0; i < m->host->n_groups; i++) {
        orr_group group = m->host->groups[i];
        group.name = m->str[group.name];
        group.desc = m->str[group.desc];
        group.backend = m->str[group.backend];
        ORR_TRY(add_group(m, &group, &m->host_group[i], err));
    }
    return ORR_OK;
}

static orr_node node_of(const orr_graph *g, orr_node_id v)
{
    return (orr_node){.name = g->name[v],
                      .kind = (orr_node_kind)g->kind[v],
                      .lane = g->lane[v],
                      .start_ns = g->start_ns[v],
                      .duration_ns = g->duration_ns[v],
                      .parent = g->parent[v],
                      .source_id = g->source_id[v]};
}

static orr_status add_nodes(orr_link_merger *m, orr_error *err)
{
    orr_node_id id;
    for (orr_node_id d = 0; d < m->device->n_nodes; d++) {
        const orr_node node = node_of(m->device, d);
        ORR_TRY(orr_builder_node(m->b, &node, &id, err));
        m->b->flags[id] |= m->device->flags[d] & ORR_FLAG_CRITICAL;
    }
    for (orr_node_id h = 0; h < m->host->n_nodes; h++) {
        m->node[h] = m->link->partner[h];
        if (m->node[h] != ORR_NONE)
            continue;
        orr_node node = node_of(m->host, h);
        node.name = m->str[node.name];
        node.lane = m->lane[node.lane];
        if (m->link->memory) {
            node.start_ns += m->host->base_ns - m->device->base_ns;
        } else {
            node.start_ns = ORR_TIME_NONE; /* the host trace's clock, if any, is another */
            node.duration_ns = 0;
        }
        node.parent = ORR_NONE;
        ORR_TRY(orr_builder_node(m->b, &node, &m->node[h], err));
    }
    return ORR_OK;
}

/* Adds an attribute of the host trace, with its strings renumbered. */
static orr_status push_host_attr(orr_link_merger *m, const orr_attr *attr, orr_error *err)
{
    orr_attr copy = *attr;
    copy.name = m->str[attr->name];
    copy.doc = m->str[attr->doc];
    const bool text = attr->kind == ORR_ATTR_STRING || attr->kind == ORR_ATTR_BYTES ||
                      attr->kind == ORR_ATTR_JSON || attr->kind == ORR_ATTR_UNKNOWN;
    if (text) {
        orr_str *values = orr_arena_array(m->values, orr_str, attr->count);
        if (values == NULL)
            return orr_fail_memory(err);
        for (uint32_t i = 0; i < attr->count; i++)
            values[i] = m->str[((const orr_str *)attr->values)[i]];
        copy.values = values;
    }
    return orr_array_push(&m->attrs, copy) ? ORR_OK : orr_fail_memory(err);
}

static bool has_attr(const orr_link_merger *m, size_t n, orr_str name)
{
    for (size_t i = 0; i < n; i++)
        if (m->attrs.at[i].name == name)
            return true;
    return false;
}

/* Adds the attributes of both nodes; of equal names only the device trace's. */
static orr_status add_attrs_of(orr_link_merger *m, orr_node_id d, bool has_d, orr_node_id h,
                               bool has_h, orr_node_id v, orr_error *err)
{
    m->attrs.n = 0;
    orr_arena_reset(m->values);
    orr_attr attr;
    if (has_d)
        for (orr_attr_iter it = orr_graph_attrs(m->device, d); orr_attr_next(&it, &attr);)
            if (!orr_array_push(&m->attrs, attr))
                return orr_fail_memory(err);
    const size_t of_device = m->attrs.n;
    if (has_h)
        for (orr_attr_iter it = orr_graph_attrs(m->host, h); orr_attr_next(&it, &attr);)
            if (!has_attr(m, of_device, m->str[attr.name]))
                ORR_TRY(push_host_attr(m, &attr, err));
    if (m->attrs.n == 0)
        return ORR_OK;
    return orr_builder_attrs(m->b, v, m->attrs.at, (uint32_t)m->attrs.n, err);
}

static orr_status add_attrs(orr_link_merger *m, orr_error *err)
{
    for (orr_node_id d = 0; d < m->device->n_nodes; d++)
        if (!m->link->taken[d])
            ORR_TRY(add_attrs_of(m, d, true, 0, false, d, err));
    for (orr_node_id h = 0; h < m->host->n_nodes; h++)
        ORR_TRY(
            add_attrs_of(m, m->node[h], m->link->partner[h] != ORR_NONE, h, true, m->node[h], err));
    return add_attrs_of(m, ORR_NONE, true, ORR_NONE, true, ORR_NONE, err);
}

static orr_comm comm_of(const orr_link_merger *m, const orr_graph *g, const orr_comm *from)
{
    orr_comm comm = *from;
    const bool of_host = g == m->host;
    if (comm.group != ORR_NONE)
        comm.group = of_host ? m->host_group[comm.group] : m->device_group[comm.group];
    if (of_host) {
        comm.dtype = m->str[comm.dtype];
        comm.in_splits = m->str[comm.in_splits];
        comm.out_splits = m->str[comm.out_splits];
    }
    return comm;
}

/* Communications, copies and memory events. */
static orr_status add_details(orr_link_merger *m, orr_error *err)
{
    for (orr_node_id d = 0; d < m->device->n_nodes; d++) {
        const orr_comm *comm = orr_graph_comm(m->device, d);
        const orr_copy *copy = orr_graph_copy(m->device, d);
        const orr_memory *memory = orr_graph_memory(m->device, d);
        if (comm != NULL) {
            const orr_comm own = comm_of(m, m->device, comm);
            ORR_TRY(orr_builder_comm(m->b, d, &own, err));
        }
        if (copy != NULL)
            ORR_TRY(orr_builder_copy(m->b, d, copy, err));
        if (memory != NULL)
            ORR_TRY(orr_builder_memory(m->b, d, memory, err));
    }
    for (orr_node_id h = 0; h < m->host->n_nodes; h++) {
        const orr_comm *from = orr_graph_comm(m->host, h);
        const orr_memory *memory = orr_graph_memory(m->host, h);
        const orr_node_id v = m->node[h];
        if (memory != NULL && m->link->memory)
            ORR_TRY(orr_builder_memory(m->b, v, memory, err));
        if (from == NULL || (m->b->flags[v] & (ORR_FLAG_COPY | ORR_FLAG_MEMORY)) != 0)
            continue;
        orr_comm comm = comm_of(m, m->host, from);
        if ((m->b->flags[v] & ORR_FLAG_COMM) != 0)
            orr_link_fill_comm(&m->b->comms.at[m->b->detail[v]], &comm);
        else
            ORR_TRY(orr_builder_comm(m->b, v, &comm, err));
    }
    return ORR_OK;
}

/* Adds the tensors of both, and who reads and writes them. */
static orr_status add_io_of(orr_link_merger *m, const orr_graph *g, const orr_tensor_id *tensor,
                            orr_error *err)
{
    orr_tensor_id *io = orr_arena_array(m->link->arena, orr_tensor_id, 0);
    size_t room = 0;
    for (orr_node_id v = 0; io != NULL && g->n_tensors > 0 && v < g->n_nodes; v++) {
        const uint32_t first = g->io_first[v], n = g->io_first[v + 1] - first;
        const uint32_t n_in = g->io_out[v] - first;
        const orr_node_id to = g == m->host ? m->node[v] : v;
        if (n == 0 || (g == m->device && m->link->taken[v] && m->host->n_tensors > 0))
            continue;
        if (n > room) {
            room = 2 * (size_t)n;
            io = orr_arena_array(m->link->arena, orr_tensor_id, room);
            if (io == NULL)
                break;
        }
        for (uint32_t i = 0; i < n; i++)
            io[i] = tensor[g->io[first + i]];
        ORR_TRY(orr_builder_io(m->b, to, io, n_in, io + n_in, n - n_in, err));
    }
    return io == NULL ? orr_fail_memory(err) : ORR_OK;
}

static orr_status add_tensors(orr_link_merger *m, const orr_graph *g, orr_error *err)
{
    orr_tensor_id *map = orr_arena_array(m->link->arena, orr_tensor_id, g->n_tensors);
    if (map == NULL)
        return orr_fail_memory(err);
    for (uint32_t t = 0; t < g->n_tensors; t++) {
        orr_tensor tensor = g->tensors[t];
        if (g == m->host) {
            tensor.device = m->str[tensor.device];
            tensor.dtype = m->str[tensor.dtype];
            tensor.shape = m->str[tensor.shape];
        }
        ORR_TRY(orr_builder_tensor(m->b, &tensor, &map[t], err));
    }
    return add_io_of(m, g, map, err);
}

static orr_status set_recording(orr_link_merger *m, orr_error *err)
{
    const orr_graph *host = m->host, *device = m->device;
    orr_recording *r = &m->b->recording;
    *r = (orr_recording){.base_ns = device->base_ns,
                         .rank = device->rank != ORR_NONE ? device->rank : host->rank,
                         .world_size =
                             device->world_size != 0 ? device->world_size : host->world_size,
                         .device_name = device->device_name};
    const char *text =
        orr_arena_printf(m->link->arena, "%s + %s", orr_graph_str(device, device->source),
                         orr_graph_str(host, host->source));
    if (text == NULL)
        return orr_fail_memory(err);
    return orr_builder_str(m->b, text, strlen(text), &r->source, err);
}

orr_status orr_link_merge(const orr_linker *link, bool loose, orr_graph_builder *builder,
                          orr_error *err)
{
    orr_link_merger m = {
        .link = link, .host = link->host, .device = link->device, .b = builder, .loose = loose};
    orr_status status;
    m.values = orr_arena_new(0, 0);
    if (m.values == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, make_arrays(&m, err));
    ORR_TRY_OUT(status, add_strings(&m, err));
    ORR_TRY_OUT(status, add_lanes(&m, err));
    ORR_TRY_OUT(status, add_groups(&m, err));
    ORR_TRY_OUT(status, add_nodes(&m, err));
    orr_link_merger_set_parents(&m);
    ORR_TRY_OUT(status, add_attrs(&m, err));
    ORR_TRY_OUT(status, add_details(&m, err));
    ORR_TRY_OUT(status, add_tensors(&m, m.device, err));
    ORR_TRY_OUT(status, add_tensors(&m, m.host, err));
    ORR_TRY_OUT(status, orr_link_merger_add_deps(&m, err));
    ORR_TRY_OUT(status, orr_link_propagate_comms(builder, err));
    status = set_recording(&m, err);
out:
    orr_process_groups_done(&m.groups);
    orr_array_done(&m.attrs);
    orr_arena_free(m.values);
    return status;
}
