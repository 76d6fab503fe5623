/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "analysis/common.h"
#include "base/array.h"

const char *orr_class_name(orr_class class)
{
    switch (class) {
    case ORR_CLASS_COMPUTATION:
        return "COMPUTATION";
    case ORR_CLASS_COMMUNICATION:
        return "COMMUNICATION";
    case ORR_CLASS_MEMORY:
        return "MEMORY";
    default:
        return "OTHER";
    }
}

orr_class orr_class_of_kind(orr_node_kind kind)
{
    switch (kind) {
    case ORR_NODE_COMPUTE:
        return ORR_CLASS_COMPUTATION;
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
        return ORR_CLASS_COMMUNICATION;
    case ORR_NODE_COPY:
    case ORR_NODE_SET:
        return ORR_CLASS_MEMORY;
    default:
        return ORR_CLASS_NONE;
    }
}

/* Class of a node on a host thread, where that is all there is. */
static orr_class host_class(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_HOST_OP ? ORR_CLASS_COMPUTATION
                                          : orr_class_of_kind((orr_node_kind)g->kind[v]);
}

/* How the nodes of a rank without a device are nested. All NULL with a device. */
typedef struct nesting {
    const orr_node_id *op;    /* nearest operator or communication above */
    const orr_node_id *comm;  /* the nearest communication above             */
    const bool *communicates; /* it communicates, or something below it does */
} nesting;

/* Whether the node requests a communication, wherever that runs. */
static bool asks_to_communicate(const orr_graph *g, orr_node_id v)
{
    if ((g->flags[v] & ORR_FLAG_COMM) || host_class(g, v) == ORR_CLASS_COMMUNICATION)
        return true;
    return g->kind[v] == ORR_NODE_HOST_OP &&
           strncmp(orr_graph_str(g, g->name[v]), "c10d::", 6) == 0;
}

static orr_status find_communicating(const orr_graph *g, orr_arena *arena, const bool **ret,
                                     orr_error *err)
{
    bool *communicates = orr_arena_array(arena, bool, g->n_nodes);
    if (communicates == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (asks_to_communicate(g, v))
            for (orr_node_id u = v; u != ORR_NONE && !communicates[u]; u = g->parent[u])
                communicates[u] = true;
    *ret = communicates;
    return ORR_OK;
}

static orr_status find_nesting(const orr_view *view, orr_arena *arena, nesting *ret, orr_error *err)
{
    const uint32_t comm = ORR_KIND(COLLECTIVE) | ORR_KIND(SEND) | ORR_KIND(RECV);
    *ret = (nesting){0};
    if (!view->host_only)
        return ORR_OK;
    ORR_TRY(find_communicating(view->graph, arena, &ret->communicates, err));
    ORR_TRY(orr_nearest_ancestor(view->graph, comm, arena, &ret->comm, err));
    return orr_nearest_ancestor(view->graph, comm | ORR_KIND(HOST_OP), arena, &ret->op, err);
}

/* Host classes: a communication that is in no other; an operator that neither communicates nor is
 * in one that does not. The remaining time of those that do is waiting. */
static orr_class class_on_host(const orr_graph *g, orr_node_id v, const nesting *in)
{
    const orr_class class = host_class(g, v);
    if (class == ORR_CLASS_COMMUNICATION)
        return in->comm[v] == ORR_NONE ? class : ORR_CLASS_NONE;
    if (class == ORR_CLASS_NONE || in->communicates[v])
        return ORR_CLASS_NONE;
    const orr_node_id over = in->op[v];
    const bool outermost =
        over == ORR_NONE || (g->kind[over] == ORR_NODE_HOST_OP && in->communicates[over]);
    return outermost ? class : ORR_CLASS_NONE;
}

static orr_class class_of(const orr_graph *g, orr_node_id v, const nesting *in)
{
    if (in->op != NULL)
        return class_on_host(g, v, in);
    return orr_graph_on_device(g, v) ? orr_class_of_kind((orr_node_kind)g->kind[v])
                                     : ORR_CLASS_NONE;
}

typedef orr_array(orr_keyed) keyed_array;

/* Lane by lane, so that what is found is sorted runs; host threads hold no device work. */
static orr_status find_work(const orr_view *view, const nesting *in, keyed_array *found,
                            orr_error *err)
{
    const orr_graph *g = view->graph;
    for (uint32_t lane = 0; lane < g->n_lanes; lane++) {
        if (!view->host_only && g->lanes[lane].kind == ORR_LANE_HOST)
            continue;
        for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
            const orr_node_id v = g->lane_node[i];
            if (g->start_ns[v] == ORR_TIME_NONE || class_of(g, v, in) == ORR_CLASS_NONE ||
                !orr_view_holds(view, v))
                continue;
            if (!orr_array_push(found, ((orr_keyed){.key = g->start_ns[v], .id = v})))
                return orr_fail_memory(err);
        }
    }
    return ORR_OK;
}

orr_status orr_view_work(const orr_view *view, orr_arena *arena, orr_work_list *ret, orr_error *err)
{
    orr_status status;
    keyed_array found = {0};
    nesting in;
    orr_arena *scratch = orr_arena_new(0, 0);
    if (scratch == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, find_nesting(view, scratch, &in, err));
    ORR_TRY_OUT(status, find_work(view, &in, &found, err));
    ORR_TRY_OUT(status, orr_sort_keyed(found.at, found.n, scratch, err));

    orr_node_id *node = orr_arena_array(arena, orr_node_id, found.n);
    uint8_t *class = orr_arena_array(arena, uint8_t, found.n);
    if (node == NULL || class == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (size_t i = 0; i < found.n; i++) {
        node[i] = found.at[i].id;
        class[i] = (uint8_t)class_of(view->graph, found.at[i].id, &in);
    }
    *ret = (orr_work_list){.node = node, .class = class, .n = found.n};
out:
    orr_array_done(&found);
    orr_arena_free(scratch);
    return status;
}

orr_status orr_interval_set_of_work(const orr_view *view, const orr_work_list *work,
                                    unsigned classes, orr_arena *arena, orr_interval_set *ret,
                                    orr_error *err)
{
    const orr_graph *g = view->graph;
    orr_interval *any = orr_arena_array(arena, orr_interval, work->n);
    if (any == NULL)
        return orr_fail_memory(err);
    size_t n = 0;
    for (size_t i = 0; i < work->n; i++)
        if (work->class[i] & classes)
            any[n++] = (orr_interval){g->start_ns[work->node[i]], orr_end_ns(g, work->node[i])};
    return orr_interval_set_from(any, n, arena, ret, err);
}
