/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/samples.h"

/* Samples from a recording: every kernel, memcpy and memset of known work. */

static orr_status device_of(const orr_graph *graph, const orr_catalog *catalog,
                            const orr_device **ret, orr_error *err)
{
    const char *name = orr_graph_str(graph, graph->device_name);

    if (*name == '\0')
        return orr_fail(err, ORR_NOT_FOUND,
                        "the recording does not say which device it ran on; name it (--device)");
    *ret = orr_catalog_recognise(catalog, name);
    if (*ret == NULL)
        return orr_fail(err, ORR_NOT_FOUND,
                        "the catalogue knows no device '%s'; name one of its own (--device)", name);
    return ORR_OK;
}

static bool is_priced(const orr_graph *graph, orr_node_id id)
{
    return graph->kind[id] == ORR_NODE_COMPUTE || graph->kind[id] == ORR_NODE_COPY ||
           graph->kind[id] == ORR_NODE_SET;
}

static bool has_priced(const orr_graph *graph)
{
    for (orr_node_id id = 0; id < graph->n_nodes; id++)
        if (is_priced(graph, id))
            return true;
    return false;
}

static orr_status add_node(orr_samples *samples, const orr_graph *graph, orr_node_id id,
                           const orr_device *device, orr_samples_report *report, orr_error *err)
{
    orr_cost_sample sample = {.device = device, .ns = (double)graph->duration_ns[id]};

    if (graph->duration_ns[id] <= 0) {
        report->without_time++;
        return ORR_OK;
    }
    const orr_status status = orr_work_of_node(graph, id, &sample.work, err);
    if (status == ORR_UNSUPPORTED) {
        report->without_work++;
        return ORR_OK;
    }
    ORR_TRY(status);
    return orr_samples_add(samples, &sample, report, err);
}

static orr_status add_graph(orr_samples *samples, const orr_graph *graph,
                            const orr_catalog *catalog, const orr_device *device,
                            orr_samples_report *report, orr_error *err)
{
    if (!has_priced(graph))
        return ORR_OK;
    if (device == NULL)
        ORR_TRY(device_of(graph, catalog, &device, err));
    for (orr_node_id id = 0; id < graph->n_nodes; id++)
        if (is_priced(graph, id))
            ORR_TRY(add_node(samples, graph, id, device, report, err));
    return ORR_OK;
}

orr_status orr_samples_add_job(orr_samples *samples, const orr_job *job, const orr_catalog *catalog,
                               const orr_device *device, const char *source,
                               orr_samples_report *ret, orr_error *err)
{
    const size_t before = samples->rows.n;
    orr_samples_report report = {0};
    orr_status status = ORR_OK;

    for (uint32_t g = 0; g < job->n_graphs && status == ORR_OK; g++)
        status = add_graph(samples, job->graphs[g], catalog, device, &report, err);
    if (status == ORR_OK)
        status = orr_samples_add_source(samples, source, err);
    if (status == ORR_OK)
        *ret = report;
    else
        samples->rows.n = before;
    return status;
}
