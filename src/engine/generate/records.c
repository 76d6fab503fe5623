/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of a generator: the trace of what ran, and the experts that were chosen. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/generate/experts.h"

#include <orrery/trace.h>

/* One of several ranks writes to a folder. */
static orr_status name_trace(const orr_generator *g, char *ret, size_t room, orr_error *err)
{
    const char *path = g->options.record;
    if (g->parallel == NULL) {
        snprintf(ret, room, "%s", path);
        return ORR_OK;
    }
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    snprintf(ret, room, "%s/rank%u.et", path, g->parallel->rank);
    return ORR_OK;
}

orr_status orr_generator_write_trace(orr_generator *g, orr_error *err)
{
    const uint32_t rank = g->parallel != NULL ? g->parallel->rank : 0,
                   ranks = g->parallel != NULL ? g->parallel->placement->ranks : 1;
    char path[4096];
    const orr_graph *graph;
    ORR_TRY(name_trace(g, path, sizeof path, err));
    ORR_TRY(orr_recorder_graph(g->recorder, rank, ranks, &graph, err));
    const orr_status status = orr_trace_write(path, orr_format_from_path(path), graph, err);
    orr_graph_free(graph);
    return status;
}

/* All layers with experts, whose numbers are in the generator's arena. */
static orr_status source_of(const orr_generator *g, orr_route_source *ret, orr_error *err)
{
    uint32_t *number = orr_arena_array(g->arena, uint32_t, g->model.layers);
    if (number == NULL)
        return orr_fail_memory(err);
    *ret = (orr_route_source){
        .number = number, .top_k = g->model.moe.top_k, .experts = g->model.moe.experts};
    for (uint32_t layer = 0; layer < g->model.layers; layer++)
        if (orr_model_layer_moe(&g->model, layer))
            number[ret->layers++] = layer;
    return ORR_OK;
}

orr_status orr_generator_open_routes(orr_generator *g, orr_error *err)
{
    orr_route_source source;
    ORR_TRY(source_of(g, &source, err));
    return orr_route_recorder_new(&source, &g->routes, err);
}

orr_status orr_generator_gather_routes(orr_generator *g, const char *path, orr_error *err)
{
    orr_route_source source;
    ORR_TRY(source_of(g, &source, err));
    return orr_route_recorder_write_all(g->routes,
                                        g->parallel->communicators[ORR_AXIS_EP]->transport, &source,
                                        g->parallel->rank, path, err);
}

orr_status orr_generator_experts(const orr_generator *g, const char *path, orr_error *err)
{
    return g->routes != NULL ? orr_route_recorder_write(g->routes, path, err)
                             : orr_fail(err, ORR_UNSUPPORTED, "experts were not recorded");
}
