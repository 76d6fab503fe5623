/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/common/writer.h"

#include <orrery/trace.h>

#include "base/alloc.h"
#include "graph/job.h"

/* Writes a graph or a job in the format asked for: complete or not at all, compressed by the path's
 * ending. */

static bool is_timed(const orr_graph *graph)
{
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        if (graph->start_ns[v] != ORR_TIME_NONE)
            return true;
    return graph->n_nodes == 0;
}

static orr_status write_set(const orr_write_set *set, orr_format format, orr_output *out,
                            orr_error *err)
{
    bool timed = false;
    for (uint32_t i = 0; i < set->n; i++)
        timed |= is_timed(set->graphs[i]);
    if (!timed)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "the recording has no times, so there is no timeline to write; "
                        "link it to a device trace first, or write .et");
    return format == ORR_FORMAT_CHROME ? orr_chrome_write(set, out, err)
                                       : orr_perfetto_write(set, out, err);
}

static orr_status write_graph(const orr_graph *graph, orr_format format, orr_output *out,
                              orr_error *err)
{
    const int64_t no_shift = 0;
    const orr_write_set set = {.graphs = &graph,
                               .shift_ns = &no_shift,
                               .ranks = &graph->rank,
                               .n = 1,
                               .base_ns = graph->base_ns};
    if (format == ORR_FORMAT_CHAKRA || format == ORR_FORMAT_JSON || format == ORR_FORMAT_TEXT)
        return orr_chakra_write_as(graph, format, out, err);
    if (format == ORR_FORMAT_DOT)
        return orr_dot_write(graph, out, err);
    if (format == ORR_FORMAT_GRAPHML)
        return orr_graphml_write(graph, out, err);
    return write_set(&set, format, out, err);
}

static bool is_written(orr_format format)
{
    return format == ORR_FORMAT_CHAKRA ||
           (format >= ORR_FORMAT_PERFETTO && format <= ORR_FORMAT_GRAPHML);
}

orr_status orr_trace_write(const char *path, orr_format format, const orr_graph *graph,
                           orr_error *err)
{
    orr_output *out;
    if (!is_written(format))
        return orr_fail(err, ORR_UNSUPPORTED, "%s: recordings are not written as %s", path,
                        orr_format_name(format));
    ORR_TRY(orr_output_open(path, &out, err));
    orr_status status = write_graph(graph, format, out, err);
    if (status == ORR_OK)
        status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}

/* The distinct graphs of the job, each on the job's clock. */
static orr_status write_job(const orr_job *job, orr_format format, orr_output *out, orr_error *err)
{
    int64_t *shift_ns = orr_calloc(job->n_graphs, sizeof *shift_ns);
    if (shift_ns == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < job->n_graphs; i++)
        shift_ns[i] = orr_ns_sub_saturating(
            orr_ns_add_saturating(job->graphs[i]->base_ns, job->clock_offset_ns[i]), job->base_ns);
    const orr_write_set set = {.graphs = job->graphs,
                               .shift_ns = shift_ns,
                               .ranks = job->rank_of_graph,
                               .n = job->n_graphs,
                               .base_ns = job->base_ns};
    const orr_status status = write_set(&set, format, out, err);
    orr_free(shift_ns);
    return status;
}

orr_status orr_job_write(const char *path, orr_format format, const orr_job *job, orr_error *err)
{
    orr_output *out;
    if (format != ORR_FORMAT_CHROME && format != ORR_FORMAT_PERFETTO)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: one file for all ranks is written as chrome or perfetto, not as %s",
                        path, orr_format_name(format));
    ORR_TRY(orr_output_open(path, &out, err));
    orr_status status = write_job(job, format, out, err);
    if (status == ORR_OK)
        status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}
