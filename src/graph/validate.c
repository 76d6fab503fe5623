/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/validate.h"

#include "base/alloc.h"

static bool has_its_detail(const orr_graph_builder *b, orr_node_id v)
{
    switch (b->flags[v] & (ORR_FLAG_COMM | ORR_FLAG_COPY | ORR_FLAG_MEMORY)) {
    case 0:
        return true;
    case ORR_FLAG_COMM:
        return b->detail[v] < b->comms.n;
    case ORR_FLAG_COPY:
        return b->detail[v] < b->copies.n;
    case ORR_FLAG_MEMORY:
        return b->detail[v] < b->memories.n;
    default:
        return false;
    }
}

static orr_status check_node(const orr_graph_builder *b, uint32_t n_strings, orr_node_id v,
                             orr_error *err)
{
    if (b->name[v] >= n_strings)
        return orr_fail(err, ORR_INVALID, "node %u: its name was never added", v);
    if (b->kind[v] > ORR_NODE_OVERHEAD)
        return orr_fail(err, ORR_INVALID, "node %u: kind %u does not exist", v, b->kind[v]);
    if (b->duration_ns[v] < 0)
        return orr_fail(err, ORR_INVALID, "node %u '%s': it lasts %lld ns", v,
                        orr_builder_text(b, b->name[v]), (long long)b->duration_ns[v]);
    if (b->parent[v] != ORR_NONE && b->parent[v] >= b->n_nodes)
        return orr_fail(err, ORR_INVALID,
                        "node %u '%s': its parent %u does not exist; there are %u nodes", v,
                        orr_builder_text(b, b->name[v]), b->parent[v], b->n_nodes);
    if (b->attrs[v] > b->attr_heap.list.n)
        return orr_fail(err, ORR_INVALID, "node %u: attributes that were never added", v);
    if (!has_its_detail(b, v))
        return orr_fail(err, ORR_INVALID,
                        "node %u: a communication, copy or memory event that was never added", v);
    return ORR_OK;
}

static orr_status check_dep(const orr_graph_builder *b, uint32_t i, orr_error *err)
{
    const orr_node_id node = b->dep_node[i], on = b->dep_on[i];
    if (node >= b->n_nodes)
        return orr_fail(err, ORR_INVALID,
                        "node %u depends on node %u, but does not exist; there are %u nodes", node,
                        on, b->n_nodes);
    if (on >= b->n_nodes)
        return orr_fail(err, ORR_INVALID,
                        "node %u '%s' depends on node %u, which does not exist; there are %u nodes",
                        node, orr_builder_text(b, b->name[node]), on, b->n_nodes);
    if (b->dep_kind[i] > ORR_DEP_SYNC)
        return orr_fail(err, ORR_INVALID, "node %u: dependency of kind %u, which does not exist",
                        node, b->dep_kind[i]);
    return ORR_OK;
}

static orr_status check_tables(const orr_graph_builder *b, uint32_t n_strings, orr_error *err)
{
    bool known = b->recording.source < n_strings && b->recording.device_name < n_strings;
    for (size_t i = 0; i < b->lanes.n; i++)
        known &= b->lanes.at[i].process < n_strings && b->lanes.at[i].name < n_strings;
    for (size_t i = 0; i < b->groups.n; i++) {
        const orr_group *group = &b->groups.at[i];
        known &= group->name < n_strings && group->desc < n_strings && group->backend < n_strings;
    }
    for (size_t i = 0; i < b->tensors.n; i++) {
        const orr_tensor *tensor = &b->tensors.at[i];
        known &=
            tensor->device < n_strings && tensor->dtype < n_strings && tensor->shape < n_strings;
    }
    if (!known)
        return orr_fail(err, ORR_INVALID,
                        "a lane, group, tensor or the recording has a string that was never added");
    return ORR_OK;
}

orr_status orr_check_columns(const orr_graph_builder *b, orr_error *err)
{
    const uint32_t n_strings = b->strings ? orr_strtab_count(b->strings) : 1;
    ORR_TRY(check_tables(b, n_strings, err));
    for (uint32_t v = 0; v < b->n_nodes; v++)
        ORR_TRY(check_node(b, n_strings, v, err));
    for (uint32_t i = 0; i < b->n_deps; i++)
        ORR_TRY(check_dep(b, i, err));
    return ORR_OK;
}
