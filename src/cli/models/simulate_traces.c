/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/models/simulate.h"

/* A trace a rank is for other simulators and for looking at; more files than this is a mistake. */
enum { TRACES_MAX = 1 << 16 };

static orr_status make_folder(const char *path, orr_error *err)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    return ORR_OK;
}

static orr_status write_rank(const orr_job_request *r, const char *folder, uint32_t rank,
                             orr_error *err)
{
    const orr_graph *graph;
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/rank.%u.et", folder, rank) >= sizeof path)
        return orr_fail(err, ORR_INVALID, "--ranks-as-trace: the name of the folder is too long");
    ORR_TRY(orr_outcome_rank(&r->outcome, rank, &graph, err));
    const orr_status status = orr_trace_write(path, ORR_FORMAT_CHAKRA, graph, err);
    orr_graph_free(graph);
    return status;
}

/* Groups by number, each the list of its ranks, as ASTRA-sim's --comm-group-configuration takes it.
 * The numbers are those that the traces name. */
static orr_status write_groups(const orr_job_request *r, const char *folder, orr_error *err)
{
    const orr_grouping *groupings;
    orr_output *out;
    uint32_t number = 0, n = 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/groups.json", folder);
    ORR_TRY(orr_outcome_groups(&r->outcome, r->session->arena, &groupings, &n, err));
    ORR_TRY(orr_output_open(path, &out, err));
    orr_output_text(out, "{");
    for (uint32_t i = 0; i < n; i++) {
        const orr_grouping *grouping = &groupings[i];
        for (uint32_t g = 0; g < grouping->n_groups; g++, number++) {
            orr_output_printf(out, "%s\n\"%u\":[", number ? "," : "", number + 1);
            for (uint32_t m = grouping->first[g]; m < grouping->first[g + 1]; m++)
                orr_output_printf(out, "%s%u", m > grouping->first[g] ? "," : "",
                                  grouping->members[m]);
            orr_output_text(out, "]");
        }
    }
    orr_output_text(out, "\n}\n");
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}

orr_status orr_simulate_write_rank_traces(const orr_job_request *request)
{
    orr_session *session = request->session;
    const char *folder = session->settings->ranks_as_trace;
    orr_error *err = &session->err;
    if (request->outcome.n_ranks > TRACES_MAX)
        return orr_fail(err, ORR_LIMIT, "--ranks-as-trace: %u ranks are more files than %d",
                        request->outcome.n_ranks, TRACES_MAX);
    ORR_TRY(make_folder(folder, err));
    for (uint32_t rank = 0; rank < request->outcome.n_ranks; rank++)
        ORR_TRY(write_rank(request, folder, rank, err));
    ORR_TRY(write_groups(request, folder, err));
    orr_session_remark(session, "%u traces written to %s", request->outcome.n_ranks, folder);
    return ORR_OK;
}
