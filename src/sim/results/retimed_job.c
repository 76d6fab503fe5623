/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/sim.h>

#include "base/alloc.h"

static orr_status retime(const orr_simulation *s, const orr_timeline *timeline,
                         const orr_graph **ret, orr_error *err)
{
    const orr_retiming retiming = {.start_ns = timeline->start_ns,
                                   .duration_ns = timeline->duration_ns,
                                   .rank = timeline->rank};
    return orr_graph_retime(s->ensemble->graphs[timeline->graph], &retiming, ret, err);
}

/* The timeline of each graph of the recorded job: that of its rank. */
static orr_status timeline_of_graph(const orr_simulation *s, const orr_job *job, uint32_t d,
                                    const orr_timeline **ret, orr_error *err)
{
    const uint32_t rank = job->rank_of_graph[d];
    const uint32_t class = rank < s->ensemble->n_ranks ? s->class_of_rank[rank] : ORR_NONE;
    if (class == ORR_NONE || s->ensemble->graphs[s->timelines[class].graph] != job->graphs[d])
        return orr_fail(err, ORR_INVALID, "rank %u: the simulation is not one of this job", rank);
    *ret = &s->timelines[class];
    return ORR_OK;
}

orr_status orr_simulation_job(const orr_simulation *simulation, const orr_job *job,
                              const orr_job **ret, orr_error *err)
{
    const uint32_t n = job ? job->n_graphs : simulation->n_classes;
    const orr_graph **graphs = orr_calloc((size_t)n + 1, sizeof *graphs);
    orr_status status = ORR_OK;
    if (graphs == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_timeline *timeline = &simulation->timelines[job ? 0 : i];
        if (job != NULL)
            ORR_TRY_OUT(status, timeline_of_graph(simulation, job, i, &timeline, err));
        ORR_TRY_OUT(status, retime(simulation, timeline, &graphs[i], err));
    }
    status = job ? orr_job_retime(job, graphs, ret, err) : orr_job_build(graphs, n, ret, err);
out:
    for (uint32_t i = 0; status != ORR_OK && i < n; i++)
        orr_graph_free(graphs[i]);
    orr_free(graphs);
    return status;
}
