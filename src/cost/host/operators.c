/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cost/host/overheads.h"

/* From a graph to the list of operators that the host timeline (timeline.c) needs. */
typedef struct top {
    orr_node_id node;
    uint32_t behind; /* index in its lane after it */
} top;

typedef struct listing {
    const orr_graph *graph;
    orr_node_id *work_of; /* shape (N): first work that a call launched, or ORR_NONE */
    orr_array(top) tops;
    orr_array(orr_node_id) calls; /* of one operator, while it is read */
    orr_arena *arena;
    orr_error *err;
} listing;

static orr_status find_work(listing *l)
{
    const orr_graph *g = l->graph;
    l->work_of = orr_calloc(g->n_nodes > 0 ? g->n_nodes : 1, sizeof *l->work_of);
    if (l->work_of == NULL)
        return orr_fail_memory(l->err);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        l->work_of[v] = ORR_NONE;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++)
            if (g->dep_kind[i] == ORR_DEP_LAUNCH && l->work_of[g->dep[i]] == ORR_NONE)
                l->work_of[g->dep[i]] = v;
    return ORR_OK;
}

static int64_t end_of(const orr_graph *g, orr_node_id v)
{
    return g->start_ns[v] + g->duration_ns[v];
}

static orr_status find_tops(listing *l, orr_lane_id lane)
{
    const orr_graph *g = l->graph;
    int64_t last_end = INT64_MIN;
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        if (g->start_ns[v] == ORR_TIME_NONE || g->start_ns[v] < last_end ||
            !orr_is_top_level_operator(g, v))
            continue;
        if (!orr_array_push(&l->tops, ((top){v, i + 1})))
            return orr_fail_memory(l->err);
        last_end = end_of(g, v);
    }
    return ORR_OK;
}

static int by_start(const void *a, const void *b, void *ctx)
{
    const orr_graph *g = ctx;
    const orr_node_id x = ((const top *)a)->node, y = ((const top *)b)->node;
    if (g->start_ns[x] != g->start_ns[y])
        return g->start_ns[x] < g->start_ns[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

static orr_status take_calls(listing *l, const top *t)
{
    const orr_graph *g = l->graph;
    const uint32_t lane_end = g->lane_first[g->lane[t->node] + 1];
    int64_t last_end = INT64_MIN; /* a call inside of a call is no launch of its own */
    l->calls.n = 0;
    for (uint32_t i = t->behind; i < lane_end; i++) {
        const orr_node_id v = g->lane_node[i];
        if (g->start_ns[v] >= end_of(g, t->node))
            break;
        if (!orr_is_launch_call(g, v, l->work_of[v] != ORR_NONE) || g->start_ns[v] < last_end)
            continue;
        if (!orr_array_push(&l->calls, v))
            return orr_fail_memory(l->err);
        last_end = end_of(g, v);
    }
    return ORR_OK;
}

static bool communicates(const orr_graph *g, orr_node_id work)
{
    return g->kind[work] == ORR_NODE_COLLECTIVE || g->kind[work] == ORR_NODE_SEND ||
           g->kind[work] == ORR_NODE_RECV;
}

static orr_status fill_op(listing *l, orr_node_id node, orr_host_op *op)
{
    const orr_graph *g = l->graph;
    const char *name = orr_graph_str(g, g->name[node]);
    const size_t n = l->calls.n;
    const char **launches = orr_arena_array(l->arena, const char *, n);
    double *kernel_us = orr_arena_array(l->arena, double, n);
    *op = (orr_host_op){.name = orr_arena_strndup(l->arena, name, strlen(name)),
                        .launches = launches,
                        .n_launches = (uint32_t)n,
                        .kernel_us = kernel_us,
                        .n_kernels = (uint32_t)n,
                        .annotation = g->kind[node] == ORR_NODE_ANNOTATION};
    if (launches == NULL || kernel_us == NULL || op->name == NULL)
        return orr_fail_memory(l->err);
    for (size_t i = 0; i < n; i++) {
        const char *call = orr_graph_str(g, g->name[l->calls.at[i]]);
        const orr_node_id work = l->work_of[l->calls.at[i]];
        launches[i] = orr_arena_strndup(l->arena, call, strlen(call));
        if (launches[i] == NULL)
            return orr_fail_memory(l->err);
        kernel_us[i] = work == ORR_NONE ? 0 : (double)g->duration_ns[work] / 1e3;
        op->stream |= work != ORR_NONE && communicates(g, work);
    }
    return ORR_OK;
}

static orr_status list_ops(listing *l, const orr_host_op **ret, size_t *ret_n)
{
    const orr_graph *g = l->graph;
    ORR_TRY(find_work(l));
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++)
        if (g->lanes[lane].kind == ORR_LANE_HOST)
            ORR_TRY(find_tops(l, lane));
    if (l->tops.n > 0)
        qsort_r(l->tops.at, l->tops.n, sizeof *l->tops.at, by_start, (void *)g);
    orr_host_op *ops = orr_arena_array(l->arena, orr_host_op, l->tops.n);
    if (ops == NULL)
        return orr_fail_memory(l->err);
    for (size_t i = 0; i < l->tops.n; i++) {
        ORR_TRY(take_calls(l, &l->tops.at[i]));
        ORR_TRY(fill_op(l, l->tops.at[i].node, &ops[i]));
    }
    *ret = ops;
    *ret_n = l->tops.n;
    return ORR_OK;
}

orr_status orr_host_ops_of_graph(const orr_graph *graph, orr_arena *arena, const orr_host_op **ret,
                                 size_t *ret_n, orr_error *err)
{
    listing l = {.graph = graph, .arena = arena, .err = err};
    const orr_status status = list_ops(&l, ret, ret_n);
    orr_free(l.work_of);
    orr_array_done(&l.tops);
    orr_array_done(&l.calls);
    return status;
}
