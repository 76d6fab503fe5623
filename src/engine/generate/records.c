/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of a generator: the trace of what ran, and the experts that were chosen. */
#include "engine/generate/generator.h"

#include <orrery/trace.h>

orr_status orr_generator_write_trace(orr_generator *g, orr_error *err)
{
    const char *path = g->options.record;
    const orr_graph *graph;
    ORR_TRY(orr_recorder_graph(g->recorder, 0, 1, &graph, err));
    const orr_status status = orr_trace_write(path, orr_format_from_path(path), graph, err);
    orr_graph_free(graph);
    return status;
}

orr_status orr_generator_open_routes(orr_generator *g, orr_error *err)
{
    orr_route_source source = {.top_k = g->model.moe.top_k, .experts = g->model.moe.experts};
    uint32_t *number = orr_arena_array(g->arena, uint32_t, g->model.layers);
    if (number == NULL)
        return orr_fail_memory(err);
    for (uint32_t layer = 0; layer < g->model.layers; layer++)
        if (orr_model_layer_moe(&g->model, layer))
            number[source.layers++] = layer;
    source.number = number;
    return orr_route_recorder_new(&source, &g->routes, err);
}

orr_status orr_generator_experts(const orr_generator *g, const char *path, orr_error *err)
{
    return g->routes != NULL ? orr_route_recorder_write(g->routes, path, err)
                             : orr_fail(err, ORR_UNSUPPORTED, "experts were not recorded");
}
