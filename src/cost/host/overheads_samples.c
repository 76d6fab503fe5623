/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/strtab.h"
#include "cost/host/overheads.h"

/* Observes overheads on a host thread as the DLRM performance model defines them: top-level
 * operators one after another, and in each its launch calls. */
typedef struct thread {
    const orr_graph *graph;
    const uint8_t *launches; /* shape (N): the node launched device work */
    orr_overhead_samples *samples;
    orr_node_id top; /* the current operator, or ORR_NONE */
    int64_t top_end;
    uint32_t n_launches; /* of the operator, so far */
    int64_t launch_end;  /* of the last launch call */
    orr_error *err;
} thread;

static const char *name_of(const thread *t, orr_node_id v)
{
    return orr_graph_str(t->graph, t->graph->name[v]);
}

bool orr_is_top_level_operator(const orr_graph *graph, orr_node_id v)
{
    const char *name = orr_graph_str(graph, graph->name[v]);
    if (graph->kind[v] == ORR_NODE_ANNOTATION)
        return strncmp(name, "Optimizer.", 10) == 0;
    return graph->kind[v] == ORR_NODE_HOST_OP && strncmp(name, "autograd::engine::", 18) != 0;
}

bool orr_is_launch_call(const orr_graph *graph, orr_node_id v, bool launched)
{
    if (graph->kind[v] != ORR_NODE_RUNTIME)
        return false;
    const char *name = orr_graph_str(graph, graph->name[v]);
    return launched || strstr(name, "LaunchKernel") != NULL ||
           strstr(name, "MemcpyAsync") != NULL || strstr(name, "MemsetAsync") != NULL;
}

static orr_status add(thread *t, orr_overhead_kind kind, const char *name, int64_t ns)
{
    const uint32_t id = orr_strtab_add(t->samples->names, name, strlen(name));
    const orr_overhead_sample sample = {(uint8_t)kind, id, (double)ns / 1e3};
    if (id == UINT32_MAX || !orr_array_push(&t->samples->rows, sample))
        return orr_fail_memory(t->err);
    return ORR_OK;
}

static orr_status leave_top(thread *t)
{
    if (t->top == ORR_NONE)
        return ORR_OK;
    const char *name = name_of(t, t->top);
    if (t->n_launches == 0)
        return add(t, ORR_T5, name, t->graph->duration_ns[t->top]);
    return t->top_end >= t->launch_end ? add(t, ORR_T3, name, t->top_end - t->launch_end) : ORR_OK;
}

static orr_status enter_top(thread *t, orr_node_id v)
{
    const int64_t start = t->graph->start_ns[v];
    ORR_TRY(leave_top(t));
    if (t->top != ORR_NONE)
        ORR_TRY(add(t, ORR_T1, "", start - t->top_end));
    t->top = v;
    t->top_end = start + t->graph->duration_ns[v];
    t->n_launches = 0;
    return ORR_OK;
}

static orr_status launch(thread *t, orr_node_id v)
{
    const int64_t start = t->graph->start_ns[v];
    const char *top = name_of(t, t->top);
    if (t->n_launches > 0 && start < t->launch_end)
        return ORR_OK; /* cuLaunchKernel inside of cudaLaunchKernel */
    if (t->n_launches == 0)
        ORR_TRY(add(t, ORR_T2, top, start - t->graph->start_ns[t->top]));
    else
        ORR_TRY(add(t, ORR_T5, top, start - t->launch_end));
    ORR_TRY(add(t, ORR_T4, name_of(t, v), t->graph->duration_ns[v]));
    t->launch_end = start + t->graph->duration_ns[v];
    t->n_launches++;
    return ORR_OK;
}

static orr_status observe_lane(thread *t, orr_lane_id lane)
{
    const orr_graph *g = t->graph;
    t->top = ORR_NONE;
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        if (g->start_ns[v] == ORR_TIME_NONE)
            continue;
        const bool inside = t->top != ORR_NONE && g->start_ns[v] < t->top_end;
        if (!inside && orr_is_top_level_operator(g, v))
            ORR_TRY(enter_top(t, v));
        else if (inside && orr_is_launch_call(g, v, t->launches[v]))
            ORR_TRY(launch(t, v));
    }
    return leave_top(t);
}

orr_status orr_overheads_collect(const orr_graph *graph, orr_overhead_samples *samples,
                                 orr_error *err)
{
    uint8_t *launches = orr_calloc(graph->n_nodes > 0 ? graph->n_nodes : 1, 1);
    if (launches == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        for (uint32_t i = graph->dep_first[v]; i < graph->dep_first[v + 1]; i++)
            if (graph->dep_kind[i] == ORR_DEP_LAUNCH)
                launches[graph->dep[i]] = 1;
    thread t = {.graph = graph, .launches = launches, .samples = samples, .err = err};
    orr_status status = ORR_OK;
    for (orr_lane_id lane = 0; lane < graph->n_lanes && status == ORR_OK; lane++)
        if (graph->lanes[lane].kind == ORR_LANE_HOST)
            status = observe_lane(&t, lane);
    orr_free(launches);
    return status;
}
