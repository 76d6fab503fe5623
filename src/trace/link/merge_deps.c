/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/link/merge.h"

/* Nesting and dependencies of a linked graph. Where recorded times and the host trace disagree, the
 * times win; the host trace decides where times leave it open: nodes without times, and nodes whose
 * times are equal at the recording's resolution. */

/* Whether all ancestors of h are only in the host trace, so that no recorded time contradicts
 * it. */
static bool is_free_above(const orr_link_merger *m, orr_node_id h)
{
    for (; h != ORR_NONE; h = m->host->parent[h])
        if (m->link->partner[h] != ORR_NONE)
            return false;
    return true;
}

static bool is_inside(const orr_graph_builder *b, orr_node_id v, orr_node_id outer)
{
    while (v != ORR_NONE && v != outer)
        v = b->parent[v];
    return v != ORR_NONE;
}

static bool contains(const orr_graph *g, orr_node_id outer, orr_node_id inner)
{
    return g->start_ns[outer] != ORR_TIME_NONE && g->start_ns[outer] <= g->start_ns[inner] &&
           g->start_ns[inner] + g->duration_ns[inner] <= g->start_ns[outer] + g->duration_ns[outer];
}

/* Times in whole microseconds do not tell what encloses an operator of zero length at the end of
 * another, nor which of two with equal times is the outer one. The host trace does. */
static void move_to_caller(orr_link_merger *m, orr_node_id v, orr_node_id caller)
{
    orr_node_id above = m->b->parent[v];
    while (above != ORR_NONE && !m->link->taken[above])
        above = m->b->parent[above];
    if (above == caller || m->device->lane[v] != m->device->lane[caller] ||
        !contains(m->device, caller, v) || is_inside(m->b, caller, v))
        return;
    m->b->parent[v] = caller;
    m->moved[v] = true;
}

/* The call tree: by times where there are some, else by the host trace. */
void orr_link_merger_set_parents(orr_link_merger *m)
{
    for (orr_node_id h = 0; h < m->host->n_nodes; h++) {
        const orr_node_id v = m->node[h], parent = m->host->parent[h];
        if (parent == ORR_NONE)
            continue;
        if (m->link->partner[h] == ORR_NONE ||
            (m->device->parent[v] == ORR_NONE && is_free_above(m, parent)))
            m->b->parent[v] = m->node[parent];
        else if (m->link->partner[parent] != ORR_NONE && m->loose)
            move_to_caller(m, v, m->node[parent]);
    }
}

/* Whether the recorded times agree, strictly, so that no cycle can arise. */
static bool agrees_with_times(const orr_link_merger *m, orr_node_id v, orr_node_id u,
                              orr_dep_kind kind)
{
    const orr_graph_builder *b = m->b;
    const int64_t start = b->start_ns[v], end = b->start_ns[u] + b->duration_ns[u];
    if (kind == ORR_DEP_CONTROL)
        return b->start_ns[u] < start;
    return end < start || (end == start && b->duration_ns[u] > 0 && b->duration_ns[v] > 0);
}

static bool is_timed(const orr_link_merger *m, orr_node_id v)
{
    return m->b->start_ns[v] != ORR_TIME_NONE;
}

static orr_status add_host_dep(orr_link_merger *m, orr_node_id h, uint32_t d, orr_error *err)
{
    const orr_dep_kind kind = (orr_dep_kind)m->host->dep_kind[d];
    const orr_node_id v = m->node[h], u = m->node[m->host->dep[d]];
    if (is_timed(m, v) && is_timed(m, u)) {
        if (kind == ORR_DEP_THREAD || !agrees_with_times(m, v, u, kind))
            return ORR_OK; /* the device trace knows its program order better */
    } else if (!m->loose) {
        return ORR_OK;
    }
    return orr_builder_dep(m->b, v, u, kind, err);
}

/* Program order between a node and its new ancestor no longer holds. If a moved node has the times
 * of its caller, what it followed is what the caller follows. */
static orr_status add_device_dep(orr_link_merger *m, orr_node_id v, uint32_t d, orr_error *err)
{
    const orr_graph *g = m->device;
    const orr_node_id u = g->dep[d];
    const orr_dep_kind kind = (orr_dep_kind)g->dep_kind[d];
    if (kind == ORR_DEP_THREAD && (m->moved[v] || m->moved[u])) {
        if (is_inside(m->b, v, u) || is_inside(m->b, u, v))
            return ORR_OK;
        while (m->moved[v] && contains(g, v, m->b->parent[v]) &&
               !is_inside(m->b, u, m->b->parent[v]))
            v = m->b->parent[v];
    }
    return orr_builder_dep(m->b, v, u, kind, err);
}

orr_status orr_link_merger_add_deps(orr_link_merger *m, orr_error *err)
{
    const orr_graph *device = m->device, *host = m->host;
    for (orr_node_id v = 0; v < device->n_nodes; v++)
        for (uint32_t d = device->dep_first[v]; d < device->dep_first[v + 1]; d++)
            ORR_TRY(add_device_dep(m, v, d, err));
    for (orr_node_id h = 0; h < host->n_nodes; h++)
        for (uint32_t d = host->dep_first[h]; d < host->dep_first[h + 1]; d++)
            ORR_TRY(add_host_dep(m, h, d, err));
    return ORR_OK;
}
