/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/retime.h"

#include <orrery/ensemble.h>

#include "base/alloc.h"
#include "graph/lane_rows.h"

/* A graph with its own start times and durations that shares all other columns with another graph.
 */

void orr_retimed_free(orr_frozen *frozen)
{
    const orr_graph *g = &frozen->graph;
    orr_free((void *)g->start_ns);
    orr_free((void *)g->duration_ns);
    orr_free((void *)g->lane_first);
    orr_free((void *)g->lane_node);
    orr_free(frozen);
}

static orr_status fail_time(orr_error *err, orr_node_id v)
{
    return orr_fail(err, ORR_INVALID, "node %u: times more than 2^63 ns apart", v);
}

/* Shifts the first start to 0 and adds the difference to base_ns, as in any frozen graph. */
static orr_status copy_times(const orr_retiming *from, orr_graph *g, int64_t *start_ns,
                             int64_t *duration_ns, orr_error *err)
{
    int64_t first = INT64_MAX;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (from->start_ns[v] != ORR_TIME_NONE && from->start_ns[v] < first)
            first = from->start_ns[v];
    if (first == INT64_MAX)
        first = 0;
    if (__builtin_add_overflow(from->base_ns, first, &g->base_ns))
        return fail_time(err, 0);
    g->span_ns = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        int64_t end, clock;
        duration_ns[v] = from->duration_ns[v];
        start_ns[v] = from->start_ns[v];
        if (duration_ns[v] < 0)
            return orr_fail(err, ORR_INVALID, "node %u: negative duration", v);
        if (start_ns[v] == ORR_TIME_NONE)
            continue;
        if (__builtin_sub_overflow(start_ns[v], first, &start_ns[v]) ||
            __builtin_add_overflow(start_ns[v], duration_ns[v], &end) ||
            __builtin_add_overflow(end, g->base_ns, &clock))
            return fail_time(err, v);
        if (end > g->span_ns)
            g->span_ns = end;
    }
    return ORR_OK;
}

orr_status orr_graph_retime(const orr_graph *graph, const orr_retiming *retiming,
                            const orr_graph **ret, orr_error *err)
{
    orr_frozen *frozen = orr_malloc(sizeof *frozen);
    int64_t *start_ns = orr_calloc(graph->n_nodes, sizeof *start_ns);
    int64_t *duration_ns = orr_calloc(graph->n_nodes, sizeof *duration_ns);
    orr_lane_rows rows = {0};
    orr_status status = ORR_OK;

    if (frozen == NULL || (graph->n_nodes > 0 && (start_ns == NULL || duration_ns == NULL))) {
        status = orr_fail_memory(err);
        goto out;
    }
    *frozen = *orr_frozen_of(graph);
    frozen->retimed = true;
    orr_graph *g = &frozen->graph;
    ORR_TRY_OUT(status, copy_times(retiming, g, start_ns, duration_ns, err));
    const orr_lane_columns columns = {g->n_nodes, g->n_lanes, g->lane, start_ns, duration_ns};
    ORR_TRY_OUT(status, orr_lane_rows_sort(&columns, &rows, err));
    g->start_ns = start_ns;
    g->duration_ns = duration_ns;
    g->lane_first = rows.first;
    g->lane_node = rows.node;
    if (retiming->rank != ORR_NONE)
        g->rank = retiming->rank;
    *ret = g;
    return ORR_OK;
out:
    orr_lane_rows_done(&rows);
    orr_free(start_ns);
    orr_free(duration_ns);
    orr_free(frozen);
    return status;
}
