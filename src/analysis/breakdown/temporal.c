/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

/* When the last member of the communication began, on the axis of the view; its own start where it
 * is not matched. */
static int64_t last_arrival_ns(const orr_view *view, orr_node_id v)
{
    const orr_job *job = view->job;
    const uint32_t *match_of = job->match_of[view->graph_id];
    const int64_t own_ns = orr_job_start_ns(job, view->graph_id, v);
    int64_t latest_ns = own_ns;
    if (match_of == NULL || match_of[v] == ORR_NONE)
        return view->graph->start_ns[v];
    const orr_match *match = &job->matches[match_of[v]];
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const orr_member *m = &job->members[i];
        if (job->graphs[m->graph]->start_ns[m->node] == ORR_TIME_NONE)
            continue;
        const int64_t start_ns = orr_job_start_ns(job, m->graph, m->node);
        latest_ns = start_ns > latest_ns ? start_ns : latest_ns;
    }
    return view->graph->start_ns[v] + (latest_ns - own_ns);
}

/* When a communication of the rank waited for a peer that had not begun, and none that it had to
 * wait for moved. Sends are left out: a rank goes on beside them. */
static orr_status find_waits(const orr_view *view, const orr_work_list *work, orr_arena *arena,
                             orr_interval_set *ret, orr_error *err)
{
    const orr_graph *g = view->graph;
    orr_interval *waits = orr_arena_array(arena, orr_interval, work->n);
    orr_interval *moves = orr_arena_array(arena, orr_interval, work->n);
    orr_interval_set waiting, moving;
    size_t n_waits = 0, n_moves = 0;
    if (waits == NULL || moves == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < work->n; i++) {
        const orr_node_id v = work->node[i];
        if (work->class[i] != ORR_CLASS_COMMUNICATION || g->kind[v] == ORR_NODE_SEND)
            continue;
        const int64_t start_ns = g->start_ns[v], end_ns = orr_end_ns(g, v);
        const int64_t arrival_ns = last_arrival_ns(view, v);
        const int64_t begun_ns = arrival_ns < end_ns ? arrival_ns : end_ns;
        waits[n_waits++] = (orr_interval){start_ns, begun_ns};
        moves[n_moves++] = (orr_interval){begun_ns, end_ns};
    }
    ORR_TRY(orr_interval_set_from(waits, n_waits, arena, &waiting, err));
    ORR_TRY(orr_interval_set_from(moves, n_moves, arena, &moving, err));
    return orr_interval_set_difference(&waiting, &moving, arena, ret, err);
}

static orr_status temporal_of_rank(orr_analysis_run *f, const orr_view *view)
{
    orr_work_list work;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    if (work.n == 0)
        return ORR_OK;

    orr_interval_set computation, communication, both, busy, waits;
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_COMPUTATION, f->scratch, &computation,
                                     f->err));
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_COMMUNICATION, f->scratch,
                                     &communication, f->err));
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_ANY, f->scratch, &busy, f->err));
    ORR_TRY(find_waits(view, &work, f->scratch, &waits, f->err));
    ORR_TRY(orr_interval_set_union(&computation, &communication, f->scratch, &both, f->err));

    orr_temporal *row = orr_analysis_add_row(f);
    if (row == NULL)
        return orr_fail_memory(f->err);
    const int64_t busy_ns = orr_interval_set_length(&busy),
                  both_ns = orr_interval_set_length(&both);
    row->rank = view->rank;
    row->host_only = view->host_only;
    row->span_ns = busy.n == 0 ? 0 : busy.at[busy.n - 1].to_ns - busy.at[0].from_ns;
    row->idle_ns = row->span_ns - busy_ns;
    row->compute_ns = orr_interval_set_length(&computation);
    row->non_compute_ns = busy_ns - row->compute_ns;
    row->exposed_comm_ns = both_ns - row->compute_ns;
    row->exposed_memory_ns = busy_ns - both_ns;
    row->bubble_ns =
        orr_interval_set_length(&waits) - orr_interval_set_overlap(&waits, &computation);
    row->idle_frac = orr_frac((double)row->idle_ns, (double)row->span_ns);
    row->compute_frac = orr_frac((double)row->compute_ns, (double)row->span_ns);
    row->non_compute_frac = orr_frac((double)row->non_compute_ns, (double)row->span_ns);
    return ORR_OK;
}

orr_status orr_analyze_temporal(const orr_job *job, const orr_analysis_options *options,
                                orr_arena *arena, const orr_temporal **ret_rows, size_t *ret_n,
                                orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_temporal), temporal_of_rank, (const void **)ret_rows,
                             ret_n);
}
