/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

/* The step that a moment of host time lies in: the last that started and has not ended. */
static size_t step_at(const orr_instance *steps, size_t n, int64_t moment_ns)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (steps[middle].from_ns <= moment_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && moment_ns < steps[low - 1].to_ns ? low - 1 : n;
}

/* Work in order of the step that launched it; work of no step is left out. */
static orr_status by_step(orr_analysis_run *f, const orr_view *view, const orr_work_list *work,
                          const orr_instance *steps, size_t n_steps, orr_keyed **ret, size_t *ret_n)
{
    const orr_graph *g = view->graph;
    orr_keyed *order = orr_arena_array(f->scratch, orr_keyed, work->n);
    if (order == NULL)
        return orr_fail_memory(f->err);
    size_t n = 0;
    for (size_t i = 0; i < work->n; i++) {
        const orr_node_id caller =
            view->host_only ? work->node[i] : orr_launch_of(g, work->node[i]);
        const size_t step =
            caller == ORR_NONE ? n_steps : step_at(steps, n_steps, g->start_ns[caller]);
        if (step < n_steps)
            order[n++] = (orr_keyed){.key = (int64_t)step, .id = (uint32_t)i};
    }
    *ret = order;
    *ret_n = n;
    return orr_sort_keyed(order, n, f->scratch, f->err);
}

static orr_status fill_row(orr_analysis_run *f, const orr_view *view, const orr_work_list *work,
                           orr_step_summary *row)
{
    orr_interval_set computation, communication, both, busy;
    ORR_TRY(orr_interval_set_of_work(view, work, ORR_CLASS_COMPUTATION, f->scratch, &computation,
                                     f->err));
    ORR_TRY(orr_interval_set_of_work(view, work, ORR_CLASS_COMMUNICATION, f->scratch,
                                     &communication, f->err));
    ORR_TRY(orr_interval_set_of_work(view, work, ORR_CLASS_ANY, f->scratch, &busy, f->err));
    ORR_TRY(orr_interval_set_union(&computation, &communication, f->scratch, &both, f->err));
    row->device_span_ns = busy.n == 0 ? 0 : busy.at[busy.n - 1].to_ns - busy.at[0].from_ns;
    row->compute_ns = orr_interval_set_length(&computation);
    row->exposed_comm_ns = orr_interval_set_length(&both) - row->compute_ns;
    row->idle_ns = row->device_span_ns - orr_interval_set_length(&busy);
    return ORR_OK;
}

static orr_status add_step(orr_analysis_run *f, const orr_view *view, const orr_instance *step,
                           const orr_work_list *work)
{
    const orr_graph *g = view->graph;
    orr_step_summary row = {.rank = view->rank,
                            .name = orr_graph_str(g, g->name[step->node]),
                            .number = step->number,
                            .start_ns = orr_view_job_ns(view, step->from_ns),
                            .duration_ns = step->to_ns - step->from_ns};
    const orr_arena_mark mark = orr_arena_get_mark(f->scratch);
    ORR_TRY(fill_row(f, view, work, &row));
    orr_arena_rewind(f->scratch, mark);
    orr_step_summary *added = orr_analysis_add_row(f);
    if (added == NULL)
        return orr_fail_memory(f->err);
    *added = row;
    return ORR_OK;
}

static orr_status steps_of_rank(orr_analysis_run *f, const orr_view *view)
{
    const orr_instance *steps;
    size_t n_steps = 0, n = 0;
    orr_work_list work;
    orr_keyed *order = NULL;
    ORR_TRY(orr_find_instances(view->graph, f->options.annotation, f->scratch, &steps, &n_steps,
                               f->err));
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    ORR_TRY(by_step(f, view, &work, steps, n_steps, &order, &n));

    orr_node_id *node = orr_arena_array(f->scratch, orr_node_id, n);
    uint8_t *class = orr_arena_array(f->scratch, uint8_t, n);
    if (node == NULL || class == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < n; i++) {
        node[i] = work.node[order[i].id];
        class[i] = work.class[order[i].id];
    }
    for (size_t step = 0, at = 0; step < n_steps; step++) {
        const size_t first = at;
        while (at < n && order[at].key == (int64_t)step)
            at++;
        if (steps[step].from_ns < view->from_ns || steps[step].to_ns > view->to_ns)
            continue;
        const orr_work_list of_step = {
            .node = node + first, .class = class + first, .n = at - first};
        ORR_TRY(add_step(f, view, &steps[step], &of_step));
    }
    return ORR_OK;
}

orr_status orr_analyze_steps(const orr_job *job, const orr_analysis_options *options,
                             orr_arena *arena, const orr_step_summary **ret_rows, size_t *ret_n,
                             orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_step_summary), steps_of_rank, (const void **)ret_rows,
                             ret_n);
}
