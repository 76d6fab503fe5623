/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

static orr_launch launch_of(const orr_view *view, orr_node_id call, orr_node_id work)
{
    const orr_graph *g = view->graph;
    const int64_t delay_ns = g->start_ns[work] - orr_end_ns(g, call);
    return (orr_launch){.rank = view->rank,
                        .correlation = g->source_id[call],
                        .call = call,
                        .work = work,
                        .name = orr_graph_str(g, g->name[work]),
                        .cpu_duration_ns = g->duration_ns[call],
                        .gpu_duration_ns = g->duration_ns[work],
                        .launch_delay_ns = delay_ns > 0 ? delay_ns : 0};
}

static orr_status launches_of_rank(orr_analysis_run *f, const orr_view *view)
{
    orr_work_list work;
    if (view->host_only)
        return ORR_OK;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    for (size_t i = 0; i < work.n; i++) {
        const orr_node_id call = orr_launch_of(view->graph, work.node[i]);
        if (call == ORR_NONE)
            continue;
        orr_launch *row = orr_analysis_add_row(f);
        if (row == NULL)
            return orr_fail_memory(f->err);
        *row = launch_of(view, call, work.node[i]);
    }
    return ORR_OK;
}

orr_status orr_analyze_launches(const orr_job *job, const orr_analysis_options *options,
                                orr_arena *arena, const orr_launch **ret_rows, size_t *ret_n,
                                orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err}, sizeof(orr_launch),
                             launches_of_rank, (const void **)ret_rows, ret_n);
}

/* `first`: of its call, which may launch a whole graph of kernels. */
static void count(orr_launch_summary *row, const orr_launch *launch, bool first,
                  const orr_analysis_options *options)
{
    row->launches++;
    row->short_kernels += launch->gpu_duration_ns < launch->cpu_duration_ns;
    row->long_delays += launch->launch_delay_ns > options->launch_delay_cutoff_ns;
    row->gpu_ns = orr_saturating_sum(row->gpu_ns, launch->gpu_duration_ns);
    row->delay_ns = orr_saturating_sum(row->delay_ns, launch->launch_delay_ns);
    if (first) {
        row->long_calls += launch->cpu_duration_ns > options->runtime_cutoff_ns;
        row->cpu_ns = orr_saturating_sum(row->cpu_ns, launch->cpu_duration_ns);
    }
}

static orr_status summary_of_rank(orr_analysis_run *f, const orr_view *view)
{
    orr_work_list work;
    if (view->host_only)
        return ORR_OK;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    int64_t *delays = orr_arena_array(f->scratch, int64_t, work.n);
    bool *seen = orr_arena_array(f->scratch, bool, view->graph->n_nodes);
    orr_launch_summary *row = orr_analysis_add_row(f);
    if (delays == NULL || seen == NULL || row == NULL)
        return orr_fail_memory(f->err);
    row->rank = view->rank;
    for (size_t i = 0; i < work.n; i++) {
        const orr_node_id call = orr_launch_of(view->graph, work.node[i]);
        if (call == ORR_NONE) {
            row->orphans++;
            continue;
        }
        const orr_launch launch = launch_of(view, call, work.node[i]);
        delays[row->launches] = launch.launch_delay_ns;
        count(row, &launch, !seen[call], &f->options);
        seen[call] = true;
    }
    if (row->launches == 0)
        return ORR_OK;
    orr_sort_ns(delays, row->launches);
    row->delay_median_ns = orr_quantile_ns(delays, row->launches, 0.5);
    row->delay_p90_ns = orr_quantile_ns(delays, row->launches, 0.9);
    row->delay_max_ns = delays[row->launches - 1];
    return ORR_OK;
}

orr_status orr_analyze_launch_summary(const orr_job *job, const orr_analysis_options *options,
                                      orr_arena *arena, const orr_launch_summary **ret_rows,
                                      size_t *ret_n, orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_launch_summary), summary_of_rank, (const void **)ret_rows,
                             ret_n);
}
