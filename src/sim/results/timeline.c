/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/results/timeline.h"

#include <math.h>

#include "sim/results/energy.h"

/* Does the node execute, or is it an annotation over other nodes? */
bool orr_sim_executes(const orr_graph *graph, orr_node_id v)
{
    switch (graph->kind[v]) {
    case ORR_NODE_HOST_OP:
    case ORR_NODE_RUNTIME:
    case ORR_NODE_COMPUTE:
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
    case ORR_NODE_COPY:
    case ORR_NODE_SET:
    case ORR_NODE_MEM_LOAD:
    case ORR_NODE_MEM_STORE:
        return true;
    default:
        return false;
    }
}

static orr_status fill(const orr_engine *engine, const orr_actor *actor, orr_arena *arena,
                       orr_timeline *ret, orr_error *err)
{
    const orr_sim_program *program = actor->prepared->program;
    const orr_graph *graph = program->graph;
    const int64_t *time_ns = engine->time_ns + actor->first_point;
    int64_t *start_ns = orr_arena_array(arena, int64_t, graph->n_nodes);
    int64_t *duration_ns = orr_arena_array(arena, int64_t, graph->n_nodes);
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    if (start_ns == NULL || duration_ns == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < graph->n_nodes; v++) {
        if (program->start_point[v] == ORR_NONE) {
            start_ns[v] = ORR_TIME_NONE;
            continue;
        }
        const int64_t from_ns = time_ns[program->start_point[v]];
        const int64_t to_ns = time_ns[program->end_point[v]];
        if (from_ns == INT64_MAX || to_ns == INT64_MAX)
            return orr_fail(err, ORR_LIMIT, "rank %u, node %u '%s': beyond 2^63 ns", actor->rank, v,
                            orr_graph_str(graph, graph->name[v]));
        start_ns[v] = from_ns;
        duration_ns[v] = to_ns - from_ns;
        if (!orr_sim_executes(graph, v))
            continue;
        if (from_ns < begin_ns)
            begin_ns = from_ns;
        if (to_ns > end_ns)
            end_ns = to_ns;
    }
    if (begin_ns == INT64_MAX) /* nothing executes */
        begin_ns = end_ns = actor->start_ns;
    *ret = (orr_timeline){.graph = actor->graph,
                          .rank = actor->rank,
                          .n_ranks = actor->n_ranks,
                          .start_ns = start_ns,
                          .duration_ns = duration_ns,
                          .begin_ns = begin_ns,
                          .end_ns = end_ns,
                          .energy_j = NAN};
    return ORR_OK;
}

orr_status orr_timelines_of(const orr_engine *engine, const orr_fold *fold, orr_arena *arena,
                            orr_simulation *ret, orr_error *err)
{
    orr_timeline *timelines = orr_arena_array(arena, orr_timeline, engine->n_actors);
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    if (timelines == NULL)
        return orr_fail_memory(err);
    for (uint32_t a = 0; a < engine->n_actors; a++) {
        ORR_TRY(fill(engine, &engine->actors[a], arena, &timelines[a], err));
        if (timelines[a].begin_ns < begin_ns)
            begin_ns = timelines[a].begin_ns;
        if (timelines[a].end_ns > end_ns)
            end_ns = timelines[a].end_ns;
    }
    orr_basis_sums(engine, timelines, ret->basis_ns);
    ret->begin_ns = engine->n_actors > 0 ? begin_ns : 0;
    ret->end_ns = engine->n_actors > 0 ? end_ns : 0;
    ret->n_classes = fold->n_classes;
    ret->class_of_rank = fold->class_of_rank;
    ret->timelines = timelines;
    ret->n_events = engine->n_settled;
    const orr_cluster *cluster = engine->options->cluster;
    const orr_device *device = engine->options->device;
    if (device == NULL && cluster != NULL)
        device = cluster->device;
    return device ? orr_energy_of(engine, device, ret, timelines, err) : ORR_OK;
}
