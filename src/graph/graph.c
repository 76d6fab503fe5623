/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/graph.h>

#include <string.h>

#include "base/alloc.h"
#include "graph/device_work.h"
#include "graph/frozen.h"
#include "graph/retime.h"

const char *orr_graph_str(const orr_graph *graph, orr_str s)
{
    return s < graph->n_strings ? orr_strtab_text(orr_frozen_of(graph)->strings, s) : "";
}

size_t orr_graph_str_len(const orr_graph *graph, orr_str s)
{
    return s < graph->n_strings ? orr_strtab_len(orr_frozen_of(graph)->strings, s) : 0;
}

orr_str orr_graph_find_str(const orr_graph *graph, const char *text)
{
    return orr_strtab_find(orr_frozen_of(graph)->strings, text, strlen(text));
}

const orr_comm *orr_graph_comm(const orr_graph *graph, orr_node_id id)
{
    return graph->flags[id] & ORR_FLAG_COMM ? &graph->comms[graph->detail[id]] : NULL;
}

const orr_copy *orr_graph_copy(const orr_graph *graph, orr_node_id id)
{
    return graph->flags[id] & ORR_FLAG_COPY ? &graph->copies[graph->detail[id]] : NULL;
}

const orr_memory *orr_graph_memory(const orr_graph *graph, orr_node_id id)
{
    return graph->flags[id] & ORR_FLAG_MEMORY ? &graph->memories[graph->detail[id]] : NULL;
}

orr_attr_iter orr_graph_attrs(const orr_graph *graph, orr_node_id id)
{
    const orr_frozen *frozen = orr_frozen_of(graph);
    return orr_attr_heap_list(&frozen->attr_heap,
                              id == ORR_NONE ? frozen->recording_attrs : frozen->attrs[id]);
}

bool orr_graph_find_attr(const orr_graph *graph, orr_node_id id, const char *name,
                         orr_attr *ret_attr)
{
    const orr_str wanted = orr_graph_find_str(graph, name);
    if (wanted == ORR_NONE)
        return false;
    orr_attr_iter iter = orr_graph_attrs(graph, id);
    for (orr_attr attr; orr_attr_next(&iter, &attr);) {
        if (attr.name == wanted) {
            *ret_attr = attr;
            return true;
        }
    }
    return false;
}

uint32_t orr_group_rank(const orr_group *group, uint32_t r)
{
    if (r >= group->size)
        return ORR_NONE;
    if (group->ranks != NULL)
        return group->ranks[r];
    const int64_t rank = group->start + (int64_t)group->stride * r;
    return group->start >= 0 && rank >= 0 && rank < ORR_NONE ? (uint32_t)rank : ORR_NONE;
}

orr_status orr_graph_dependants(const orr_graph *g, orr_arena *arena, orr_edges *ret,
                                orr_error *err)
{
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)g->n_nodes + 1);
    orr_node_id *node = orr_arena_array(arena, orr_node_id, g->n_deps);
    uint8_t *kind = orr_arena_array(arena, uint8_t, g->n_deps);
    if (first == NULL || node == NULL || kind == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < g->n_deps; i++)
        first[g->dep[i] + 1]++;
    for (uint32_t v = 0; v < g->n_nodes; v++)
        first[v + 1] += first[v];
    for (uint32_t v = 0; v < g->n_nodes; v++) {
        for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++) {
            const uint32_t to = first[g->dep[i]]++;
            node[to] = v;
            kind[to] = g->dep_kind[i];
        }
    }
    for (uint32_t v = g->n_nodes; v > 0; v--)
        first[v] = first[v - 1];
    first[0] = 0;
    *ret = (orr_edges){first, node, kind};
    return ORR_OK;
}

void orr_graph_free(const orr_graph *g)
{
    if (g == NULL)
        return;
    orr_frozen *frozen = (orr_frozen *)g;
    if (frozen->retimed) {
        orr_retimed_free(frozen);
        return;
    }
    const void *const owned[] = {
        g->name,     g->kind,       g->flags,     g->lane,      g->start_ns,   g->duration_ns,
        g->parent,   g->source_id,  g->detail,    g->dep_first, g->dep,        g->dep_kind,
        g->lanes,    g->lane_first, g->lane_node, g->tensors,   g->comms,      g->copies,
        g->memories, g->io_first,   g->io_out,    g->io,        frozen->attrs,
    };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        orr_free((void *)owned[i]);
    for (uint32_t i = 0; i < g->n_groups; i++)
        orr_free((void *)g->groups[i].ranks);
    orr_free((void *)g->groups);
    orr_strtab_free(frozen->strings);
    orr_attr_heap_done(&frozen->attr_heap);
    orr_free(frozen);
}

size_t orr_graph_core_bytes(const orr_graph *g)
{
    const size_t node_bytes = sizeof *g->name + sizeof *g->kind + sizeof *g->flags +
                              sizeof *g->lane + sizeof *g->start_ns + sizeof *g->duration_ns +
                              sizeof *g->parent + sizeof *g->source_id + sizeof *g->detail +
                              sizeof *g->dep_first + sizeof *g->lane_node +
                              sizeof *orr_frozen_of(g)->attrs;
    size_t bytes = sizeof(orr_frozen) + g->n_nodes * node_bytes +
                   g->n_deps * (sizeof *g->dep + sizeof *g->dep_kind) +
                   g->n_lanes * (sizeof *g->lanes + sizeof *g->lane_first) +
                   g->n_groups * sizeof *g->groups + g->n_comms * sizeof *g->comms +
                   g->n_copies * sizeof *g->copies + g->n_memories * sizeof *g->memories;
    for (uint32_t i = 0; i < g->n_groups; i++)
        if (g->groups[i].ranks != NULL)
            bytes += g->groups[i].size * sizeof *g->groups[i].ranks;
    return bytes;
}

size_t orr_graph_held_bytes(const orr_graph *g)
{
    const orr_frozen *frozen = orr_frozen_of(g);
    size_t bytes = orr_graph_core_bytes(g) + orr_strtab_held_bytes(frozen->strings) +
                   orr_attr_heap_bytes(&frozen->attr_heap) + g->n_tensors * sizeof *g->tensors;
    if (g->io_first != NULL)
        bytes += g->n_nodes * (sizeof *g->io_first + sizeof *g->io_out) +
                 g->io_first[g->n_nodes] * sizeof *g->io;
    return bytes;
}

#define TEXT(name, text) text,
static const char *const node_names[] = {ORR_NODE_MAP(TEXT)};
static const char *const dep_names[] = {ORR_DEP_MAP(TEXT)};
static const char *const collective_names[] = {ORR_COLLECTIVE_MAP(TEXT)};
#undef TEXT
#define NAME_OF(names, value)                                                                      \
    ((size_t)(value) < sizeof(names) / sizeof *(names) ? (names)[value] : "unknown")

const char *orr_node_kind_name(orr_node_kind kind)
{
    return NAME_OF(node_names, kind);
}

const char *orr_dep_kind_name(orr_dep_kind kind)
{
    return NAME_OF(dep_names, kind);
}

const char *orr_collective_name(orr_collective collective)
{
    return NAME_OF(collective_names, collective);
}

bool orr_graph_on_device(const orr_graph *graph, orr_node_id id)
{
    return graph->kind[id] >= ORR_NODE_COMPUTE && graph->kind[id] <= ORR_NODE_SYNC &&
           graph->lanes[graph->lane[id]].kind == ORR_LANE_STREAM;
}

bool orr_graph_has_device_work(const orr_graph *graph)
{
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        if (orr_graph_on_device(graph, v))
            return true;
    return false;
}
