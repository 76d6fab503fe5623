/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of a generator: the trace of what ran, and the experts that were chosen. */
#include "engine/generate/generator.h"
#include "io/stream/output.h"

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

/* Layers with experts, by their number in the model. */
static void put_heading(const orr_generator *g, orr_output *out)
{
    orr_output_text(out, "request,phase,token");
    for (uint32_t layer = 0; layer < g->model.layers; layer++)
        if (orr_model_layer_moe(&g->model, layer))
            orr_output_printf(out, ",L%u", layer);
    orr_output_text(out, "\n");
}

orr_status orr_generator_experts(const orr_generator *g, const char *path, orr_error *err)
{
    orr_output *out;
    if (!g->options.record_experts)
        return orr_fail(err, ORR_UNSUPPORTED, "experts were not recorded");
    ORR_TRY(orr_output_open(path, &out, err));
    put_heading(g, out);
    orr_output_write(out, g->experts.at, g->experts.n);
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}
