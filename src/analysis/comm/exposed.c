/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/comm/collectives.h"

/* Group of communication as a key; work whose group was not recorded is one group. */
static uint32_t group_of(const orr_graph *g, orr_node_id v)
{
    const orr_comm *comm = orr_graph_comm(g, v);
    return comm == NULL ? ORR_NONE : comm->group;
}

/* One group's communication: by_group[0..n) are rows of `work`. Time in which two of its
 * communications run at once counts once. */
static orr_status row_of_group(orr_analysis_run *frame, const orr_view *view,
                               const orr_work_list *work, const orr_keyed *by_group, size_t n,
                               const orr_interval_set *computation)
{
    const orr_graph *g = view->graph;
    const uint32_t group = group_of(g, work->node[by_group[0].id]);
    orr_interval *any = orr_arena_array(frame->scratch, orr_interval, n);
    orr_exposed *row = orr_analysis_add_row(frame);
    if (any == NULL || row == NULL)
        return orr_fail_memory(frame->err);
    row->rank = view->rank;
    row->group = group == ORR_NONE ? "" : orr_group_label(g, &g->groups[group]);
    row->count = n;
    for (size_t i = 0; i < n; i++) {
        const orr_node_id v = work->node[by_group[i].id];
        const orr_comm *comm = orr_graph_comm(g, v);
        any[i] = (orr_interval){g->start_ns[v], orr_end_ns(g, v)};
        if (comm != NULL && orr_comm_bytes(comm) > 0)
            row->bytes = orr_saturating_sum(row->bytes, orr_comm_bytes(comm));
    }
    orr_interval_set communication;
    ORR_TRY(orr_interval_set_from(any, n, frame->scratch, &communication, frame->err));
    row->comm_ns = orr_interval_set_length(&communication);
    row->exposed_ns = row->comm_ns - orr_interval_set_overlap(&communication, computation);
    row->exposed_frac = orr_frac((double)row->exposed_ns, (double)row->comm_ns);
    return ORR_OK;
}

static orr_status exposed_of_rank(orr_analysis_run *frame, const orr_view *view)
{
    orr_work_list work;
    orr_interval_set computation;
    ORR_TRY(orr_view_work(view, frame->scratch, &work, frame->err));
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_COMPUTATION, frame->scratch,
                                     &computation, frame->err));
    orr_keyed *by_group = orr_arena_array(frame->scratch, orr_keyed, work.n);
    if (by_group == NULL)
        return orr_fail_memory(frame->err);
    size_t n = 0;
    for (size_t i = 0; i < work.n; i++)
        if (work.class[i] == ORR_CLASS_COMMUNICATION)
            by_group[n++] =
                (orr_keyed){.key = group_of(view->graph, work.node[i]), .id = (uint32_t)i};
    ORR_TRY(orr_sort_keyed(by_group, n, frame->scratch, frame->err));
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && by_group[end].key == by_group[i].key;)
            end++;
        ORR_TRY(row_of_group(frame, view, &work, by_group + i, end - i, &computation));
    }
    return ORR_OK;
}

orr_status orr_analyze_exposed(const orr_job *job, const orr_analysis_options *options,
                               orr_arena *arena, const orr_exposed **ret_rows, size_t *ret_n,
                               orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err}, sizeof(orr_exposed),
                             exposed_of_rank, (const void **)ret_rows, ret_n);
}
